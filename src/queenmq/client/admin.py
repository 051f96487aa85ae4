"""Owns `queen.admin`: what operators and dashboards ask for. Answers are the server's JSON.

A server that does not have a route answers 404, which is NotFound here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from queenmq.client.calls import quoted, with_query
from queenmq.client.http.transport import Transport


class Admin:
    """Questions and orders by the names of the official client."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def _get(self, path: str, query: dict[str, Any] | None = None) -> Any:
        return await self._transport.call("GET", with_query(path, query or {}))

    async def get_overview(self) -> Any:
        return await self._get("/api/v1/resources/overview")

    async def get_namespaces(self) -> Any:
        return await self._get("/api/v1/resources/namespaces")

    async def get_tasks(self) -> Any:
        return await self._get("/api/v1/resources/tasks")

    async def list_queues(self, **query: Any) -> Any:
        return await self._get("/api/v1/resources/queues", query)

    async def get_queue(self, name: str) -> Any:
        return await self._get(f"/api/v1/resources/queues/{quoted(name)}")

    async def get_partitions(self, **query: Any) -> Any:
        return await self._get("/api/v1/resources/partitions", query)

    async def list_messages(self, **query: Any) -> Any:
        """Newest first; `queue`, `partition`, `ns`, `task`, `status`, `limit`, `offset`, and
        `**{"from": ...}`, `to`.
        """
        return await self._get("/api/v1/messages", query)

    async def get_message(self, partition_id: str, transaction_id: str) -> Any:
        return await self._get(f"/api/v1/messages/{quoted(partition_id)}/{quoted(transaction_id)}")

    async def list_dead_letters(self, **query: Any) -> Any:
        """Latest failure first; `queue`, `consumerGroup`, `partition`, `limit`, `offset`."""
        return await self._get("/api/v1/dlq", query)

    async def retry_dead_letters(
        self,
        queue: str | None = None,
        *,
        group: str | None = None,
        partition: str | None = None,
        older_than_seconds: int | None = None,
        limit: int | None = None,
    ) -> Any:
        """Push dead letters again; repeat while `remaining` is true and `pushed` is not 0."""
        body = _letters(queue, group, partition, older_than_seconds, limit)
        return await self._transport.call("POST", "/api/v1/dlq/retry", body)

    async def purge_dead_letters(
        self,
        queue: str | None = None,
        *,
        group: str | None = None,
        partition: str | None = None,
        older_than_seconds: int | None = None,
        limit: int | None = None,
    ) -> Any:
        """Forget dead letters; repeat while `remaining` is true."""
        query = _letters(queue, group, partition, older_than_seconds, limit)
        return await self._transport.call("DELETE", with_query("/api/v1/dlq", query))

    async def why(
        self, queue: str, *, partition: str | None = None, group: str | None = None
    ) -> Any:
        """Why the queue, or one partition of it, does not move for a group: `findings`."""
        query = {"partition": partition, "consumerGroup": group}
        return await self._get(f"/api/v1/why/{quoted(queue)}", query)

    async def add_trace(
        self,
        partition_id: str,
        transaction_id: str,
        data: Any,
        *,
        names: str | Sequence[str] = (),
        event_type: str = "info",
        group: str | None = None,
    ) -> Any:
        """Record something about a message; `message.trace` does it for one in hand."""
        body = {
            "partitionId": partition_id,
            "transactionId": transaction_id,
            "data": data,
            "traceNames": [names] if isinstance(names, str) else list(names),
            "eventType": event_type,
            "consumerGroup": group,
        }
        return await self._transport.call("POST", "/api/v1/traces", body)

    async def get_traces_by_name(self, trace_name: str, **query: Any) -> Any:
        return await self._get(f"/api/v1/traces/by-name/{quoted(trace_name)}", query)

    async def get_trace_names(self, **query: Any) -> Any:
        return await self._get("/api/v1/traces/names", query)

    async def get_traces_for_message(self, partition_id: str, transaction_id: str) -> Any:
        return await self._get(f"/api/v1/traces/{quoted(partition_id)}/{quoted(transaction_id)}")

    async def get_status(self, **query: Any) -> Any:
        return await self._get("/api/v1/status", query)

    async def get_queue_stats(self, **query: Any) -> Any:
        return await self._get("/api/v1/status/queues", query)

    async def get_queue_detail(self, name: str, **query: Any) -> Any:
        return await self._get(f"/api/v1/status/queues/{quoted(name)}", query)

    async def get_queue_messages(self, name: str, **query: Any) -> Any:
        """The newest messages of a queue, in short."""
        return await self._get(f"/api/v1/status/queues/{quoted(name)}/messages", query)

    async def get_buffers(self) -> Any:
        """What the broker that answers keeps on its disk."""
        return await self._get("/api/v1/status/buffers")

    async def get_analytics(self, **query: Any) -> Any:
        return await self._get("/api/v1/status/analytics", query)

    async def list_consumer_groups(self) -> Any:
        return await self._get("/api/v1/consumer-groups")

    async def get_consumer_group(self, name: str) -> Any:
        return await self._get(f"/api/v1/consumer-groups/{quoted(name)}")

    async def get_maintenance_mode(self) -> Any:
        return await self._get("/api/v1/system/maintenance")

    async def get_pop_maintenance_mode(self) -> Any:
        return await self._get("/api/v1/system/maintenance/pop")

    async def get_system_metrics(self, **query: Any) -> Any:
        return await self._get("/api/v1/analytics/system-metrics", query)

    async def get_worker_metrics(self, **query: Any) -> Any:
        return await self._get("/api/v1/analytics/worker-metrics", query)

    async def get_postgres_stats(self) -> Any:
        return await self._get("/api/v1/analytics/postgres-stats")

    async def health(self) -> Any:
        return await self._get("/health")

    async def metrics(self) -> Any:
        return await self._get("/metrics")

    async def get_lagging_consumers(self, min_lag_seconds: int = 60) -> Any:
        return await self._get(
            "/api/v1/consumer-groups/lagging", {"minLagSeconds": min_lag_seconds}
        )

    async def clear_queue(self, name: str, partition: str | None = None) -> Any:
        path = with_query(f"/api/v1/queues/{quoted(name)}/clear", {"partition": partition})
        return await self._transport.call("DELETE", path)

    async def delete_partition(self, queue: str, partition: str) -> Any:
        """Delete a partition with its messages; raises NotFound if there is none."""
        path = f"/api/v1/resources/queues/{quoted(queue)}/partitions/{quoted(partition)}"
        return await self._transport.call("DELETE", path)

    async def delete_message(self, partition_id: str, transaction_id: str) -> Any:
        path = f"/api/v1/messages/{quoted(partition_id)}/{quoted(transaction_id)}"
        return await self._transport.call("DELETE", path)

    async def retry_message(self, partition_id: str, transaction_id: str) -> Any:
        """Push a dead message again, at the end of its partition."""
        path = f"/api/v1/messages/{quoted(partition_id)}/{quoted(transaction_id)}/retry"
        return await self._transport.call("POST", path, {})

    async def move_message_to_dlq(
        self, partition_id: str, transaction_id: str, error: str | None = None
    ) -> Any:
        """Take a message out of its partition, to the dead letters of who has not passed it."""
        path = f"/api/v1/messages/{quoted(partition_id)}/{quoted(transaction_id)}/dlq"
        return await self._transport.call("POST", path, {"error": error} if error else {})

    async def refresh_consumer_stats(self) -> Any:
        return await self._transport.call("POST", "/api/v1/stats/refresh", {})

    async def delete_consumer_group_for_queue(
        self, group: str, queue: str, delete_metadata: bool = True
    ) -> Any:
        path = f"/api/v1/consumer-groups/{quoted(group)}/queues/{quoted(queue)}"
        query = {"deleteMetadata": "true" if delete_metadata else "false"}
        return await self._transport.call("DELETE", with_query(path, query))

    async def seek_consumer_group(
        self, group: str, queue: str, options: dict[str, Any] | None = None
    ) -> Any:
        """`{"toEnd": True}` or `{"timestamp": ...}`."""
        path = f"/api/v1/consumer-groups/{quoted(group)}/queues/{quoted(queue)}/seek"
        return await self._transport.call("POST", path, options or {})

    async def set_maintenance_mode(self, enabled: bool) -> Any:
        return await self._transport.call(
            "POST", "/api/v1/system/maintenance", {"enabled": enabled}
        )

    async def set_pop_maintenance_mode(self, enabled: bool) -> Any:
        return await self._transport.call(
            "POST", "/api/v1/system/maintenance/pop", {"enabled": enabled}
        )

    async def list_operations(self, **query: Any) -> Any:
        """Queued pushes, newest first; `status`, `queue`, `limit`, `offset`."""
        return await self._get("/api/v1/operations", query)

    async def get_operation(self, operation_id: str) -> Any:
        return await self._get(f"/api/v1/operations/{quoted(operation_id)}")

    async def get_operation_stats(self) -> Any:
        return await self._get("/api/v1/operations/stats")

    async def retry_operation(self, operation_id: str) -> Any:
        path = f"/api/v1/operations/{quoted(operation_id)}/retry"
        return await self._transport.call("POST", path, {})

    async def list_set_aside(self, **query: Any) -> Any:
        """Pushes that this broker accepted and could not store, oldest first; `limit`, `offset`."""
        return await self._get("/api/v1/operations/aside", query)

    async def retry_all_operations(self) -> Any:
        """Retry everything that this broker has set aside, and every failed operation."""
        return await self._transport.call("POST", "/api/v1/operations/retry", {})

    async def discard_operation(self, operation_id: str) -> Any:
        path = f"/api/v1/operations/{quoted(operation_id)}/discard"
        return await self._transport.call("POST", path, {})


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
