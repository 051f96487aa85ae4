"""Queues, namespaces and tasks with their counts."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from queenmq.errors import NotFound
from queenmq.server.answers.responses import json_answer
from queenmq.server.answers.status_answers import COUNTERS, counters_of
from queenmq.server.requests.checks import check_name, check_text, shown
from queenmq.server.requests.queries import parse_query
from queenmq.server.routes.admin.queues import PAGE_MAX, parse_page
from queenmq.server.routes.hot.transactions import iso
from queenmq.settings import Settings
from queenmq.storage.stores.groups import GroupStore


class ResourceRoutes:
    """Read models; nothing here changes anything."""

    def __init__(self, store: GroupStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    async def queues(self, request: Request) -> Response:
        """All queues, newest first."""
        query = parse_query(request.scope["query_string"])
        search = check_text("search", query.get("search")) or None
        limit, offset = parse_page(query, default=PAGE_MAX)
        rows = await self._store.list_queues(search, limit=limit, offset=offset)
        return json_answer({"queues": [_queue(row) for row in rows]})

    async def queue(self, request: Request) -> Response:
        """One queue with its partitions."""
        name = request.path_params["queue"]
        check_name("queue", name, length_max=self._settings.max_name_length)
        found = await self._store.show_queue(name)
        if found is None:
            raise NotFound(f"queue {shown(name)} does not exist; check its name")
        queue, rows = found
        partitions = [_partition(row) for row in rows]
        totals = {
            name: sum(partition["stats"][name] for partition in partitions) for name in COUNTERS
        }
        options = msgspec.Raw(queue["options"].encode())
        return json_answer(
            {**_head(queue), "options": options, "partitions": partitions, "totals": totals}
        )

    async def namespaces(self, request: Request) -> Response:
        """The namespaces that queues name."""
        rows = await self._store.list_namespaces()
        return json_answer({"namespaces": [_sum("namespace", row) for row in rows]})

    async def tasks(self, request: Request) -> Response:
        """The tasks that queues name."""
        rows = await self._store.list_tasks()
        return json_answer({"tasks": [_sum("task", row) for row in rows]})


def _head(row: Any) -> dict[str, Any]:
    return {
        "id": str(row["id"]),
        "name": row["name"],
        "namespace": row["namespace"],
        "task": row["task"],
        "createdAt": iso(row["created_at"]),
    }


def _queue(row: Any) -> dict[str, Any]:
    counts = {name: row[name] for name in ("total", "pending", "processing")}
    return {**_head(row), "partitions": row["partitions"], "messages": counts}


def _partition(row: Any) -> dict[str, Any]:
    oldest, newest = row["oldest_at"], row["newest_at"]
    return {
        "id": row["id"],
        "name": row["name"],
        "createdAt": iso(row["created_at"]),
        "stats": counters_of(row),
        "oldestMessage": iso(oldest) if oldest is not None else None,
        "newestMessage": iso(newest) if newest is not None else None,
    }


def _sum(field: str, row: Any) -> dict[str, Any]:
    return {
        field: row["name"],
        "queues": row["queues"],
        "partitions": row["partitions"],
        "messages": {"total": row["total"], "pending": row["pending"]},
    }
