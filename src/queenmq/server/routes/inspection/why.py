"""GET /api/v1/why/{queue}: one answer to "why is this not moving?"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from queenmq.engine.diagnosis.facts import BrokerFacts, PartitionFacts, QueueFacts
from queenmq.engine.diagnosis.findings import Finding, diagnose
from queenmq.errors import NotFound
from queenmq.server.answers.responses import json_answer
from queenmq.server.requests.checks import check_name, shown
from queenmq.server.requests.queries import parse_query
from queenmq.server.requests.times import iso_or_none
from queenmq.settings import Settings
from queenmq.storage.stores.inspection import InspectionStore


class WhyRoutes:
    """`broker` tells what this process knows of a queue, beside what the database does."""

    def __init__(
        self,
        store: InspectionStore,
        settings: Settings,
        *,
        broker: Callable[[QueueFacts], BrokerFacts],
    ) -> None:
        self._store = store
        self._settings = settings
        self._broker = broker

    async def show(self, request: Request) -> Response:
        """Findings about a queue or one of its partitions, for one consumer group."""
        query = parse_query(request.scope["query_string"])
        queue = self._name("queue", request.path_params["queue"])
        partition = query.get("partition") or None
        group = query.get("consumerGroup") or None
        if partition is not None:
            self._name("partition", partition)
        if group is not None:
            self._name("consumerGroup", group)
        facts = await self._store.queue_facts(queue, partition, group)
        if facts is None:
            raise NotFound(f"queue {shown(queue)} does not exist; check its name")
        if partition is not None and not facts.partitions:
            raise NotFound(
                f"partition {shown(partition)} of queue {shown(queue)} does not exist; check both"
                " names"
            )
        broker = self._broker(facts)
        findings = diagnose(facts, broker)
        return json_answer(_answer(facts, broker, findings))

    def _name(self, field: str, value: str) -> str:
        return check_name(field, value, length_max=self._settings.max_name_length)


def _answer(facts: QueueFacts, broker: BrokerFacts, findings: list[Finding]) -> dict[str, Any]:
    behind = facts.behind
    return {
        "queue": facts.queue,
        "partition": facts.partition,
        "consumerGroup": facts.consumer_group,
        "summary": findings[0].message,
        "findings": [
            {
                "code": one.code,
                "message": one.message,
                "action": one.action,
                "partitions": one.partitions,
            }
            for one in findings
        ],
        "backlog": behind.backlog,
        "oldestMessage": iso_or_none(behind.oldest_at),
        "partitionCounts": {
            "all": facts.partitions,
            "behind": behind.behind,
            "ready": behind.ready,
            "leased": behind.leased,
            "waiting": behind.waiting,
            "blocked": behind.blocked,
        },
        "partitions": [_partition(one) for one in behind.details],
        "operations": {
            "pending": facts.operations.pending,
            "processing": facts.operations.processing,
            "failed": facts.operations.failed,
        },
        "broker": {
            "waitingPops": broker.waiting_pops,
            "bufferedPushes": broker.spool_records,
            "maintenanceMode": broker.is_push_buffered,
            "popMaintenanceMode": broker.is_pop_paused,
        },
        "groups": facts.groups,
        "timestamp": iso_or_none(facts.now),
    }


def _partition(one: PartitionFacts) -> dict[str, Any]:
    return {
        "partition": one.partition,
        "partitionId": one.partition_id,
        "state": one.state,
        "backlog": one.backlog,
        "nextTransactionId": one.oldest_id,
        "oldestMessage": iso_or_none(one.oldest_at),
        "leaseId": one.lease_id if one.lease_expires_at is not None else None,
        "leaseExpiresAt": iso_or_none(one.lease_expires_at),
        "leasedMessages": one.lease_messages,
        "retryCount": one.retry_count,
        "retryAt": iso_or_none(one.retry_at),
        "lastError": one.retry_error,
        "expiredLeases": one.expiry_count,
        "blockedTransactionId": one.blocked_id,
        "lastConsumedAt": iso_or_none(one.last_consumed_at),
    }
