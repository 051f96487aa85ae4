"""Push requests as records of the spool. The engine's PushJournal: requests in, requests out."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from queenmq.clock import unix_ms
from queenmq.engine.push.naming import name_spooled
from queenmq.engine.requests import PartitionKey, PushItems, RequestKey
from queenmq.ids import random_uuid, uuid7_text
from queenmq.storage.spool import AsideEntry, Phase, Place, Position, Retried, Spool
from queenmq.storage.spool.pair import SpoolPair


class PushRecord(msgspec.Struct, array_like=True):
    """One request as it is kept; columns as in PushItems, every item with its id."""

    queues: list[str]
    partitions: list[str]
    payloads: list[str]
    transaction_ids: list[str]
    trace_ids: list[UUID | None] | None
    producer_subs: list[str | None] | None
    #: Unix time at which it was accepted; 0 in records of older releases.
    accepted_ms: int = 0
    #: Older records end before it.
    encrypted: list[bool | None] | None = None
    #: Of a request with an idempotency key.
    key: UUID | None = None
    digest: UUID | None = None
    origin: UUID | None = None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(PushRecord)


class KeptPush(NamedTuple):
    """A record and the request in it; None when it cannot be read."""

    body: bytes
    items: PushItems | None
    position: Hashable
    #: Unix time at which it was accepted; 0 if that is not known.
    accepted_ms: int


class KeptPushes(NamedTuple):
    """Records in their order, and where they end."""

    records: list[KeptPush]
    end: Position


class AsidePush(NamedTuple):
    """A request that was set aside; without an item count when it cannot be read."""

    id: str
    queues: list[str]
    partitions: list[str]
    item_count: int | None
    size_bytes: int
    reason: str
    set_aside_at: datetime | None
    file: str | None


def to_record(items: PushItems) -> PushRecord:
    """Build a record. Items without a transaction id get one, so that draining them twice stores
    them once.
    """
    request_key = items.request_key
    if request_key is None:
        given = items.transaction_ids or [None] * len(items.payloads)
        names = [uuid7_text(unix_ms()) if one is None else one for one in given]
    else:
        names = name_spooled(items, request_key)
    return PushRecord(
        [key.queue for key in items.keys],
        [key.partition for key in items.keys],
        items.payloads,
        names,
        items.trace_ids,
        items.producer_subs,
        unix_ms(),
        items.encrypted,
        *(() if request_key is None else (request_key.key, request_key.digest, random_uuid())),
    )


def to_items(record: PushRecord) -> PushItems:
    """Return the pushes of a record. Raises ValueError when the columns do not fit together."""
    names = zip(record.queues, record.partitions, strict=True)
    items = PushItems(
        keys=[PartitionKey(queue, partition) for queue, partition in names],
        payloads=record.payloads,
        transaction_ids=list(record.transaction_ids),
        trace_ids=record.trace_ids,
        producer_subs=record.producer_subs,
        encrypted=record.encrypted,
    )
    columns = (
        items.payloads,
        items.transaction_ids,
        items.trace_ids,
        items.producer_subs,
        items.encrypted,
    )
    if record.key is not None and record.digest is not None:
        items.request_key = RequestKey(record.key, record.digest, record.origin)
    if any(column is not None and len(column) != len(items.keys) for column in columns):
        raise ValueError("the columns of a record have different lengths")
    return items


class SpoolJournal:
    """Implements `queenmq.engine.ports.PushJournal`."""

    def __init__(self, spool: Spool | SpoolPair) -> None:
        self._spool = spool

    @property
    def pending(self) -> int:
        return self._spool.pending

    @property
    def is_closing(self) -> bool:
        return self._spool.phase is Phase.CLOSING

    @property
    def is_stuck(self) -> bool:
        return self._spool.phase is Phase.STUCK

    async def append(self, items: PushItems) -> list[str]:
        record = to_record(items)
        await self._spool.append(_ENCODER.encode(record))
        return record.transaction_ids

    async def try_lead(self) -> bool:
        return await self._spool.try_lead()

    async def release_lead(self) -> None:
        await self._spool.release_lead()

    async def read(self, *, records_max: int, bytes_max: int) -> KeptPushes:
        batch = await self._spool.read(records_max=records_max, bytes_max=bytes_max)
        pairs = zip(batch.bodies, batch.positions, strict=True)
        # Both directories of a pair may have a record at the same place.
        records = [_kept(body, (end, hash(body))) for body, end in pairs]
        return KeptPushes(records, batch.end)

    async def advance(self, end: Position) -> None:
        await self._spool.advance(end)

    async def announce(self, *, is_closing: bool = False, is_stuck: bool = False) -> None:
        phase = Phase.CLOSING if is_closing else Phase.STUCK if is_stuck else Phase.OPEN
        await self._spool.set_phase(phase)

    async def set_aside(self, record: KeptPush, reason: str) -> None:
        await self._spool.set_aside(record.body, reason)

    # For operators.

    async def list_aside(self, *, limit: int, offset: int) -> list[AsidePush]:
        """Return a page of records set aside, oldest first."""
        found = await self._spool.list_aside(limit=limit, offset=offset)
        return [_describe(place, entry) for place, entry in found]

    async def retry_aside(self) -> Retried:
        """Append records that were set aside to the spool again."""
        return await self._spool.retry_aside(lambda body: _decode(body) is not None)


def _describe(place: Place, entry: AsideEntry) -> AsidePush:
    items = None if entry.file else _decode(entry.body)
    keys = sorted(set(items.keys)) if items is not None else []
    return AsidePush(
        id=f"{place.segment}-{place.offset}",
        queues=sorted({key.queue for key in keys}),
        partitions=[key.partition for key in keys],
        item_count=len(items.keys) if items is not None else None,
        size_bytes=entry.size_bytes,
        reason=entry.reason,
        set_aside_at=datetime.fromtimestamp(entry.at_ms / 1000, UTC) if entry.at_ms else None,
        file=entry.file or None,
    )


def _kept(body: bytes, position: Hashable) -> KeptPush:
    try:
        record = _DECODER.decode(body)
        return KeptPush(body, to_items(record), position, record.accepted_ms)
    except (msgspec.MsgspecError, ValueError):
        return KeptPush(body, None, position, 0)


def _decode(body: bytes) -> PushItems | None:
    return _kept(body, None).items
