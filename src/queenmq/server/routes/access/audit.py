"""GET /api/v1/audit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.server.answers.responses import json_answer
from queenmq.server.requests.checks import check_text
from queenmq.server.requests.pages import PAGE, parse_page
from queenmq.server.requests.queries import parse_query
from queenmq.server.requests.times import iso_or_none, parse_span
from queenmq.server.routing.spec import route
from queenmq.storage.stores.access.audit import AuditFilter, AuditStore

#: Of a request that names no time.
_RANGE = timedelta(days=7)


class AuditRoutes:
    """Reads only; entries are written as actions happen."""

    def __init__(self, store: AuditStore) -> None:
        self._store = store

    @route(
        "GET",
        "/api/v1/audit",
        wire.AuditLog,
        query={"who": str, "action": str, "from": str, "to": str, **PAGE},
    )
    async def list(self, request: Request) -> Response:
        """Return a page of actions, newest first."""
        query = parse_query(request.scope["query_string"])
        # A minute more: the database's clock may be ahead of ours.
        span = parse_span(query, default=_RANGE, ahead=timedelta(minutes=1))
        page = parse_page(query)
        which = AuditFilter(
            span.start,
            span.end,
            check_text("who", query.get("who")) or None,
            check_text("action", query.get("action")) or None,
        )
        rows = await self._store.list(which, limit=page.limit, offset=page.offset)
        return json_answer(wire.AuditLog([_entry(row) for row in rows], page))


def _entry(row: Mapping[str, Any]) -> wire.AuditEntry:
    names = ("id", "who", "how", "role", "action", "target", "details", "address", "status")
    return wire.AuditEntry(at=iso_or_none(row["at"]), **{name: row[name] for name in names})
