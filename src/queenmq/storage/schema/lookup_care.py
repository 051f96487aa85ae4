"""Finds inconsistent rows, and repairs `partition_lookup` from the messages.

It works beside running brokers, on its own connection and in short transactions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from queenmq.errors import PartitionBusy
from queenmq.storage.connection.connecting import open_connection
from queenmq.storage.connection.driver_errors import translate_error
from queenmq.storage.sql_files import load_queries

#: Partitions per transaction: milliseconds for those whose producers have to wait for it.
_SLICE = 200
#: A wait for one row of a slice holds the others meanwhile, so it is short.
_SLICE_WAIT_MS = 100
#: A partition alone holds up only sessions that wait for the same transaction anyway.
_ALONE_WAIT_MS = 1_000
#: Per kind of damage.
EXAMPLES_MAX = 5


class Kind(NamedTuple):
    """One kind of damage: its name, which is also that of its query, and what it counts."""

    name: str
    what: str
    is_resynced: bool


KINDS = (
    Kind("lookup_missing", "partitions without a lookup row", True),
    Kind("lookup_behind", "lookup rows that do not know their newest message", True),
    Kind("lookup_hollow", "lookup rows that promise messages which are gone", True),
    Kind("lookup_orphaned", "lookup rows whose partition is gone", False),
    Kind("cursor_ahead", "cursors beyond the newest number of their partition", True),
    Kind("lease_ahead", "leases that end beyond the newest number of their partition", True),
    Kind("cursor_orphaned", "cursors and leases whose partition or queue is gone", False),
    Kind("lease_partition_orphaned", "partitions of leases that have no cursor", False),
    Kind("message_orphaned", "messages without a partition", False),
)


class Finding(NamedTuple):
    """The findings of one kind: their number, and a few of them."""

    kind: Kind
    total: int
    examples: list[str]


class Resynced(NamedTuple):
    """The progress of a repair. `held` partitions could not be checked."""

    partitions: int
    checked: int = 0
    created: int = 0
    repaired: int = 0
    held: int = 0


async def check(url: str) -> list[Finding]:
    """Look for every kind of damage, each in one snapshot. Changes nothing."""
    sql = load_queries("schema/lookup_care")
    findings = []
    async with _open_connection(url) as connection:
        for kind in KINDS:
            async with connection.transaction(readonly=True):
                rows = await connection.fetch(sql[kind.name], EXAMPLES_MAX)
            total = rows[0]["total"] if rows else 0
            findings.append(Finding(kind, total, [row["example"] for row in rows]))
    return findings


async def resync(url: str, on_progress: Callable[[Resynced], None]) -> Resynced:
    """Repair all lookup rows, slice by slice. Return the progress."""
    async with _open_connection(url) as connection:
        (row,) = await _fetch(connection, "count_partitions")
        done = Resynced(row[0])
        last: UUID | None = None
        while rows := await _fetch(connection, "next_partitions", last, _SLICE):
            ids = [row[0] for row in rows]
            try:
                done = await _resync(connection, ids, _SLICE_WAIT_MS, done)
                on_progress(done)
            except PartitionBusy:
                done = await _resync_each(connection, ids, on_progress, done)
            last = ids[-1]
    return done


async def _resync_each(
    connection: asyncpg.Connection,
    ids: Sequence[UUID],
    on_progress: Callable[[Resynced], None],
    done: Resynced,
) -> Resynced:
    """Repair partitions one by one. Wait for a held one, then skip it."""
    for one in ids:
        try:
            done = await _resync(connection, [one], _ALONE_WAIT_MS, done)
        except PartitionBusy:
            done = done._replace(held=done.held + 1)
        on_progress(done)
    return done


async def _resync(
    connection: asyncpg.Connection, ids: Sequence[UUID], wait_ms: int, done: Resynced
) -> Resynced:
    (row,) = await _fetch(connection, "resync_lookup", ids, wait_ms)
    return done._replace(
        checked=done.checked + row["looked_at"],
        created=done.created + row["created"],
        repaired=done.repaired + row["repaired"],
    )


async def _fetch(connection: asyncpg.Connection, name: str, *args: Any) -> list[asyncpg.Record]:
    # In a transaction, or a pooler may send the two halves to different servers.
    with translate_error():
        async with connection.transaction():
            return await connection.fetch(load_queries("schema/lookup_care")[name], *args)


@asynccontextmanager
async def _open_connection(url: str) -> AsyncIterator[asyncpg.Connection]:
    async with open_connection(url) as connection:
        with translate_error():
            yield connection
