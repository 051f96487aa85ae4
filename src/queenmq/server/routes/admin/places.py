"""Partitions of all queues, and what this broker remembers of what all share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.server.answers.responses import json_answer
from queenmq.server.requests.checks import check_text
from queenmq.server.requests.pages import PAGE, parse_page
from queenmq.server.requests.queries import parse_query
from queenmq.server.requests.times import iso, iso_or_none
from queenmq.server.routing.spec import route
from queenmq.storage.stores.groups import GroupStore


class PlaceRoutes:
    """Read models; nothing here changes anything."""

    def __init__(self, store: GroupStore, *, shared: Callable[[], wire.BrokerMemory]) -> None:
        self._store = store
        self._shared = shared

    @route("GET", "/api/v1/resources/partitions", wire.PartitionList, query={"queue": str, **PAGE})
    async def partitions(self, request: Request) -> Response:
        """Return a page of partitions, of one queue or of all, by queue and name."""
        query = parse_query(request.scope["query_string"])
        page = parse_page(query)
        queue = check_text("queue", query.get("queue")) or None
        rows = await self._store.list_partitions(queue, limit=page.limit, offset=page.offset)
        return json_answer(wire.PartitionList([_partition(row) for row in rows], page))

    @route("GET", "/api/v1/system/shared-state", wire.BrokerMemory)
    async def shared_state(self, _: Request) -> Response:
        """Return what this broker remembers of what all share, and how it hears of changes."""
        return json_answer(self._shared())


def _partition(row: Any) -> wire.PartitionSummary:
    return wire.PartitionSummary(
        id=row["id"],
        name=row["name"],
        queue=row["queue"],
        namespace=row["namespace"],
        task=row["task"],
        created_at=iso(row["created_at"]),
        messages=wire.PartitionTotal(row["total"]),
        newest_message=iso_or_none(row["newest_at"]),
    )
