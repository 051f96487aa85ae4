"""Idempotency keys of pushes in the database: copies at once, and copies that a spool holds."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.isolation.sessions import (
    Connect,
    Item,
    configure,
    ensure,
    push_arguments,
    seqs,
    start_blocked,
)
from tests.support.broker import unique

_DIGEST = UUID(int=5)


async def push_keyed(
    session: asyncpg.Connection,
    requests: list[tuple[list[Item], UUID | None]],
    *,
    origin: UUID | None = None,
    queued: list[UUID] | None = None,
) -> Any:
    """One push call for several requests, each with its key."""
    return await session.fetchrow(
        "SELECT * FROM queen.push_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, 1000, false, $10,"
        " 10000, false, $11, $12, $13)",
        *push_arguments([item for items, _ in requests for item in items]),
        [len(items) for items, _ in requests],
        queued,
        origin is not None,
        [key for _, key in requests],
        [key and _DIGEST for _, key in requests],
        [key and origin for _, key in requests],
    )


async def known(session: asyncpg.Connection, key: UUID) -> Any:
    return await session.fetchrow("SELECT * FROM queen.push_keys WHERE key = $1", key)


async def test_each_request_of_a_call_is_remembered_with_its_own_answer(
    database: asyncpg.Connection,
) -> None:
    a, b = await ensure(database, unique(), "a", "b")
    first, last = uuid4(), uuid4()
    row = await push_keyed(
        database,
        [([Item(a, 1), Item(b, 2)], first), ([Item(a, 3)], None), ([Item(b, 4)], last)],
    )
    assert [str(one) for one in (await known(database, first))["message_ids"]] == row[0][:2]
    assert [str(one) for one in (await known(database, last))["message_ids"]] == row[0][3:]
    assert (await known(database, first))["outcomes"] == "qq"
    assert await database.fetchval("SELECT count(*) FROM queen.push_keys") == 2


async def test_of_two_copies_at_once_the_later_waits_and_stores_nothing(
    database: asyncpg.Connection, connect: Connect
) -> None:
    slow, quick = await connect(), await connect()
    (place,) = await ensure(database, unique())
    key, other = uuid4(), uuid4()
    opened = quick.transaction()
    await opened.start()
    await push_keyed(quick, [([Item(place, 1)], key)])
    both = [([Item(place, 2)], other), ([Item(place, 1)], key)]
    waiting = await start_blocked(database, slow, push_keyed(slow, both))
    await opened.commit()
    with pytest.raises(asyncpg.PostgresError) as caught:
        await waiting
    assert caught.value.sqlstate == "QN014"
    assert await seqs(database, place) == [1]
    assert await known(database, other) is None


async def test_a_copy_after_one_that_was_rolled_back_is_stored(
    database: asyncpg.Connection, connect: Connect
) -> None:
    slow, quick = await connect(), await connect()
    (place,) = await ensure(database, unique())
    key = uuid4()
    opened = quick.transaction()
    await opened.start()
    await push_keyed(quick, [([Item(place, 1)], key)])
    waiting = await start_blocked(database, slow, push_keyed(slow, [([Item(place, 1)], key)]))
    await opened.rollback()
    assert (await waiting)["outcomes"] == "q"
    assert await seqs(database, place) == [1]


async def test_parts_of_one_spooled_request_share_its_key_and_no_copy_does(
    database: asyncpg.Connection,
) -> None:
    a, b = await ensure(database, unique(), "a", "b")
    key, record = uuid4(), uuid4()
    await push_keyed(database, [([Item(a, 1, "x")], key)], origin=record)
    await push_keyed(database, [([Item(b, 2, "y")], key)], origin=record)
    # Drained once more after a crash: found by the names.
    again = await push_keyed(database, [([Item(a, 1, "x")], key)], origin=record)
    assert again["outcomes"] == "d"
    for origin in (None, uuid4()):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await push_keyed(database, [([Item(a, 1)], key)], origin=origin)
        assert caught.value.sqlstate == "QN014"
    assert (await seqs(database, a), await seqs(database, b)) == ([1], [1])
    assert (await known(database, key))["origin"] == record


async def test_a_queued_push_is_remembered_with_its_operation(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    key = uuid4()
    row = await push_keyed(database, [([Item(place, 1)], key)], queued=[place])
    found = await known(database, key)
    assert (found["outcomes"], found["positions"]) == ("s", [1])
    assert [str(one) for one in found["message_ids"]] == row["message_ids"]


async def test_only_a_request_that_found_no_room_at_all_is_not_remembered(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await configure(database, queue, max_size=2)
    (place,) = await ensure(database, queue)
    stored, partly, full, twin = uuid4(), uuid4(), uuid4(), uuid4()
    row = await push_keyed(
        database,
        [
            ([Item(place, 1)], stored),
            ([Item(place, 2), Item(place, 3)], partly),
            ([Item(place, 4)], None),
            ([Item(place, 5), Item(place, 6)], full),
        ],
    )
    assert row["outcomes"] == "qqffff"
    assert (await known(database, partly))["outcomes"] == "qf"
    assert await known(database, full) is None
    assert (await push_keyed(database, [([Item(place, 5)], full)]))["outcomes"] == "f"
    # One that was stored while there was room is known, though a copy finds none.
    for key in (stored, partly):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await push_keyed(database, [([Item(place, 7)], full), ([Item(place, 1)], key)])
        assert caught.value.sqlstate == "QN014"
    await database.execute("UPDATE queen.queues SET max_size = 3 WHERE name = $1", queue)
    with pytest.raises(asyncpg.PostgresError) as caught:
        await push_keyed(database, [([Item(place, 8)], twin), ([Item(place, 8)], twin)])
    assert caught.value.sqlstate == "QN014"
    assert (await push_keyed(database, [([Item(place, 5)], full)]))["outcomes"] == "q"
    assert await seqs(database, place) == [1, 2, 3]
