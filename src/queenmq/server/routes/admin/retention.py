"""GET /api/v1/analytics/retention."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from queenmq.clock import utc_now
from queenmq.errors import InvalidRequest
from queenmq.server.answers.responses import json_answer
from queenmq.server.requests.checks import check_text
from queenmq.server.requests.queries import parse_query, parse_time
from queenmq.server.routes.hot.transactions import iso
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
#: Names in the answer, and the columns.
_COUNTERS = {
    "retentionMsgs": "retention_messages",
    "completedRetentionMsgs": "completed_messages",
    "evictionMsgs": "evicted_messages",
}


class RetentionRoutes:
    """What retention has removed."""

    def __init__(self, store: RetentionStore) -> None:
        self._store = store

    async def show(self, request: Request) -> Response:
        """Removed messages by time and rule."""
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
        return json_answer(
            {
                "timeRange": {"from": iso(start), "to": iso(end)},
                "bucketMinutes": minutes,
                "series": series,
                "totals": {
                    name: sum(point[name] for point in series)
                    for name in (*_COUNTERS, "totalMsgs", "eventCount")
                },
            }
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


def _point(row: Any) -> dict[str, Any]:
    counts = {name: row[column] for name, column in _COUNTERS.items()}
    return {
        "bucket": iso(row["bucket"]),
        **counts,
        "totalMsgs": sum(counts.values()),
        "eventCount": row["events"],
    }
