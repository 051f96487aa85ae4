"""Partitions that are empty and idle, and what their removal makes of them."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

import asyncpg

#: Seconds; of all partitions that a test calls idle.
IDLE = 1_000


class Removed(NamedTuple):
    """The result of one call, and where to continue."""

    removed: int = 0
    next_after: UUID | None = None
    is_held: bool = False


async def make_idle(session: asyncpg.Connection, *partition_ids: UUID) -> None:
    """Remove the messages of some partitions, and let nothing have happened there for long."""
    await session.execute(
        "DELETE FROM queen.messages WHERE partition_id = ANY ($1)", list(partition_ids)
    )
    await session.execute(
        "UPDATE queen.partition_lookup SET first_seq = last_seq + 1 WHERE partition_id = ANY ($1)",
        list(partition_ids),
    )
    for table, column, key in (
        ("partitions", "created_at", "id"),
        ("partition_lookup", "last_message_created_at", "partition_id"),
        ("partition_consumers", "created_at", "partition_id"),
        ("partition_consumers", "last_served_at", "partition_id"),
        ("partition_consumers", "last_consumed_at", "partition_id"),
    ):
        await session.execute(
            f"UPDATE queen.{table} SET {column} = {column} - make_interval(secs => $2)"
            f" WHERE {key} = ANY ($1)",
            list(partition_ids),
            2 * IDLE,
        )


async def remove(
    session: asyncpg.Connection,
    queue: str,
    after: UUID | None = None,
    *,
    partitions_max: int = 5_000,
    removals_max: int = 200,
) -> Removed:
    """Make one call of the removal for a queue."""
    row = await session.fetchrow(
        "SELECT r.* FROM queen.queues q, queen.remove_idle_partitions(q.id, $2, $3, $4) r"
        " WHERE q.name = $1",
        queue,
        after or UUID(int=0),
        partitions_max,
        removals_max,
    )
    return Removed(*row) if row is not None else Removed()


async def names(session: asyncpg.Connection, queue: str) -> set[str]:
    """Return the partitions that a queue has."""
    rows = await session.fetch(
        "SELECT p.name FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id"
        " WHERE q.name = $1",
        queue,
    )
    return {row["name"] for row in rows}
