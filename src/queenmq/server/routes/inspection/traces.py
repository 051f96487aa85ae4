"""Traces: what consumers record about messages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.errors import NotFound, RequestTooLarge
from queenmq.server.answers.opening import Opener
from queenmq.server.answers.responses import json_answer, read_request
from queenmq.server.auth.callers import identity_of
from queenmq.server.auth.reach import Reachable
from queenmq.server.requests.checks import (
    check_count,
    check_group,
    check_name,
    check_uuid,
    quote,
)
from queenmq.server.requests.pages import PAGE, parse_page
from queenmq.server.requests.queries import parse_query
from queenmq.server.requests.times import iso, iso_or_none
from queenmq.server.routing.spec import route
from queenmq.settings import Settings
from queenmq.storage.stores.traces import Trace, TraceStore

_LIMIT_MAX = 1_000
_NAMES_MAX = 16
#: A page has up to a thousand of them.
_DATA_BYTES_MAX = 64 * 1024


class TraceRoutes:
    """Recorded by consumers, read by people."""

    def __init__(
        self, store: TraceStore, settings: Settings, reachable: Reachable, opener: Opener
    ) -> None:
        self._store = store
        self._opener = opener
        self._settings = settings
        self._reachable = reachable

    @route("POST", "/api/v1/traces", wire.TraceAdded, status=201, request=wire.TraceRequest)
    async def add(self, request: Request) -> Response:
        """Record something about a message."""
        body = await read_request(request, wire.TraceRequest)
        trace = self._trace(body)
        trace_id = None
        if await self._reachable.has_partition(identity_of(request), trace.partition_id):
            trace_id = await self._store.add(trace)
        if trace_id is None:
            raise NotFound(
                f"Message not found: partition {trace.partition_id} has no message"
                f" {quote(trace.transaction_id)}; check both ids"
            )
        return json_answer(wire.TraceAdded(success=True, trace_id=str(trace_id)), 201)

    def _trace(self, body: wire.TraceRequest) -> Trace:
        length_max = self._settings.max_name_length
        names = [body.trace_names] if isinstance(body.trace_names, str) else body.trace_names or []
        check_count("traceNames", len(names), count_max=_NAMES_MAX)
        data = bytes(body.data)
        if len(data) > _DATA_BYTES_MAX:
            raise RequestTooLarge(
                f"data has {len(data)} bytes; a trace takes at most {_DATA_BYTES_MAX}"
            )
        return Trace(
            check_uuid("partitionId", body.partition_id),
            check_name("transactionId", body.transaction_id, length_max=length_max),
            check_group(body.consumer_group, length_max=length_max),
            check_name("eventType", body.event_type or "info", length_max=length_max),
            data.decode(),
            [
                check_name(f"traceNames[{place}]", name, length_max=length_max)
                for place, name in enumerate(names)
            ],
        )

    @route("GET", "/api/v1/traces/{partition_id}/{transaction_id:name}", wire.TraceList)
    async def of_message(self, request: Request) -> Response:
        """Return all traces of a message, oldest first."""
        rows = await self._store.of_message(*self._place(request))
        return json_answer(wire.TraceList([wire.Trace(**_trace(row)) for row in rows]))

    @route("GET", "/api/v1/deliveries/{partition_id}/{transaction_id:name}", wire.MessageDeliveries)
    async def deliveries(self, request: Request) -> Response:
        """Return when groups got and passed a message, where the queue keeps that."""
        partition_id, transaction_id = self._place(request)
        rows = await self._store.deliveries(partition_id, transaction_id)
        if not rows:
            raise NotFound(
                f"Message not found: partition {partition_id} has no message"
                f" {quote(transaction_id)}; check both ids"
            )
        first = rows[0]
        return json_answer(
            wire.MessageDeliveries(
                is_kept=first["is_kept"],
                kept_since=iso(first["kept_since"]) if first["is_kept"] else None,
                is_cut=not first["searched_all"],
                deliveries=[_delivery(row) for row in rows if row["consumer_group"] is not None],
            )
        )

    def _place(self, request: Request) -> tuple[UUID, str]:
        length_max = self._settings.max_name_length
        return check_uuid("partitionId", request.path_params["partition_id"]), check_name(
            "transactionId", request.path_params["transaction_id"], length_max=length_max
        )

    @route("GET", "/api/v1/traces/by-name/{name:name}", wire.NamedTraceList, query=PAGE)
    async def by_name(self, request: Request) -> Response:
        """Return a page of the traces with a name, newest first."""
        query = parse_query(request.scope["query_string"])
        page = parse_page(query, limit_max=_LIMIT_MAX)
        name = check_name(
            "name", request.path_params["name"], length_max=self._settings.max_name_length
        )
        rows, total = await self._store.by_name(name, limit=page.limit, offset=page.offset)
        found = [_make_named_trace(row, self._opener) for row in rows]
        return json_answer(wire.NamedTraceList(found, total, page))

    @route("GET", "/api/v1/traces/names", wire.TraceNameList, query=PAGE)
    async def names(self, request: Request) -> Response:
        """Return a page of names, last used first."""
        query = parse_query(request.scope["query_string"])
        page = parse_page(query, default=50, limit_max=_LIMIT_MAX)
        rows, total = await self._store.names(limit=page.limit, offset=page.offset)
        return json_answer(wire.TraceNameList([_name(row) for row in rows], total, page))


def _trace(row: Any) -> dict[str, Any]:
    # Consumers do not send a name, so there is no worker.
    return {
        "id": row["id"],
        "event_type": row["event_type"],
        "data": msgspec.Raw(row["data"].encode()),
        "consumer_group": row["consumer_group"],
        "created_at": iso(row["created_at"]),
        "trace_names": row["names"],
    }


def _delivery(row: Any) -> wire.MessageDelivery:
    return wire.MessageDelivery(
        consumer_group=row["consumer_group"],
        delivered_at=iso_or_none(row["delivered_at"]),
        passed_at=iso_or_none(row["passed_at"]),
        cause=row["cause"],
        retries=row["retries"],
        has_dead_letter=row["has_dead"],
    )


def _make_named_trace(row: Any, opener: Opener) -> wire.NamedTrace:
    payload, _ = opener.open_row(row, queue=row["queue_name"], partition=row["partition_name"])
    return wire.NamedTrace(
        **_trace(row),
        transaction_id=row["transaction_id"],
        partition_id=row["partition_id"],
        queue_name=row["queue_name"],
        partition_name=row["partition_name"],
        message_payload=payload,
    )


def _name(row: Any) -> wire.TraceName:
    return wire.TraceName(
        trace_name=row["trace_name"],
        trace_count=row["trace_count"],
        message_count=row["message_count"],
        last_seen=iso(row["last_seen"]),
    )
