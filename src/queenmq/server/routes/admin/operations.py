"""The operation queue for operators: counts, lists, single operations, retry and discard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.clock import utc_now
from queenmq.engine.news import News
from queenmq.engine.queued_pushes.metrics import OperationMetrics
from queenmq.errors import Conflict, InvalidRequest, NotFound
from queenmq.server.answers.responses import json_answer
from queenmq.server.requests.checks import check_text, check_uuid, quote
from queenmq.server.requests.pages import PAGE, parse_page
from queenmq.server.requests.queries import parse_query
from queenmq.server.requests.times import iso, iso_or_none
from queenmq.server.routing.spec import route
from queenmq.storage.spool import SpoolStats
from queenmq.storage.stores.operations import PostgresOperationStore

#: Pressure from which on work is queued or slowed down.
_DEGRADED = 0.7
_ONE = "/api/v1/operations/{operation_id}"
_STATUSES = ("pending", "processing", "completed", "failed", "discarded")
#: By action: the statuses it changes, as settle_operation says, and that rule in words.
_DECISIONS = {
    "retry": (("failed",), "only a failed one can be retried"),
    "discard": (
        ("pending", "processing", "failed"),
        "only one that is not stored yet can be discarded",
    ),
}


class OperationRoutes:
    """Routes of queued pushes. Publishes when one is to run again."""

    def __init__(
        self,
        store: PostgresOperationStore,
        metrics: OperationMetrics,
        *,
        spool_stats: Callable[[], SpoolStats],
        pressure: Callable[[], float],
        news: News,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._spool_stats = spool_stats
        self._pressure = pressure
        self._news = news

    @route("GET", "/api/v1/operations/stats", wire.OperationStats)
    async def stats(self, request: Request) -> Response:
        """Counts by status, and what this broker has set aside."""
        rows = {row["status"]: row for row in await self._store.stats()}
        waiting = await self._store.count_waiting()
        self._metrics.note_depth(waiting)
        aside, pressure = self._spool_stats(), self._pressure()
        return json_answer(
            wire.OperationStats(
                depth=waiting.operations,
                oldest_age_seconds=waiting.oldest_s,
                drain_rate=self._metrics.drain_rate,
                latency_seconds=self._metrics.latency_s,
                pressure=pressure,
                system_health=health_of(pressure, undecided=waiting.failed),
                aside=wire.AsideCounts(aside.aside_records, aside.aside_bytes),
                by_status={status: _counts(rows.get(status)) for status in _STATUSES},
            )
        )

    @route(
        "GET",
        "/api/v1/operations",
        wire.OperationList,
        query={"status": str, "queue": str, **PAGE},
    )
    async def list(self, request: Request) -> Response:
        """Return a page of operations, newest first."""
        query = parse_query(request.scope["query_string"])
        status = query.get("status") or None
        if status is not None and status not in _STATUSES:
            raise InvalidRequest(f"status {quote(status)} is unknown; use one of {_STATUSES}")
        queue = check_text("queue", query.get("queue")) or None
        page = parse_page(query)
        rows, total = await self._store.list(status, queue, limit=page.limit, offset=page.offset)
        return json_answer(wire.OperationList([_operation(row) for row in rows], total, page))

    @route("GET", _ONE, wire.Operation)
    async def show(self, request: Request) -> Response:
        """Return one operation, with a result per item once it is completed."""
        operation_id = check_uuid("operationId", request.path_params["operation_id"])
        row = await self._store.find(operation_id)
        if row is None:
            raise _make_unknown(operation_id)
        return json_answer(_operation(row))

    @route("POST", _ONE + "/retry", wire.OperationDecided)
    async def retry(self, request: Request) -> Response:
        """Retry a failed operation."""
        answer = await self._decide(request, "retry", "pending")
        self._news.retried()
        return answer

    @route("POST", _ONE + "/discard", wire.OperationDecided)
    async def discard(self, request: Request) -> Response:
        """Drop an operation that is not stored yet, with its messages."""
        return await self._decide(request, "discard", "discarded")

    async def _decide(self, request: Request, action: str, becomes: str) -> Response:
        operation_id = check_uuid("operationId", request.path_params["operation_id"])
        status = await self._store.decide(operation_id, action)
        if status is None:
            raise _make_unknown(operation_id)
        allowed, rule = _DECISIONS[action]
        if status not in allowed:
            raise Conflict(f"operation {operation_id} is {status}; {rule}")
        return json_answer(wire.OperationDecided(str(operation_id), becomes))


def health_of(pressure: float, *, undecided: int) -> str:
    """Return one word for operators: critical while a person is needed or nothing more fits."""
    if undecided or pressure >= 1:
        return "critical"
    return "degraded" if pressure >= _DEGRADED else "healthy"


def _make_unknown(operation_id: object) -> NotFound:
    return NotFound(f"operation {operation_id} does not exist; completed ones are kept for an hour")


def _counts(row: Mapping[str, Any] | None) -> wire.OperationCounts:
    if row is None:
        return wire.OperationCounts(0, 0, 0, None)
    return wire.OperationCounts(row["operations"], row["items"], row["bytes"], row["oldest_s"])


def _operation(row: Mapping[str, Any]) -> wire.Operation:
    result = row["result"]
    return wire.Operation(
        id=str(row["id"]),
        type=row["operation_type"],
        queue=row["queue_name"],
        partition=row["partition_name"],
        seq=row["seq"],
        priority=row["priority"],
        item_count=row["item_count"],
        size=row["estimated_size"],
        reason=row["reason"],
        status=row["status"],
        is_blocking=row["is_blocking"],
        created_at=iso(row["created_at"]),
        processing_started_at=iso_or_none(row["processing_started_at"]),
        processed_at=iso_or_none(row["processed_at"]),
        claimed_by=row["claimed_by_worker"],
        timeout_seconds=row["timeout_seconds"],
        retry_count=row["retry_count"],
        max_retries=row["max_retries"],
        error=row["error_message"],
        last_error_at=iso_or_none(row["last_error_at"]),
        result=None if result is None else msgspec.Raw(result.encode()),
        latency_seconds=((row["processed_at"] or utc_now()) - row["created_at"]).total_seconds(),
    )
