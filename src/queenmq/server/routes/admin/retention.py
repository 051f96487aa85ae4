"""GET /api/v1/analytics/retention."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.clock import utc_now
from queenmq.errors import InvalidRequest
from queenmq.server.answers.responses import json_answer
from queenmq.server.requests.checks import check_text
from queenmq.server.requests.queries import parse_query, parse_time
from queenmq.server.requests.times import iso
from queenmq.server.routing.spec import route
from queenmq.storage.stores.retention import RetentionStore

#: The width of a point in minutes, by the length of the time range that it is good for.
_WIDTHS = (
    (timedelta(hours=1), 1),
    (timedelta(hours=6), 5),
    (timedelta(hours=24), 15),
    (timedelta(days=7), 60),
)
_WIDEST = 360
#: Of a request that names no time.
_RANGE = timedelta(hours=1)


class RetentionRoutes:
    """Routes of the history of retention."""

    def __init__(self, store: RetentionStore) -> None:
        self._store = store

    @route(
        "GET",
        "/api/v1/analytics/retention",
        wire.RetentionHistory,
        query={"from": str, "to": str, "queue": str},
    )
    async def show(self, request: Request) -> Response:
        """Return removed messages by time and rule."""
        query = parse_query(request.scope["query_string"])
        start, end = _time_range(query)
        minutes = next((wide for most, wide in _WIDTHS if end - start <= most), _WIDEST)
        rows = await self._store.show_history(
            start,
            end,
            bucket_minutes=minutes,
            queue=check_text("queue", query.get("queue")) or None,
        )
        series = [_point(row) for row in rows]
        totals = {
            name: sum(getattr(point, name) for point in series)
            for name in wire.RetentionTotals.__struct_fields__
        }
        return json_answer(
            wire.RetentionHistory(
                time_range=wire.TimeRange(iso(start), iso(end)),
                bucket_minutes=minutes,
                series=series,
                totals=wire.RetentionTotals(**totals),
            )
        )


def _time_range(query: dict[str, str]) -> tuple[datetime, datetime]:
    end = parse_time("to", query["to"]) if query.get("to") else utc_now()
    try:
        start = parse_time("from", query["from"]) if query.get("from") else end - _RANGE
    except OverflowError:
        raise InvalidRequest(f"to {query['to']!r} is too early; use a later time") from None
    if start > end:
        raise InvalidRequest(f"from {iso(start)} is after to {iso(end)}; swap them")
    return start, end


def _point(row: Any) -> wire.RetentionPoint:
    counts = row["retention_messages"], row["completed_messages"], row["evicted_messages"]
    return wire.RetentionPoint(
        iso(row["bucket"]), *counts, sum(counts), row["events"], row["partitions"]
    )
