"""The operation queue in short SQL calls: queue, claim, run, give back, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import asyncpg

from tests.isolation.sessions import Item, Pushed, push


class RawItem(NamedTuple):
    """One item with everything that a push may carry; the payload is JSON text."""

    partition_id: UUID
    payload: str
    transaction_id: str | None = None
    trace_id: UUID | None = None
    producer_sub: str | None = None
    is_encrypted: bool | None = None


class Answered(NamedTuple):
    """Ids, outcome letters and places in line, in item order."""

    ids: list[str]
    outcomes: str
    positions: list[int | None] | None


class Claim(NamedTuple):
    """The operations that a worker claimed, in the order of each partition."""

    token: UUID
    rows: list[asyncpg.Record]

    @property
    def ids(self) -> list[UUID]:
        return [row["id"] for row in self.rows]


async def push_requests(
    session: asyncpg.Connection,
    *requests: Sequence[RawItem],
    queued: Sequence[UUID] | None = None,
    queue_max: int | None = 1_000,
    checks_operations_first: bool = False,
    is_accepted: bool = False,
) -> Answered:
    """Several requests in one call."""
    items = [item for request in requests for item in request]
    partition_ids = sorted({item.partition_id for item in items})
    row = await session.fetchrow(
        "SELECT * FROM queen.push_messages("
        "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, NULL)",
        partition_ids,
        [partition_ids.index(item.partition_id) + 1 for item in items],
        [item.transaction_id for item in items],
        [item.trace_id for item in items],
        [item.payload for item in items],
        [item.producer_sub for item in items],
        [item.is_encrypted for item in items],
        [len(request) for request in requests],
        queued,
        queue_max,
        checks_operations_first,
        is_accepted,
    )
    assert row is not None
    return Answered(*row)


async def enqueue(session: asyncpg.Connection, partition_id: UUID, *payloads: Any) -> list[UUID]:
    """Queue a request per payload; the operations."""
    pushed = [
        await push(session, Item(partition_id, payload), queued=[partition_id])
        for payload in payloads
    ]
    assert all(one.outcomes in ("s", "b") for one in pushed), pushed
    return [UUID(one.message_ids[0]) for one in pushed]


async def queue_items(session: asyncpg.Connection, *items: Item) -> Pushed:
    """One request, all of it to be queued."""
    return await push(session, *items, queued=sorted({item.partition_id for item in items}))


async def claim(
    session: asyncpg.Connection,
    worker: str = "worker",
    *,
    partitions_max: int = 500,
    items_max: int = 2_000,
) -> Claim:
    """Take operations to run."""
    token = uuid4()
    rows = await session.fetch(
        "SELECT * FROM queen.claim_operations($1, $2, $3, $4) ORDER BY partition_id, seq",
        worker,
        token,
        partitions_max,
        items_max,
    )
    return Claim(token, rows)


async def run(
    session: asyncpg.Connection,
    claimed: Claim,
    ids: Sequence[UUID] | None = None,
    *,
    lock_timeout_ms: int = 20_000,
) -> int:
    """Run what was claimed, or some of it; messages stored."""
    stored: int = await session.fetchval(
        "SELECT queen.run_operations($1, $2, $3)",
        claimed.ids if ids is None else ids,
        claimed.token,
        lock_timeout_ms,
    )
    return stored


async def run_all(session: asyncpg.Connection) -> int:
    """Claim and run until nothing can be claimed; messages stored."""
    stored = 0
    while (claimed := await claim(session)).rows:
        stored += await run(session, claimed)
    return stored


async def give_back(
    session: asyncpg.Connection,
    claimed: Claim,
    *,
    failed_id: UUID | None = None,
    error: str | None = None,
    is_counted: bool = False,
    delay_ms: int = 0,
) -> None:
    """Release a claim."""
    await session.execute(
        "SELECT queen.release_operations($1, $2, $3, $4, $5, $6)",
        claimed.ids,
        claimed.token,
        failed_id,
        error,
        is_counted,
        delay_ms,
    )


async def fail_once(session: asyncpg.Connection, error: str = "wrong data") -> UUID:
    """Claim the next operation and let a run of it fail, counted; the operation."""
    claimed = await claim(session, partitions_max=1, items_max=1)
    (failed_id,) = claimed.ids
    await give_back(session, claimed, failed_id=failed_id, error=error, is_counted=True)
    return failed_id


async def fail_for_good(session: asyncpg.Connection) -> UUID:
    """Use up the runs of the next operation; the operation."""
    failed = [await fail_once(session) for _ in range(3)]
    assert len(set(failed)) == 1
    return failed[0]


async def settle(session: asyncpg.Connection, operation_id: UUID, action: str) -> str | None:
    """Retry or discard a failed operation; its status before."""
    status: str | None = await session.fetchval(
        "SELECT queen.settle_operation($1, $2)", operation_id, action
    )
    return status


async def operations(session: asyncpg.Connection, partition_id: UUID) -> list[asyncpg.Record]:
    """All rows of a partition, in order."""
    return await session.fetch(
        "SELECT * FROM queen.operation_queue WHERE partition_id = $1 ORDER BY seq", partition_id
    )


async def operation(session: asyncpg.Connection, operation_id: UUID) -> asyncpg.Record:
    """One row."""
    row = await session.fetchrow("SELECT * FROM queen.operation_queue WHERE id = $1", operation_id)
    assert row is not None
    return row


async def let_time_out(session: asyncpg.Connection) -> None:
    """Make every claim older than its timeout."""
    await session.execute(
        "UPDATE queen.operation_queue SET processing_started_at = processing_started_at"
        " - make_interval(secs => timeout_seconds + 1) WHERE status = 'processing'"
    )


async def stored(session: asyncpg.Connection, partition_id: UUID) -> list[Any]:
    """The payloads that a partition holds, in order."""
    rows = await session.fetch(
        "SELECT payload::text FROM queen.messages WHERE partition_id = $1 ORDER BY seq",
        partition_id,
    )
    return [json.loads(row[0]) for row in rows]
