"""Queues of many partitions, made in bulk, and what searches of them read."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from tests.isolation.sessions import QUEUE_MODE, ensure

_MAKE = """
WITH made AS (
    INSERT INTO queen.partitions (queue_id, name)
    SELECT q.id, gen_random_uuid() FROM queen.queues q, generate_series(1, $2) WHERE q.name = $1
    RETURNING id, queue_id
), looked AS (
    INSERT INTO queen.partition_lookup (partition_id, queue_id, last_seq, last_message_created_at)
    SELECT id, queue_id, $3, now() FROM made
), passed AS (
    INSERT INTO queen.partition_consumers (partition_id, consumer_group, queue_id, cursor_seq)
    SELECT id, g, queue_id, $3 FROM made, unnest($4::text[]) AS g
)
SELECT id FROM made
"""
_STORE = """
INSERT INTO queen.messages (partition_id, seq, id, queue_id, created_at, payload)
SELECT p.id, 1, gen_random_uuid(), p.queue_id, now(), '"passed"' FROM queen.partitions p
WHERE p.id = ANY ($1)
"""
_PASS = "UPDATE queen.partition_consumers SET cursor_seq = 1 WHERE partition_id = ANY ($1)"
_READS = """
SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables
WHERE relid IN ('queen.partition_lookup'::regclass, 'queen.partition_consumers'::regclass)
"""


async def make_idle(
    database: asyncpg.Connection,
    queue: str,
    count: int,
    *,
    messages: int = 0,
    groups: tuple[str, ...] = (QUEUE_MODE,),
) -> list[UUID]:
    """Make partitions in which these groups have passed that many messages, all removed since."""
    await ensure(database, queue)
    rows = await database.fetch(_MAKE, queue, count, messages, list(groups))
    await database.execute("ANALYZE queen.partition_lookup, queen.partition_consumers")
    return [row["id"] for row in rows]


async def make_passed(
    database: asyncpg.Connection, queue: str, count: int, *, groups: tuple[str, ...] = (QUEUE_MODE,)
) -> list[UUID]:
    """Make partitions with a message each that these groups have passed."""
    made = await make_idle(database, queue, count, groups=groups)
    await database.execute(_STORE, made)
    await database.execute(_PASS, made)
    await database.execute("ANALYZE queen.partition_lookup, queen.partition_consumers")
    return made


async def count_reads(database: asyncpg.Connection) -> int:
    """Return how many rows of partitions and cursors sessions that have reported it have read."""
    await database.execute("SELECT pg_stat_force_next_flush()")
    reads: int = await database.fetchval(_READS)
    return reads
