"""The operation queue as operators see it: counts, lists, one operation, and what to do with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from queenmq.engine.queued_pushes.metrics import OperationMetrics
from queenmq.errors import Conflict, InvalidRequest, NotFound
from queenmq.server.answers.responses import json_answer
from queenmq.server.requests.checks import check_text, check_uuid, shown
from queenmq.server.requests.queries import parse_query
from queenmq.server.routes.admin.queues import parse_page
from queenmq.server.routes.hot.transactions import iso
from queenmq.storage.spool import SpoolStats
from queenmq.storage.stores.operations import PostgresOperationStore

_STATUSES = ("pending", "processing", "completed", "failed", "discarded")
#: By action: the statuses it changes, as settle_operation says, and that rule in words.
_SETTLED = {
    "retry": (("failed",), "only a failed one can be retried"),
    "discard": (
        ("pending", "processing", "failed"),
        "only one that is not stored yet can be discarded",
    ),
}


class OperationRoutes:
    """Reads, and what operators decide. `on_retry` is told when one is to run again."""

    def __init__(
        self,
        store: PostgresOperationStore,
        metrics: OperationMetrics,
        *,
        spool_stats: Callable[[], SpoolStats],
        pressure: Callable[[], float],
        on_retry: Callable[[], None],
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._spool_stats = spool_stats
        self._pressure = pressure
        self._on_retry = on_retry

    async def stats(self, request: Request) -> Response:
        """Counts by status, and what this broker has set aside."""
        rows = {row["status"]: row for row in await self._store.stats()}
        waiting = await self._store.count_waiting()
        self._metrics.measured(waiting)
        aside = self._spool_stats()
        return json_answer(
            {
                "depth": waiting.operations,
                "oldestAgeSeconds": waiting.oldest_s,
                "drainRate": self._metrics.drain_rate,
                "pressure": self._pressure(),
                "aside": {"records": aside.aside_records, "bytes": aside.aside_bytes},
                "byStatus": {status: _counts(rows.get(status)) for status in _STATUSES},
            }
        )

    async def list(self, request: Request) -> Response:
        """A page of operations, newest first."""
        query = parse_query(request.scope["query_string"])
        status = query.get("status") or None
        if status is not None and status not in _STATUSES:
            raise InvalidRequest(f"status {shown(status)} is unknown; use one of {_STATUSES}")
        queue = check_text("queue", query.get("queue")) or None
        limit, offset = parse_page(query)
        rows, total = await self._store.list(status, queue, limit=limit, offset=offset)
        return json_answer(
            {
                "operations": [_operation(row) for row in rows],
                "total": total,
                "pagination": {"limit": limit, "offset": offset},
            }
        )

    async def show(self, request: Request) -> Response:
        """One operation, with a result per item once it is completed."""
        operation_id = check_uuid("operationId", request.path_params["operation_id"])
        row = await self._store.find(operation_id)
        if row is None:
            raise _unknown(operation_id)
        return json_answer(_operation(row))

    async def retry(self, request: Request) -> Response:
        """Let a failed operation run again."""
        answer = await self._settle(request, "retry", "pending")
        self._on_retry()
        return answer

    async def discard(self, request: Request) -> Response:
        """Drop an operation that is not stored yet, with what it would have pushed."""
        return await self._settle(request, "discard", "discarded")

    async def _settle(self, request: Request, action: str, becomes: str) -> Response:
        operation_id = check_uuid("operationId", request.path_params["operation_id"])
        status = await self._store.settle(operation_id, action)
        if status is None:
            raise _unknown(operation_id)
        allowed, rule = _SETTLED[action]
        if status not in allowed:
            raise Conflict(f"operation {operation_id} is {status}; {rule}")
        return json_answer({"id": str(operation_id), "status": becomes})


def _unknown(operation_id: object) -> NotFound:
    return NotFound(f"operation {operation_id} does not exist; completed ones are kept for an hour")


def _counts(row: Mapping[str, Any] | None) -> dict[str, Any]:
    if row is None:
        return {"operations": 0, "items": 0, "bytes": 0, "oldestAgeSeconds": None}
    return {
        "operations": row["operations"],
        "items": row["items"],
        "bytes": row["bytes"],
        "oldestAgeSeconds": row["oldest_s"],
    }


def _operation(row: Mapping[str, Any]) -> dict[str, Any]:
    result = row["result"]
    return {
        "id": str(row["id"]),
        "type": row["operation_type"],
        "queue": row["queue_name"],
        "partition": row["partition_name"],
        "seq": row["seq"],
        "priority": row["priority"],
        "itemCount": row["item_count"],
        "size": row["estimated_size"],
        "reason": row["reason"],
        "status": row["status"],
        "isBlocking": row["is_blocking"],
        "createdAt": iso(row["created_at"]),
        "processingStartedAt": _time(row["processing_started_at"]),
        "processedAt": _time(row["processed_at"]),
        "claimedBy": row["claimed_by_worker"],
        "timeoutSeconds": row["timeout_seconds"],
        "retryCount": row["retry_count"],
        "maxRetries": row["max_retries"],
        "error": row["error_message"],
        "lastErrorAt": _time(row["last_error_at"]),
        "result": None if result is None else msgspec.Raw(result.encode()),
    }


def _time(value: Any) -> str | None:
    return None if value is None else iso(value)
