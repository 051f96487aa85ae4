"""Queues, namespaces and tasks with their counts."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.errors import NotFound
from queenmq.server.answers.responses import json_answer
from queenmq.server.answers.status_answers import COUNTERS, counters_of, summary_of
from queenmq.server.auth.callers import identity_of
from queenmq.server.auth.reach import list_within
from queenmq.server.requests.checks import check_name, check_text, quote
from queenmq.server.requests.pages import PAGE, PAGE_MAX, parse_page
from queenmq.server.requests.queries import parse_query
from queenmq.server.requests.times import iso, iso_or_none
from queenmq.server.routing.spec import route
from queenmq.settings import Settings
from queenmq.storage.stores.groups import GroupStore


class ResourceRoutes:
    """Read models; nothing here changes anything."""

    def __init__(self, store: GroupStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    @route("GET", "/api/v1/resources/queues", wire.QueueList, query={"search": str, **PAGE})
    async def queues(self, request: Request) -> Response:
        """Return all queues, newest first."""
        query = parse_query(request.scope["query_string"])
        search = check_text("search", query.get("search")) or None
        page = parse_page(query, default=PAGE_MAX)
        rows = await list_within(
            identity_of(request),
            lambda count, start: self._store.list_queues(search, limit=count, offset=start),
            lambda row: str(row["name"]),
            limit=page.limit,
            offset=page.offset,
        )
        return json_answer(wire.QueueList([summary_of(row) for row in rows]))

    @route(
        "GET",
        "/api/v1/resources/queues/{queue:name}",
        wire.QueueDetail,
        query={"partitions": bool},
    )
    async def queue(self, request: Request) -> Response:
        """Return one queue with its partitions."""
        name = request.path_params["queue"]
        check_name("queue", name, length_max=self._settings.max_name_length)
        query = parse_query(request.scope["query_string"])
        has_partitions = query.get("partitions") not in ("false", "0")
        found = await self._store.show_queue(name, has_partitions=has_partitions)
        if found is None:
            raise NotFound(f"queue {quote(name)} does not exist; check its name")
        queue, rows = found
        stats = [counters_of(row) for row in rows]
        totals = {name: sum(getattr(one, name) for one in stats) for name in COUNTERS}
        return json_answer(
            wire.QueueDetail(
                id=str(queue["id"]),
                name=queue["name"],
                namespace=queue["namespace"],
                task=queue["task"],
                created_at=iso(queue["created_at"]),
                options=msgspec.json.decode(queue["options"], type=wire.QueueOptions),
                partitions=[_partition(row) for row in rows] if has_partitions else [],
                totals=wire.Counters(**totals),
            )
        )

    @route("GET", "/api/v1/resources/namespaces", wire.NamespaceList)
    async def namespaces(self, request: Request) -> Response:
        """Return the namespaces that queues name."""
        rows = await self._store.list_namespaces()
        return json_answer(wire.NamespaceList([wire.Namespace(*_sum(row)) for row in rows]))

    @route("GET", "/api/v1/resources/tasks", wire.TaskList)
    async def tasks(self, request: Request) -> Response:
        """Return the tasks that queues name."""
        rows = await self._store.list_tasks()
        return json_answer(wire.TaskList([wire.Task(*_sum(row)) for row in rows]))


def _partition(row: Any) -> wire.Partition:
    return wire.Partition(
        id=row["id"],
        name=row["name"],
        created_at=iso(row["created_at"]),
        stats=counters_of(row),
        oldest_message=iso_or_none(row["oldest_at"]),
        newest_message=iso_or_none(row["newest_at"]),
    )


def _sum(row: Any) -> tuple[str, int, int, wire.PendingCounts]:
    counts = wire.PendingCounts(row["total"], row["pending"])
    return row["name"], row["queues"], row["partitions"], counts
