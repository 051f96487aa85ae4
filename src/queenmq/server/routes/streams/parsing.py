"""Cycles and reads of streams from requests, every value checked. Pure."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

import msgspec

from queenmq import wire
from queenmq.auth.identity import Identity
from queenmq.engine.requests import QUEUE_MODE, AckItem
from queenmq.engine.streams.requests import CycleItems, StateAsk, StateOp
from queenmq.errors import InvalidRequest, RequestTooLarge
from queenmq.ids import parse_uuid
from queenmq.server.requests.acks import NO_SUCH_LEASE
from queenmq.server.requests.checks import (
    check_count,
    check_name,
    check_text,
    check_uuid,
    quote,
)
from queenmq.server.routes.hot.push import to_push_items
from queenmq.settings import Settings

#: With the ids of query and partition it has to fit into an index entry.
KEY_BYTES_MAX = 2_048


class _WindowEnd(msgspec.Struct, rename="camel"):
    """The part of a state value that the broker reads."""

    window_end: Any = None


_window_end = msgspec.json.Decoder(_WindowEnd)


def to_cycle(
    body: bytes, request: wire.CycleRequest, settings: Settings, identity: Identity
) -> CycleItems:
    """Check a cycle. `body` is the request as it came, by which a copy of it is known."""
    length_max = settings.max_name_length
    partition_id = check_uuid("partition_id", request.partition_id)
    group = request.consumer_group
    if group:
        check_name("consumer_group", group, length_max=length_max)
    group = group or QUEUE_MODE
    ops = request.state_ops or []
    check_count("state_ops", len(ops), count_max=settings.max_items)
    # Of several operations on a key the last one holds.
    by_key = {
        op.key: _to_op(place, op, size_max=settings.stream_value_bytes_max)
        for place, op in enumerate(ops)
    }
    ack = request.ack
    return CycleItems(
        query_id=check_uuid("query_id", request.query_id),
        partition_id=partition_id,
        consumer_group=group,
        ops=list(by_key.values()),
        pushes=to_push_items(request.push_items or [], settings, identity),
        ack=None if ack is None else _to_ack(ack, partition_id, group, length_max),
        keeps_lease=not request.release_lease,
        version=request.state_version,
        digest=UUID(bytes=hashlib.sha256(body).digest()[:16], version=5),
    )


def to_state_ask(request: wire.StateRequest, settings: Settings) -> StateAsk:
    """Check a read of state; no keys means all of them."""
    keys = request.keys or []
    check_count("keys", len(keys), count_max=settings.max_items)
    for place, key in enumerate(keys):
        check_text(f"keys[{place}]", key)
    check_text("key_prefix", request.key_prefix)
    return StateAsk(
        check_uuid("query_id", request.query_id),
        check_uuid("partition_id", request.partition_id),
        keys or None,
        request.key_prefix or None,
        request.ripe_at_or_before,
    )


def _to_op(place: int, op: wire.StateOp, *, size_max: int) -> StateOp:
    field = f"state_ops[{place}]"
    if op.type not in ("upsert", "delete"):
        raise InvalidRequest(f"{field}.type {quote(op.type)} is unknown; use upsert or delete")
    if not op.key:
        raise InvalidRequest(f"{field}.key must not be empty; name the row of state")
    check_text(f"{field}.key", op.key)
    if (size := len(op.key.encode())) > KEY_BYTES_MAX:
        raise InvalidRequest(
            f"{field}.key {quote(op.key)} has {size} bytes; use at most {KEY_BYTES_MAX}"
        )
    if op.type == "delete":
        return StateOp(op.key, None, None)
    value = bytes(op.value)
    if len(value) > size_max:
        raise RequestTooLarge(
            f"{field}.value of key {quote(op.key)} has {len(value)} bytes; keep it below"
            f" stream_value_bytes_max ({size_max}), or spread it over several keys"
        )
    return StateOp(op.key, value.decode(), find_window_end(value))


def find_window_end(value: bytes) -> float | None:
    """Return the number `windowEnd` of a value of state, or None if it has none."""
    if b"windowEnd" not in value:
        return None
    try:
        end = _window_end.decode(value).window_end
        return float(end) if isinstance(end, int | float) and end is not True else None
    except (msgspec.MsgspecError, OverflowError):
        return None


def _to_ack(ack: wire.CycleAck, partition_id: UUID, group: str, length_max: int) -> AckItem:
    return AckItem(
        partition_id=partition_id,
        consumer_group=group,
        transaction_id=check_name("ack.transactionId", ack.transaction_id, length_max=length_max),
        lease_id=(parse_uuid(ack.lease_id) or NO_SUCH_LEASE) if ack.lease_id else None,
        status=check_text("ack.status", ack.status) or "completed",
        error=check_text("ack.error", ack.error),
    )
