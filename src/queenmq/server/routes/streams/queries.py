"""POST /streams/v1/queries, GET /api/v1/streams, GET and DELETE /api/v1/streams/:name."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.auth.decision import check_queues
from queenmq.engine.news import News
from queenmq.errors import Conflict, Forbidden, NotFound
from queenmq.server.answers.error_responses import row_of
from queenmq.server.answers.responses import json_answer, read_request
from queenmq.server.auth.callers import identity_of
from queenmq.server.auth.reach import is_within, list_within
from queenmq.server.requests.checks import check_name, quote
from queenmq.server.requests.times import iso_or_none
from queenmq.server.routing.spec import route
from queenmq.settings import Settings
from queenmq.storage.stores.groups import GroupStore
from queenmq.storage.stores.streams import StreamStore

#: Queries in one answer.
_LISTED_MAX = 1_000
_CODE = row_of(Conflict("")).code


class QueryRoutes:
    """Queries as clients start them and operators see them.

    Publishes on which queue a group's start is forgotten.
    """

    def __init__(
        self,
        store: StreamStore,
        groups: GroupStore,
        settings: Settings,
        *,
        news: News,
    ) -> None:
        self._store = store
        self._groups = groups
        self._settings = settings
        self._news = news

    @route(
        "POST",
        "/streams/v1/queries",
        wire.Registered,
        request=wire.RegisterRequest,
        also={409: wire.RegisterRefused},
    )
    async def register(self, request: Request) -> Response:
        """Register a query, or resume it with the configuration it has."""
        body = await read_request(request, wire.RegisterRequest)
        length_max = self._settings.max_name_length
        for field in ("name", "source_queue", "config_hash"):
            check_name(field, getattr(body, field), length_max=length_max)
        if body.sink_queue:
            check_name("sink_queue", body.sink_queue, length_max=length_max)
        used = {body.source_queue, body.sink_queue or body.source_queue}
        identity = identity_of(request)
        check_queues(identity, used)
        found = await self._store.register_query(
            body.name,
            body.source_queue,
            body.sink_queue or None,
            body.config_hash,
            reset=body.reset,
            # Names are shared by all: a limited caller must not take over a query of others.
            keeps_source=identity.is_limited,
        )
        if found.query_id is None:
            raise Forbidden(
                f"Insufficient permissions: the stream {quote(body.name)} exists and reads another"
                " queue. Use another name, or delete that stream first if it is yours."
            )
        query_id = str(found.query_id)
        if found.config_hash != body.config_hash:
            error = (
                f"config_hash mismatch: query {quote(body.name)} runs with {found.config_hash},"
                f" this is {body.config_hash}; register it with reset to wipe its state,"
                " or use another name"
            )
            refused = wire.RegisterRefused(False, query_id, body.name, error, _CODE)
            return json_answer(refused, 409)
        return json_answer(
            wire.Registered(
                True, query_id, body.name, body.config_hash, found.is_fresh, found.is_reset
            )
        )

    @route("GET", "/api/v1/streams", wire.StreamQueries)
    async def list(self, request: Request) -> Response:
        """Return all queries, with how far behind they are and how much they remember."""
        rows = await list_within(
            identity_of(request),
            lambda limit, offset: self._store.list_queries(None, limit=limit, offset=offset),
            lambda row: str(row["source_queue"]),
            limit=_LISTED_MAX + 1,
            offset=0,
        )
        queries = [_query(row) for row in rows[:_LISTED_MAX]]
        return json_answer(wire.StreamQueries(queries, len(rows) > _LISTED_MAX))

    @route("GET", "/api/v1/streams/{name:name}", wire.StreamQuery)
    async def show(self, request: Request) -> Response:
        """Return one query."""
        name = self._name(request)
        return json_answer(_query(await self._find(request, name)))

    @route("DELETE", "/api/v1/streams/{name:name}", wire.StreamDeleted)
    async def delete(self, request: Request) -> Response:
        """Remove a query with its state and its consumer groups."""
        name = self._name(request)
        await self._find(request, name)
        found = await self._store.delete_query(name)
        if found is None:
            raise NotFound(f"stream {quote(name)} does not exist; GET /api/v1/streams lists them")
        queue, groups = found
        for group in groups:
            await self._groups.delete(group, queue, deletes_start=True)
            self._news.group_deleted(queue, group)
        return json_answer(wire.StreamDeleted(True, name, list(groups)))

    async def _find(self, request: Request, name: str) -> Any:
        """Find the query of a name, if the caller may know of it."""
        rows = await self._store.list_queries(name, limit=1)
        if not rows or not is_within(identity_of(request), rows[0]["source_queue"]):
            raise NotFound(f"stream {quote(name)} does not exist; GET /api/v1/streams lists them")
        return rows[0]

    def _name(self, request: Request) -> str:
        name: str = request.path_params["name"]
        return check_name("name", name, length_max=self._settings.max_name_length)


def _query(row: Any) -> wire.StreamQuery:
    return wire.StreamQuery(
        id=str(row["id"]),
        name=row["name"],
        source_queue=row["source_queue"],
        sink_queue=row["sink_queue"],
        config_hash=row["config_hash"],
        consumer_group=row["consumer_group"],
        partitions=row["partitions"],
        cycles=row["cycles"],
        state_keys=row["state_keys"],
        state_bytes=row["state_bytes"],
        total_lag=row["offset_lag"],
        max_time_lag=row["time_lag_seconds"],
        last_cycle_at=iso_or_none(row["last_cycle_at"]),
        last_error=row["last_error"],
        last_error_at=iso_or_none(row["last_error_at"]),
        created_at=iso_or_none(row["created_at"]),
        registered_at=iso_or_none(row["registered_at"]),
    )
