"""Stream queries, their state and their cycles: implements `queenmq.engine.streams.ports`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import asyncpg

from queenmq.engine.load.pressure import OperationType
from queenmq.engine.requests import PartitionRef, PushItems
from queenmq.engine.streams.requests import (
    CycleCall,
    CycleItems,
    CycleRow,
    Registration,
    StateAsk,
    StateRows,
)
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries
from queenmq.storage.stores.outcomes import decode_items


class StreamStore:
    """The store of streams."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("streams")

    async def register_query(
        self,
        name: str,
        source_queue: str,
        sink_queue: str | None,
        config_hash: str,
        *,
        reset: bool,
        keeps_source: bool,
    ) -> Registration:
        """Register a query or resume it. One with another configuration is not changed.

        With `keeps_source` so is one that reads another queue.
        """
        row = await self._database.fetch_row(
            self._sql["register_query"],
            name,
            source_queue,
            sink_queue,
            config_hash,
            reset,
            keeps_source,
            priority=OperationType.ACK_SINGLE,
        )
        return Registration(*row)

    async def delete_query(self, name: str) -> tuple[str, Sequence[str]] | None:
        """Delete a query with its state. Return its source queue and groups, or None if unknown."""
        rows = await self._database.fetch(
            self._sql["delete_query"], name, priority=OperationType.BACKGROUND
        )
        return (rows[0][0], rows[0][1]) if rows else None

    async def list_queries(
        self, name: str | None, *, limit: int, offset: int = 0
    ) -> list[asyncpg.Record]:
        """List queries by name, or the one of this name."""
        return await self._database.fetch(
            self._sql["list_queries"], name, limit, offset, priority=OperationType.ANALYTICS
        )

    async def read_states(self, asks: Sequence[StateAsk]) -> list[StateRows]:
        keys = [(place, key) for place, ask in enumerate(asks, 1) for key in ask.keys or ()]
        rows = await self._database.fetch(
            self._sql["read_states"],
            [ask.query_id for ask in asks],
            [ask.partition_id for ask in asks],
            [ask.keys is not None for ask in asks],
            [place for place, _ in keys],
            [key for _, key in keys],
            [ask.prefix for ask in asks],
            [ask.ripe_at for ask in asks],
            priority=OperationType.ACK_BATCH,
        )
        return [StateRows(*row) for row in rows]

    async def commit_cycles(
        self, call: CycleCall, *, queue_max: int, lock_timeout_ms: int
    ) -> list[CycleRow]:
        rows = await self._database.fetch(
            self._sql["commit_cycles"],
            *_cycle_columns(call.cycles),
            *_op_columns(call.cycles),
            *_push_columns(call),
            queue_max,
            lock_timeout_ms,
            _encrypted(call),
            priority=OperationType.ACK_BATCH,
        )
        return [_cycle_row(row) for row in rows]

    async def find_busy_pairs(self, pairs: Sequence[tuple[UUID, UUID]]) -> set[tuple[UUID, UUID]]:
        rows = await self._database.fetch(
            self._sql["find_busy_pairs"],
            [query_id for query_id, _ in pairs],
            [partition_id for _, partition_id in pairs],
            priority=OperationType.ACK_BATCH,
        )
        return {(row[0], row[1]) for row in rows}

    async def measure_state(self, query_ids: Sequence[UUID]) -> dict[UUID, int]:
        rows = await self._database.fetch(
            self._sql["measure_state"], query_ids, priority=OperationType.ACK_BATCH
        )
        return {row[0]: row[1] for row in rows}

    async def is_last_cycle(self, query_id: UUID, partition_id: UUID, digest: UUID) -> bool:
        found: bool = await self._database.fetch_value(
            self._sql["is_last_cycle"],
            query_id,
            partition_id,
            digest,
            priority=OperationType.ACK_BATCH,
        )
        return found

    async def note_errors(self, errors: Mapping[UUID, str]) -> None:
        await self._database.fetch(
            self._sql["note_errors"],
            list(errors),
            list(errors.values()),
            priority=OperationType.BACKGROUND,
        )


def _cycle_row(row: asyncpg.Record) -> CycleRow:
    found = CycleRow(*row)
    return found._replace(outcomes=decode_items(row["outcomes"] or ""))


def _cycle_columns(cycles: Sequence[CycleItems]) -> list[list[Any]]:
    acks = [cycle.ack for cycle in cycles]
    return [
        [cycle.query_id for cycle in cycles],
        [cycle.partition_id for cycle in cycles],
        [cycle.consumer_group for cycle in cycles],
        [cycle.digest for cycle in cycles],
        [cycle.version for cycle in cycles],
        [cycle.keeps_lease for cycle in cycles],
        [ack and ack.transaction_id for ack in acks],
        [ack and ack.lease_id for ack in acks],
        [ack and ack.status for ack in acks],
        [ack and ack.error for ack in acks],
    ]


def _op_columns(cycles: Sequence[CycleItems]) -> list[list[Any]]:
    ops = [(place, *op) for place, cycle in enumerate(cycles, 1) for op in cycle.ops]
    return [list(column) for column in zip(*ops, strict=True)] if ops else [[], [], [], []]


def _push_columns(call: CycleCall) -> list[Any]:
    refs = [ref for some in call.refs for ref in some]
    pushes = [cycle.pushes for cycle in call.cycles]
    partition_ids, item_partitions = _places(refs)
    return [
        partition_ids,
        [place for place, one in enumerate(pushes, 1) for _ in one.payloads],
        item_partitions,
        _optional(pushes, [one.transaction_ids for one in pushes]),
        _optional(pushes, [one.trace_ids for one in pushes]),
        [payload for one in pushes for payload in one.payloads],
        _optional(pushes, [one.producer_subs for one in pushes]),
    ]


def _encrypted(call: CycleCall) -> list[Any] | None:
    pushes = [cycle.pushes for cycle in call.cycles]
    return _optional(pushes, [one.encrypted for one in pushes])


def _places(refs: Sequence[PartitionRef]) -> tuple[list[UUID], list[int]]:
    partition_ids = sorted({ref.partition_id for ref in refs})
    places = {partition_id: place for place, partition_id in enumerate(partition_ids, 1)}
    return partition_ids, [places[ref.partition_id] for ref in refs]


def _optional(
    pushes: Sequence[PushItems], columns: Iterable[Sequence[Any] | None]
) -> list[Any] | None:
    """Join a column of all pushes, or None where no push has a value in it."""
    parts = list(columns)
    if all(part is None for part in parts):
        return None
    return [
        value
        for one, part in zip(pushes, parts, strict=True)
        for value in (part if part is not None else [None] * len(one.payloads))
    ]
