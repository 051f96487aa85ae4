"""Owns `queen.admin`: what operators and dashboards ask for.

Answers are the Structs of `queenmq.wire`: `queue.created_at` is `queue["createdAt"]`. A thing that
does not exist is a ResourceNotFound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, Unpack

from queenmq import wire
from queenmq.client.calls import quoted
from queenmq.client.history import HistoryCalls
from queenmq.client.message import DeadLetters
from queenmq.client.queries import (
    AnalyticsQuery,
    AuditQuery,
    DeadLetterFilter,
    MessageQuery,
    OperationQuery,
    PageQuery,
    PartitionQuery,
    QueueQuery,
    ScopeQuery,
    StatusQuery,
    TokenQuery,
)

T = TypeVar("T")


def _message(partition_id: str, transaction_id: str, action: str = "") -> str:
    return f"/api/v1/messages/{quoted(partition_id)}/{quoted(transaction_id)}{action}"


def _group_on(group: str, queue: str, action: str = "") -> str:
    return f"/api/v1/consumer-groups/{quoted(group)}/queues/{quoted(queue)}{action}"


class Admin(HistoryCalls):
    """Questions and orders by the names of the official client."""

    # Queues.

    async def get_overview(self) -> wire.Overview:
        """Add up everything: queues, messages, lags, rates."""
        return await self._get(wire.Overview, "/api/v1/resources/overview")

    async def get_namespaces(self) -> wire.NamespaceList:
        """List the namespaces that queues name."""
        return await self._get(wire.NamespaceList, "/api/v1/resources/namespaces")

    async def get_tasks(self) -> wire.TaskList:
        """List the tasks that queues name."""
        return await self._get(wire.TaskList, "/api/v1/resources/tasks")

    async def list_queues(self, **query: Unpack[QueueQuery]) -> wire.QueueList:
        """List queues with their counts, newest first.

        Args:
            query: `search` for a part of the name, `limit`, `offset`.
        """
        return await self._get(wire.QueueList, "/api/v1/resources/queues", query)

    async def get_queue(self, name: str) -> wire.QueueDetail:
        """Show a queue with its options and partitions.

        Args:
            name: The queue.
        """
        return await self._get(wire.QueueDetail, f"/api/v1/resources/queues/{quoted(name)}")

    async def get_partitions(self, **query: Unpack[PartitionQuery]) -> wire.PartitionList:
        """List the partitions of a queue or of all, by queue and name.

        Args:
            query: `queue`, `limit`, `offset`.
        """
        return await self._get(wire.PartitionList, "/api/v1/resources/partitions", query)

    async def clear_queue(self, name: str, partition: str | None = None) -> wire.QueueCleared:
        """Drop all messages of a queue, or of one partition.

        Args:
            name: The queue.
            partition: Only this partition.
        """
        path = f"/api/v1/queues/{quoted(name)}/clear"
        return await self._delete(wire.QueueCleared, path, {"partition": partition})

    async def delete_partition(self, queue: str, partition: str) -> wire.PartitionDeleted:
        """Delete a partition with its messages; raise ResourceNotFound if there is none.

        Args:
            queue: The queue.
            partition: The partition.
        """
        path = f"/api/v1/resources/queues/{quoted(queue)}/partitions/{quoted(partition)}"
        return await self._delete(wire.PartitionDeleted, path)

    # Single messages.

    async def list_messages(self, **query: Unpack[MessageQuery]) -> wire.MessageList:
        """List messages without their payloads, newest first.

        Args:
            query: `queue`, `partition`, `ns`, `task`, `status`, `from_`, `to`, `limit`, `offset`.
        """
        return await self._get(wire.MessageList, "/api/v1/messages", query)

    async def get_message(self, partition_id: str, transaction_id: str) -> wire.MessageDetail:
        """Show a message with its payload, and which groups have passed it.

        Args:
            partition_id: The message's partition.
            transaction_id: The message's name there.
        """
        return await self._get(wire.MessageDetail, _message(partition_id, transaction_id))

    async def delete_message(self, partition_id: str, transaction_id: str) -> wire.MessageDeleted:
        """Remove a message with its dead letters and traces.

        Args:
            partition_id: The message's partition.
            transaction_id: The message's name there.
        """
        return await self._delete(wire.MessageDeleted, _message(partition_id, transaction_id))

    async def retry_message(self, partition_id: str, transaction_id: str) -> wire.MessageRetried:
        """Push a dead message again, at the end of its partition.

        Args:
            partition_id: The message's partition.
            transaction_id: The message's name there.
        """
        path = _message(partition_id, transaction_id, "/retry")
        return await self._post(wire.MessageRetried, path, {})

    async def move_message_to_dlq(
        self, partition_id: str, transaction_id: str, error: str | None = None
    ) -> wire.MessageBuried:
        """Take a message out of its partition, to the dead letters of groups that need it.

        Args:
            partition_id: The message's partition.
            transaction_id: The message's name there.
            error: Why; kept with the dead letters.
        """
        path = _message(partition_id, transaction_id, "/dlq")
        return await self._post(wire.MessageBuried, path, {"error": error} if error else {})

    # Dead letters.

    async def list_dead_letters(self, **query: Unpack[DeadLetterFilter]) -> DeadLetters:
        """List dead letters, latest failure first.

        Args:
            query: `queue`, `consumerGroup`, `partition`, `from_`, `to`, `limit`, `offset`.
        """
        return await self._get(DeadLetters, "/api/v1/dlq", query)

    async def retry_dead_letters(
        self,
        queue: str | None = None,
        *,
        group: str | None = None,
        partition: str | None = None,
        older_than_seconds: int | None = None,
        limit: int | None = None,
    ) -> wire.DeadLettersRetried:
        """Push dead letters again; repeat while `remaining` is true and `pushed` is not 0.

        Args:
            queue: Only letters of this queue.
            group: Only letters of this consumer group.
            partition: Only letters of this partition.
            older_than_seconds: Only letters that died longer ago than this.
            limit: At most this many.
        """
        body = _letters(queue, group, partition, older_than_seconds, limit)
        return await self._post(wire.DeadLettersRetried, "/api/v1/dlq/retry", body)

    async def purge_dead_letters(
        self,
        queue: str | None = None,
        *,
        group: str | None = None,
        partition: str | None = None,
        older_than_seconds: int | None = None,
        limit: int | None = None,
    ) -> wire.DeadLettersPurged:
        """Forget dead letters; repeat while `remaining` is true.

        Args:
            queue: Only letters of this queue.
            group: Only letters of this consumer group.
            partition: Only letters of this partition.
            older_than_seconds: Only letters that died longer ago than this.
            limit: At most this many.
        """
        query = _letters(queue, group, partition, older_than_seconds, limit)
        return await self._delete(wire.DeadLettersPurged, "/api/v1/dlq", query)

    # Traces.

    async def add_trace(
        self,
        partition_id: str,
        transaction_id: str,
        data: Any,
        *,
        names: str | Sequence[str] = (),
        event_type: str = "info",
        group: str | None = None,
    ) -> wire.TraceAdded:
        """Record something about a message; `message.trace` does it for one in hand.

        Args:
            partition_id: The message's partition.
            transaction_id: The message's name there.
            data: What to record: anything that JSON can hold, up to 64 KiB.
            names: Names to find it by.
            event_type: A word for its kind.
            group: The consumer group that records it.
        """
        body = {
            "partitionId": partition_id,
            "transactionId": transaction_id,
            "data": data,
            "traceNames": [names] if isinstance(names, str) else list(names),
            "eventType": event_type,
            "consumerGroup": group,
        }
        return await self._post(wire.TraceAdded, "/api/v1/traces", body)

    async def get_traces_by_name(
        self, trace_name: str, **query: Unpack[PageQuery]
    ) -> wire.NamedTraceList:
        """Find traces by their name, newest first.

        Args:
            trace_name: The name.
            query: `limit`, `offset`.
        """
        path = f"/api/v1/traces/by-name/{quoted(trace_name)}"
        return await self._get(wire.NamedTraceList, path, query)

    async def get_trace_names(self, **query: Unpack[PageQuery]) -> wire.TraceNameList:
        """List the names of traces, last used first.

        Args:
            query: `limit`, `offset`.
        """
        return await self._get(wire.TraceNameList, "/api/v1/traces/names", query)

    async def get_traces_for_message(
        self, partition_id: str, transaction_id: str
    ) -> wire.TraceList:
        """List all traces of a message, oldest first.

        Args:
            partition_id: The message's partition.
            transaction_id: The message's name there.
        """
        path = f"/api/v1/traces/{quoted(partition_id)}/{quoted(transaction_id)}"
        return await self._get(wire.TraceList, path)

    # Status.

    async def why(
        self, queue: str, *, partition: str | None = None, group: str | None = None
    ) -> wire.Diagnosis:
        """Say why a queue, or one partition of it, does not move for a group.

        Args:
            queue: The queue.
            partition: Only this partition.
            group: The consumer group; by default the default one.
        """
        query = {"partition": partition, "consumerGroup": group}
        return await self._get(wire.Diagnosis, f"/api/v1/why/{quoted(queue)}", query)

    async def get_status(self, **query: Unpack[StatusQuery]) -> wire.Status:
        """Show throughput in steps, and the state of queues.

        Args:
            query: `queue`, `namespace`, `task`, `from_`, `to`.
        """
        return await self._get(wire.Status, "/api/v1/status", query)

    async def create_token(
        self,
        name: str,
        *,
        role: str = "read-only",
        queues: Sequence[str] | None = None,
        verbs: Sequence[str] | None = None,
        expires_in_days: int | None = None,
        subject: str | None = None,
    ) -> wire.NewToken:
        """Make an API token; `token` of the answer is shown this once.

        Args:
            name: By which people tell tokens apart.
            role: `read-only`, `read-write` or `admin`.
            queues: Patterns of the queues that it is limited to.
            verbs: `push`, `pop` and `admin`, as far as it is limited to some.
            expires_in_days: When it ends by itself.
            subject: Who its messages come from; the name by default.
        """
        body = {
            "name": name,
            "role": role,
            "queues": queues,
            "verbs": verbs,
            "expiresInDays": expires_in_days,
            "subject": subject,
        }
        return await self._post(wire.NewToken, "/api/v1/tokens", body)

    async def list_tokens(self, **query: Unpack[TokenQuery]) -> wire.TokenList:
        """List API tokens, newest first.

        Args:
            query: `sessions`, `limit`, `offset`.
        """
        return await self._get(wire.TokenList, "/api/v1/tokens", query)

    async def revoke_token(self, token_id: str) -> wire.TokenRevoked:
        """End a token at once.

        Args:
            token_id: Its id, as the list shows it.
        """
        return await self._delete(wire.TokenRevoked, f"/api/v1/tokens/{quoted(token_id)}")

    async def get_audit(self, **query: Unpack[AuditQuery]) -> wire.AuditLog:
        """List administrative actions, newest first.

        Args:
            query: `who`, `action`, `from_`, `to`, `limit`, `offset`.
        """
        return await self._get(wire.AuditLog, "/api/v1/audit", query)

    async def get_me(self) -> wire.Me:
        """Say who the server takes this client for, and what it may do."""
        return await self._get(wire.Me, "/api/me")

    async def get_queue_stats(self, **query: Unpack[ScopeQuery]) -> wire.QueueStatsList:
        """List queues with their counts.

        Args:
            query: `namespace`, `task`, `limit`, `offset`.
        """
        return await self._get(wire.QueueStatsList, "/api/v1/status/queues", query)

    async def get_queue_detail(self, name: str, **query: Unpack[PageQuery]) -> wire.QueueStatus:
        """Show a queue with a page of its partitions.

        Args:
            name: The queue.
            query: `limit` and `offset` of the partitions.
        """
        return await self._get(wire.QueueStatus, f"/api/v1/status/queues/{quoted(name)}", query)

    async def get_queue_messages(
        self, name: str, **query: Unpack[PageQuery]
    ) -> list[wire.MessageHead]:
        """List the newest messages of a queue, in short.

        Args:
            name: The queue.
            query: `limit`, `offset`.
        """
        path = f"/api/v1/status/queues/{quoted(name)}/messages"
        return await self._get(list[wire.MessageHead], path, query)

    async def get_buffers(self) -> wire.Buffers:
        """Show what the broker that answers keeps on its disk."""
        return await self._get(wire.Buffers, "/api/v1/status/buffers")

    async def get_analytics(self, **query: Unpack[AnalyticsQuery]) -> wire.Analytics:
        """Count messages pushed in each minute, hour or day.

        Args:
            query: `interval`, `queue`, `namespace`, `task`, `from_`, `to`.
        """
        return await self._get(wire.Analytics, "/api/v1/status/analytics", query)

    async def refresh_consumer_stats(self) -> wire.StatsRefreshed:
        """Compute the overview anew."""
        return await self._post(wire.StatsRefreshed, "/api/v1/stats/refresh", {})

    # Consumer groups.

    async def list_consumer_groups(self) -> list[wire.ConsumerGroup]:
        """List consumer groups with their lag, an element per group and queue."""
        return await self._get(list[wire.ConsumerGroup], "/api/v1/consumer-groups")

    async def get_consumer_group(self, name: str) -> dict[str, wire.GroupQueue]:
        """Show a group's partitions by queue; empty for an unknown group.

        Args:
            name: The consumer group.
        """
        path = f"/api/v1/consumer-groups/{quoted(name)}"
        return await self._get(dict[str, wire.GroupQueue], path)

    async def get_lagging_consumers(self, min_lag_seconds: int = 60) -> list[wire.LaggingPartition]:
        """List partitions in which a group is behind, worst first.

        Args:
            min_lag_seconds: The age of the oldest message that counts as a lag.
        """
        query = {"minLagSeconds": min_lag_seconds}
        path = "/api/v1/consumer-groups/lagging"
        return await self._get(list[wire.LaggingPartition], path, query)

    async def delete_consumer_group_for_queue(
        self, group: str, queue: str, delete_metadata: bool = True
    ) -> wire.GroupDeleted:
        """Forget a group on one queue.

        Args:
            group: The consumer group.
            queue: The queue.
            delete_metadata: Whether to forget where it starts as well.
        """
        query = {"deleteMetadata": "true" if delete_metadata else "false"}
        return await self._delete(wire.GroupDeleted, _group_on(group, queue), query)

    async def seek_consumer_group(
        self, group: str, queue: str, options: dict[str, Any] | None = None
    ) -> wire.GroupMoved:
        """Move a group on a queue.

        Args:
            group: The consumer group.
            queue: The queue.
            options: `{"toEnd": True}` or `{"timestamp": ...}`.
        """
        return await self._post(wire.GroupMoved, _group_on(group, queue, "/seek"), options or {})

    async def seek_partition(
        self, group: str, queue: str, partition: str, options: dict[str, Any]
    ) -> wire.GroupMovedInPartition:
        """Move a group on one partition.

        Args:
            group: The consumer group.
            queue: The queue.
            partition: The partition.
            options: `{"toEnd": True}` or `{"timestamp": ...}`.
        """
        path = _group_on(group, queue, f"/partitions/{quoted(partition)}/seek")
        return await self._post(wire.GroupMovedInPartition, path, options)

    # Leases and transactions by hand.

    async def extend_lease(self, lease_id: str, *, seconds: int = 60) -> wire.LeaseExtended:
        """Extend a live lease; raise ResourceNotFound for one that is not live any more.

        Args:
            lease_id: The lease.
            seconds: How long it lasts from now.
        """
        path = f"/api/v1/lease/{quoted(lease_id)}/extend"
        return await self._post(wire.LeaseExtended, path, {"seconds": seconds})

    async def run_transaction(self, body: dict[str, Any]) -> wire.TransactionAnswer:
        """Run a transaction as it is written; `success` says whether it was committed.

        Args:
            body: What `POST /api/v1/transaction` takes.
        """
        return await self._post(wire.TransactionAnswer, "/api/v1/transaction", body)

    # The broker.

    async def health(self) -> wire.Health:
        """Show what a broker can do, and why not more; raise ServerBusy if it is not well."""
        return await self._get(wire.Health, "/health")

    async def metrics(self) -> wire.Metrics:
        """Show what the broker has done and uses."""
        return await self._get(wire.Metrics, "/metrics")

    async def get_series(self) -> str:
        """Return the broker's series as Prometheus reads them."""
        answer = await self._transport.request("GET", "/metrics/prometheus")
        return answer.body.decode()

    async def get_shared_state(self) -> wire.BrokerMemory:
        """Show what the broker remembers of what all brokers share."""
        return await self._get(wire.BrokerMemory, "/api/v1/system/shared-state")

    async def get_maintenance_mode(self) -> wire.MaintenanceState:
        """Show whether pushes are held back, and what is on the broker's disk."""
        return await self._get(wire.MaintenanceState, "/api/v1/system/maintenance")

    async def set_maintenance_mode(self, enabled: bool) -> wire.MaintenanceSwitched:
        """Have all brokers keep pushes on disk, or store them again.

        Args:
            enabled: Whether to keep them on disk.
        """
        path = "/api/v1/system/maintenance"
        return await self._post(wire.MaintenanceSwitched, path, {"enabled": enabled})

    async def get_pop_maintenance_mode(self) -> wire.PopMaintenance:
        """Show whether pops are paused."""
        return await self._get(wire.PopMaintenance, "/api/v1/system/maintenance/pop")

    async def set_pop_maintenance_mode(self, enabled: bool) -> wire.PopMaintenance:
        """Pause all pops, or serve them again.

        Args:
            enabled: Whether to pause them.
        """
        path = "/api/v1/system/maintenance/pop"
        return await self._post(wire.PopMaintenance, path, {"enabled": enabled})

    # Operations.

    async def list_operations(self, **query: Unpack[OperationQuery]) -> wire.OperationList:
        """List queued pushes, newest first.

        Args:
            query: `status`, `queue`, `limit`, `offset`.
        """
        return await self._get(wire.OperationList, "/api/v1/operations", query)

    async def get_operation(self, operation_id: str) -> wire.Operation:
        """Show one operation, with a result per item once it is completed.

        Args:
            operation_id: Its id, as a push result names it.
        """
        return await self._get(wire.Operation, f"/api/v1/operations/{quoted(operation_id)}")

    async def get_operation_stats(self) -> wire.OperationStats:
        """Show how many operations wait, how old they are and how fast they are run."""
        return await self._get(wire.OperationStats, "/api/v1/operations/stats")

    async def retry_operation(self, operation_id: str) -> wire.OperationDecided:
        """Let a failed operation run again.

        Args:
            operation_id: Its id.
        """
        path = f"/api/v1/operations/{quoted(operation_id)}/retry"
        return await self._post(wire.OperationDecided, path, {})

    async def discard_operation(self, operation_id: str) -> wire.OperationDecided:
        """Drop an operation that is not stored yet, with its messages.

        Args:
            operation_id: Its id.
        """
        path = f"/api/v1/operations/{quoted(operation_id)}/discard"
        return await self._post(wire.OperationDecided, path, {})

    async def list_set_aside(self, **query: Unpack[PageQuery]) -> wire.AsideList:
        """List pushes that this broker accepted and could not store, oldest first.

        Args:
            query: `limit`, `offset`.
        """
        return await self._get(wire.AsideList, "/api/v1/operations/aside", query)

    async def retry_all_operations(self) -> wire.OperationsRetried:
        """Retry everything that this broker has set aside, and every failed operation."""
        return await self._post(wire.OperationsRetried, "/api/v1/operations/retry", {})


def _letters(
    queue: str | None,
    group: str | None,
    partition: str | None,
    older_than_seconds: int | None,
    limit: int | None,
) -> dict[str, Any]:
    given = {
        "queue": queue,
        "consumerGroup": group,
        "partition": partition,
        "olderThanSeconds": older_than_seconds,
        "limit": limit,
    }
    return {name: value for name, value in given.items() if value is not None}
