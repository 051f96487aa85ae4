"""Traces: what consumers record about messages."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.errors import NotFound, RequestTooLarge
from queenmq.server.answers.responses import json_answer, read_request
from queenmq.server.requests.checks import check_count, check_group, check_name, check_uuid, shown
from queenmq.server.requests.queries import parse_query
from queenmq.server.requests.times import iso_or_none
from queenmq.server.routes.admin.queues import parse_page
from queenmq.settings import Settings
from queenmq.storage.stores.traces import Trace, TraceStore

_LIMIT_MAX = 1_000
_NAMES_MAX = 16
#: A page has up to a thousand of them.
_DATA_BYTES_MAX = 64 * 1024


class TraceRoutes:
    """Recorded by consumers, read by people."""

    def __init__(self, store: TraceStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    async def add(self, request: Request) -> Response:
        """Record something about a message."""
        body = await read_request(request, wire.TraceRequest)
        trace = self._trace(body)
        trace_id = await self._store.add(trace)
        if trace_id is None:
            raise NotFound(
                f"Message not found: partition {trace.partition_id} has no message"
                f" {shown(trace.transaction_id)}; check both ids"
            )
        return json_answer({"success": True, "traceId": str(trace_id)}, 201)

    def _trace(self, body: wire.TraceRequest) -> Trace:
        length_max = self._settings.max_name_length
        names = [body.traceNames] if isinstance(body.traceNames, str) else body.traceNames or []
        check_count("traceNames", len(names), count_max=_NAMES_MAX)
        data = bytes(body.data)
        if len(data) > _DATA_BYTES_MAX:
            raise RequestTooLarge(
                f"data has {len(data)} bytes; a trace takes at most {_DATA_BYTES_MAX}"
            )
        return Trace(
            check_uuid("partitionId", body.partitionId),
            check_name("transactionId", body.transactionId, length_max=length_max),
            check_group(body.consumerGroup, length_max=length_max),
            check_name("eventType", body.eventType or "info", length_max=length_max),
            data.decode(),
            [
                check_name(f"traceNames[{place}]", name, length_max=length_max)
                for place, name in enumerate(names)
            ],
        )

    async def of_message(self, request: Request) -> Response:
        """All traces of a message, oldest first."""
        partition_id = check_uuid("partitionId", request.path_params["partition_id"])
        transaction_id = check_name(
            "transactionId",
            request.path_params["transaction_id"],
            length_max=self._settings.max_name_length,
        )
        rows = await self._store.of_message(partition_id, transaction_id)
        return json_answer({"traces": [_trace(row) for row in rows]})

    async def by_name(self, request: Request) -> Response:
        """A page of the traces with a name, newest first."""
        query = parse_query(request.scope["query_string"])
        limit, offset = parse_page(query, limit_max=_LIMIT_MAX)
        name = check_name(
            "name", request.path_params["name"], length_max=self._settings.max_name_length
        )
        rows, total = await self._store.by_name(name, limit=limit, offset=offset)
        return json_answer(
            {
                "traces": [_named(row) for row in rows],
                "total": total,
                "pagination": {"limit": limit, "offset": offset},
            }
        )

    async def names(self, request: Request) -> Response:
        """A page of names, last used first."""
        query = parse_query(request.scope["query_string"])
        limit, offset = parse_page(query, default=50, limit_max=_LIMIT_MAX)
        rows, total = await self._store.names(limit=limit, offset=offset)
        return json_answer(
            {
                "trace_names": [_name(row) for row in rows],
                "total": total,
                "pagination": {"limit": limit, "offset": offset},
            }
        )


def _trace(row: Any) -> dict[str, Any]:
    return {
        "id": row["id"],
        "event_type": row["event_type"],
        "data": msgspec.Raw(row["data"].encode()),
        "consumer_group": row["consumer_group"],
        # Consumers give no name of theirs.
        "worker_id": None,
        "created_at": iso_or_none(row["created_at"]),
        "trace_names": row["names"],
    }


def _named(row: Any) -> dict[str, Any]:
    payload = row["payload"]
    return {
        **_trace(row),
        "transaction_id": row["transaction_id"],
        "partition_id": row["partition_id"],
        "queue_name": row["queue_name"],
        "partition_name": row["partition_name"],
        "message_payload": None if payload is None else msgspec.Raw(payload.encode()),
    }


def _name(row: Any) -> dict[str, Any]:
    return {
        "trace_name": row["trace_name"],
        "trace_count": row["trace_count"],
        "message_count": row["message_count"],
        "last_seen": iso_or_none(row["last_seen"]),
    }
