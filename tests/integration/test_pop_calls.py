"""One pop call for many requests: each follows its own queue and group, and reads what it needs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID

import asyncpg
import pytest

from queenmq.ids import new_lease_id
from tests.isolation.sessions import (
    QUEUE_MODE,
    Popped,
    Want,
    configure,
    cursor,
    ensure,
    pop,
    push_all,
)
from tests.support.broker import unique

#: Messages of a large backlog and of a small one.
_MANY, _FEW = 20_000, 20


async def _place(session: asyncpg.Connection, *payloads: object, **columns: int) -> UUID:
    """A partition of a queue of its own with these messages."""
    queue = unique()
    await configure(session, queue, **columns)
    (place,) = await ensure(session, queue, "p")
    if payloads:
        await push_all(session, place, *payloads)
    return place


def _by_request(rows: list[Popped]) -> dict[int, tuple[str, list[object]]]:
    return {row.request: (row.outcome, row.data) for row in rows}


async def test_requests_of_one_call_follow_the_rules_of_their_own_queues(
    database: asyncpg.Connection,
) -> None:
    places = [
        await _place(database, 1, 2),
        await _place(database, 1, delayed_processing=3600),
        await _place(database, 1, window_buffer=3600),
        await _place(database),
        await _place(database, 1, lease_time=7),
    ]
    rows = await pop(database, *(Want([place], "g") for place in places))
    assert _by_request(rows) == {
        1: ("granted", [1, 2]),
        2: ("delayed", []),
        3: ("window", []),
        4: ("none", []),
        5: ("granted", [1]),
    }
    for place, seconds in ((places[0], 300), (places[4], 7)):
        row = await cursor(database, place, "g")
        assert row is not None
        assert (row["lease_expires_at"] - row["lease_acquired_at"]).total_seconds() == seconds
    for place in places[1:4]:
        row = await cursor(database, place, "g")
        assert row is not None and not row["is_leased"]


async def test_requests_of_one_call_start_where_their_own_groups_start(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue, "p")
    await push_all(database, place, "old")
    long_ago = datetime(2001, 1, 1, tzinfo=UTC)
    await database.execute(
        "SELECT queen.subscribe_groups($1, $2, $3, $4)",
        [queue] * 2,
        ["", ""],
        ["from now", "from then"],
        [None, long_ago],
    )
    groups = ["from now", "from then", "never heard of", QUEUE_MODE]
    rows = await pop(database, *(Want([place], group) for group in groups))
    everything = ("granted", ["old"])
    assert _by_request(rows) == {1: ("none", []), 2: everything, 3: everything, 4: everything}
    await push_all(database, place, "new")
    rows = await pop(database, Want([place], "from now"))
    assert _by_request(rows) == {1: ("granted", ["new"])}


async def _blocks_read(session: asyncpg.Connection, place: UUID, batch: int) -> int:
    """Pages that one pop of the partition touches; the pop is undone."""
    opened = session.transaction()
    await opened.start()
    plan = await session.fetchval(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"
        " SELECT * FROM queen.pop_messages_batch($1, $2, $3, $4, $5, $6)",
        [1],
        [place],
        [QUEUE_MODE],
        [batch],
        [False],
        [new_lease_id(place)],
    )
    await opened.rollback()
    node = json.loads(plan)[0]["Plan"]
    assert node["Actual Rows"] == 1
    blocks: int = node["Shared Hit Blocks"] + node["Shared Read Blocks"]
    return blocks


@pytest.mark.parametrize("delay", [0, 1], ids=["plain", "delayed"])
async def test_pop_reads_no_more_for_a_long_backlog_than_for_a_short_one(
    database: asyncpg.Connection, delay: int
) -> None:
    blocks = []
    for count in (_FEW, _MANY):
        place = await _place(database, *range(count), delayed_processing=delay)
        await database.execute(
            "UPDATE queen.messages SET created_at = created_at - interval '1 hour'"
            " WHERE partition_id = $1",
            place,
        )
        await database.execute("VACUUM ANALYZE queen.messages")
        # One that has to plan anew, as the first one does, also reads the catalogue.
        blocks.append(min([await _blocks_read(database, place, 5) for _ in range(5)]))
    short, long = blocks
    # A deeper index and no more; the backlog itself has hundreds of pages.
    assert long < short + 30, blocks
