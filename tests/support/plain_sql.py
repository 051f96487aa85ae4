"""Changes to the tables without a broker: insert messages, read lookup rows.

Also the SQL that the documentation tells them to run, taken from its pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import asyncpg

_PAGES = Path(__file__).parents[2] / "docs"

#: One statement, rows in the order given; without a queue of its own each row has its partition's.
INSERT = """
INSERT INTO queen.messages (partition_id, seq, id, queue_id, transaction_id, created_at, payload)
SELECT u.partition_id, u.seq, gen_random_uuid(), p.queue_id, 'sql-' || u.seq,
       coalesce(u.created_at, clock_timestamp()), to_json(u.seq)
FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[]) WITH ORDINALITY
     AS u (partition_id, seq, created_at, n)
LEFT JOIN LATERAL (
    SELECT coalesce((SELECT x.queue_id FROM queen.partitions x WHERE x.id = u.partition_id),
                    u.partition_id) AS queue_id) p ON true
ORDER BY u.n
"""


class Lookup(NamedTuple):
    """The row of a partition."""

    first_seq: int
    last_seq: int
    last_message_id: UUID | None
    last_message_created_at: datetime | None

    @property
    def span(self) -> tuple[int, int]:
        return self.first_seq, self.last_seq


async def insert_rows(
    session: asyncpg.Connection,
    rows: Sequence[tuple[UUID, int]],
    times: Sequence[datetime] | None = None,
) -> None:
    """Messages by (partition, seq), in one plain INSERT; the payload of each is its seq."""
    await session.execute(
        INSERT, [row[0] for row in rows], [row[1] for row in rows], list(times or [])
    )


async def insert(session: asyncpg.Connection, place: UUID, *seqs: int) -> None:
    """Messages of one partition, in one plain INSERT."""
    await insert_rows(session, [(place, seq) for seq in seqs])


async def lookup(session: asyncpg.Connection, place: UUID) -> Lookup | None:
    """The row of a partition, if it has one."""
    row = await session.fetchrow(
        "SELECT first_seq, last_seq, last_message_id, last_message_created_at"
        " FROM queen.partition_lookup WHERE partition_id = $1",
        place,
    )
    return Lookup(*row) if row else None


async def newest(session: asyncpg.Connection, place: UUID) -> tuple[UUID, datetime]:
    """Id and time of the message with the highest seq."""
    row = await session.fetchrow(
        "SELECT id, created_at FROM queen.messages WHERE partition_id = $1"
        " ORDER BY seq DESC LIMIT 1",
        place,
    )
    assert row is not None
    return row["id"], row["created_at"]


def documented_sql(page: str, heading: str) -> str:
    """The SQL block that follows a heading of a page of the documentation."""
    text = (_PAGES / page).read_text(encoding="utf-8")
    section = re.split(rf"^#+ {re.escape(heading)}\n", text, flags=re.M)[1]
    found = re.search(r"^```sql\n(.*?)^```$", section, re.M | re.S)
    assert found, f"{page} has no SQL below {heading!r}"
    return found.group(1)
