"""Messages that are old, and what retention makes of them."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

import asyncpg


class Removed(NamedTuple):
    """Removed messages by rule, and where to go on."""

    retention: int = 0
    completed: int = 0
    evicted: int = 0
    next_after: str | None = None


#: Seconds; of all messages that a test calls old.
OLD = 1_000


async def age(session: asyncpg.Connection, partition_id: UUID, up_to: int = 2**40) -> None:
    """Make the first messages of a partition old."""
    await session.execute(
        "UPDATE queen.messages SET created_at = created_at - make_interval(secs => $3)"
        " WHERE partition_id = $1 AND seq <= $2",
        partition_id,
        up_to,
        OLD,
    )


async def retain(
    session: asyncpg.Connection,
    queue: str,
    after: str = "",
    *,
    partitions_max: int = 500,
    messages_max: int = 1_000,
) -> Removed:
    """One call of retention for a queue."""
    row = await session.fetchrow(
        "SELECT r.* FROM queen.queues q, queen.apply_retention(q.id, $2, $3, $4) r"
        " WHERE q.name = $1",
        queue,
        after,
        partitions_max,
        messages_max,
    )
    assert row is not None
    return Removed(
        row["retention_messages"],
        row["completed_messages"],
        row["evicted_messages"],
        row["next_after"],
    )


async def place_of(session: asyncpg.Connection, partition_id: UUID) -> tuple[Any, Any]:
    """First and last number of a partition, as its lookup row has them."""
    row = await session.fetchrow(
        "SELECT first_seq, last_seq FROM queen.partition_lookup WHERE partition_id = $1",
        partition_id,
    )
    assert row is not None
    return row[0], row[1]
