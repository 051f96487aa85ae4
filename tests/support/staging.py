"""Staged rows and their publication in short SQL calls, as Spark's tasks and driver make them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import asyncpg

_COLUMNS = (
    "stage_id",
    "ordinal",
    "queue",
    "partition",
    "payloads",
    "transaction_ids",
    "trace_ids",
)
#: Rows that are made lists of at a time: so few that lists are many, and partitions have several.
SLICE = 7


class Row(NamedTuple):
    """One row of a DataFrame."""

    queue: str
    payload: Any
    partition: str = "Default"
    transaction_id: str | None = None
    trace_id: UUID | None = None


class Stage(NamedTuple):
    """The report of a task to the driver."""

    id: UUID
    count: int


class Published(NamedTuple):
    """The result of a batch."""

    is_repeat: bool
    stored: int
    duplicates: int
    queued: int


async def stage(session: asyncpg.Connection, *rows: Row) -> Stage:
    """Stage rows as one task does."""
    stage_id = uuid4()
    lists = [one for n in range(0, len(rows), SLICE) for one in _lists(rows[n : n + SLICE])]
    await session.copy_records_to_table(
        "spark_staging",
        schema_name="queen",
        columns=_COLUMNS,
        records=[(stage_id, ordinal, *one) for ordinal, one in enumerate(lists)],
    )
    return Stage(stage_id, len(rows))


def _lists(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.queue, row.partition), []).append(row)
    return [
        (
            *place,
            [json.dumps(row.payload) for row in same],
            _or_none([row.transaction_id for row in same]),
            _or_none([row.trace_id and str(row.trace_id) for row in same]),
        )
        for place, same in found.items()
    ]


def _or_none(values: list[str | None]) -> list[str | None] | None:
    return values if any(values) else None


async def publish(
    session: asyncpg.Connection,
    query_id: str,
    batch_id: int,
    *stages: Stage,
    digest: int | None = None,
) -> Published:
    """Publish as the driver does."""
    row = await session.fetchrow(
        "SELECT * FROM queen.publish_staged($1, $2, $3, $4, $5)",
        query_id,
        batch_id,
        [one.id for one in stages],
        [one.count for one in stages],
        digest,
    )
    assert row is not None
    return Published(*row)


async def staged(session: asyncpg.Connection) -> int:
    """Return how many messages are staged."""
    count: int = await session.fetchval(
        "SELECT coalesce(sum(cardinality(payloads)), 0) FROM queen.spark_staging"
    )
    return count


async def stored(
    session: asyncpg.Connection, queue: str, partition: str | None = None
) -> list[Any]:
    """Payloads of a queue, by partition name and then in order."""
    rows: Sequence[asyncpg.Record] = await session.fetch(
        "SELECT m.payload::text FROM queen.messages m"
        " JOIN queen.partitions p ON p.id = m.partition_id JOIN queen.queues q ON q.id = p.queue_id"
        " WHERE q.name = $1 AND ($2::text IS NULL OR p.name = $2) ORDER BY p.name, m.seq",
        queue,
        partition,
    )
    return [json.loads(row[0]) for row in rows]
