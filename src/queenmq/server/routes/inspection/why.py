"""GET /api/v1/why/{queue}: one answer to "why is this not moving?"."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.engine.diagnosis.facts import (
    BrokerFacts,
    PartitionFacts,
    QueueFacts,
    hide_error_texts,
)
from queenmq.engine.diagnosis.findings import Finding, diagnose
from queenmq.errors import NotFound
from queenmq.server.answers.responses import json_answer
from queenmq.server.auth.callers import may_read_messages
from queenmq.server.requests.checks import check_name, quote
from queenmq.server.requests.queries import parse_query
from queenmq.server.requests.times import iso, iso_or_none
from queenmq.server.routing.spec import route
from queenmq.settings import Settings
from queenmq.storage.stores.inspection import InspectionStore


class WhyRoutes:
    """The diagnosis of a group. `broker` returns what this process knows of a queue."""

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

    @route(
        "GET",
        "/api/v1/why/{queue:name}",
        wire.Diagnosis,
        query={"partition": str, "consumerGroup": str},
    )
    async def show(self, request: Request) -> Response:
        """Return findings about a queue or one of its partitions, for one consumer group."""
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
            raise NotFound(f"queue {quote(queue)} does not exist; check its name")
        if partition is not None and not facts.partitions:
            raise NotFound(
                f"partition {quote(partition)} of queue {quote(queue)} does not exist; check both"
                " names"
            )
        if not may_read_messages(request):
            facts = hide_error_texts(facts)
        broker = self._broker(facts)
        findings = diagnose(facts, broker)
        return json_answer(_answer(facts, broker, findings))

    def _name(self, field: str, value: str) -> str:
        return check_name(field, value, length_max=self._settings.max_name_length)


def _answer(facts: QueueFacts, broker: BrokerFacts, findings: list[Finding]) -> wire.Diagnosis:
    behind = facts.behind
    return wire.Diagnosis(
        queue=facts.queue,
        partition=facts.partition,
        consumer_group=facts.consumer_group,
        summary=findings[0].message,
        findings=[
            wire.Finding(one.code, one.message, one.action, list(one.partitions))
            for one in findings
        ],
        backlog=behind.backlog,
        oldest_message=iso_or_none(behind.oldest_at),
        partition_counts=wire.PartitionsByState(
            all=facts.partitions,
            behind=behind.behind,
            ready=behind.ready,
            leased=behind.leased,
            waiting=behind.waiting,
            blocked=behind.blocked,
        ),
        partitions=[_partition(one) for one in behind.details],
        operations=wire.WaitingOperations(
            pending=facts.operations.pending,
            processing=facts.operations.processing,
            failed=facts.operations.failed,
        ),
        broker=wire.BrokerState(
            waiting_pops=broker.waiting_pops,
            buffered_pushes=broker.spool_records,
            maintenance_mode=broker.is_push_buffered,
            pop_maintenance_mode=broker.is_pop_paused,
        ),
        groups=list(facts.groups),
        timestamp=iso(facts.now),
    )


def _partition(one: PartitionFacts) -> wire.StuckPartition:
    return wire.StuckPartition(
        partition=one.partition,
        partition_id=one.partition_id,
        state=one.state,
        backlog=one.backlog,
        next_transaction_id=one.oldest_id,
        oldest_message=iso_or_none(one.oldest_at),
        lease_id=one.lease_id if one.lease_expires_at is not None else None,
        lease_expires_at=iso_or_none(one.lease_expires_at),
        leased_messages=one.lease_messages,
        retry_count=one.retry_count,
        retry_at=iso_or_none(one.retry_at),
        last_error=one.retry_error,
        expired_leases=one.expiry_count,
        blocked_transaction_id=one.blocked_id,
        last_consumed_at=iso_or_none(one.last_consumed_at),
    )
