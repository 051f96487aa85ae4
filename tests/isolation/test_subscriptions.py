"""The start of a group when messages commit around its subscription."""

from __future__ import annotations

from datetime import datetime

import asyncpg

from tests.isolation.sessions import (
    Connect,
    Want,
    ensure,
    pop,
    pop_one,
    push_all,
    resolve,
    start_blocked,
)
from tests.support.broker import unique

_SUBSCRIBE = "SELECT queen.subscribe_groups($1, $2, $3, $4)"


async def _subscribe(
    session: asyncpg.Connection, queue: str, group: str, *, time: datetime | None = None,
    partition: str = "",
) -> None:  # fmt: skip
    await session.execute(_SUBSCRIBE, [queue], [partition], [group], [time])


async def test_new_group_gets_a_message_that_commits_after_it_subscribed(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer = await connect()
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, "old")
    opened = producer.transaction()
    await opened.start()
    await push_all(producer, place, "created before, committed after")
    await _subscribe(database, queue, "g")
    await opened.commit()
    assert await resolve(database, queue, "g") == [[place]]
    assert (await pop_one(database, place, "g")).data == ["created before, committed after"]


async def test_new_group_gets_a_first_message_in_a_partition_made_by_an_open_transaction(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer = await connect()
    queue = unique()
    await ensure(database, queue)
    opened = producer.transaction()
    await opened.start()
    await producer.fetchval("SELECT queen.push($1, '1', partition => 'new')", queue)
    await _subscribe(database, queue, "g")
    await opened.commit()
    (place,) = await ensure(database, queue, "new")
    assert (await pop_one(database, place, "g")).data == [1]


async def test_new_group_does_not_get_what_was_committed_before(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    places = await ensure(database, queue, "a", "b")
    for place in places:
        await push_all(database, place, "old")
    await _subscribe(database, queue, "g")
    assert await resolve(database, queue, "g") == [[]]
    assert (await pop_one(database, places[0], "g")).outcome == "none"
    await push_all(database, places[1], "fresh")
    assert await resolve(database, queue, "g") == [[places[1]]]
    assert (await pop_one(database, places[1], "g")).data == ["fresh"]


async def test_group_that_subscribes_before_the_queue_exists_gets_everything(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await _subscribe(database, queue, "g")
    (place,) = await ensure(database, queue)
    await push_all(database, place, 1, 2)
    assert (await pop_one(database, place, "g")).data == [1, 2]


async def test_second_subscription_does_not_move_the_start(database: asyncpg.Connection) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, "old")
    await _subscribe(database, queue, "g")
    await push_all(database, place, "new")
    await _subscribe(database, queue, "g")
    assert (await pop_one(database, place, "g")).data == ["new"]


async def test_two_sessions_that_subscribe_a_group_at_once_agree_on_the_start(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, 1)
    opened = first.transaction()
    await opened.start()
    await _subscribe(first, queue, "g")
    waiting = await start_blocked(database, second, _subscribe(second, queue, "g"))
    await push_all(database, place, 2)
    await opened.commit()
    await waiting
    assert (await pop_one(second, place, "g")).data == [2]


async def test_pop_during_an_open_subscription_neither_waits_nor_delivers_from_the_oldest(
    database: asyncpg.Connection, connect: Connect
) -> None:
    subscriber, consumer = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, "old")
    opened = subscriber.transaction()
    await opened.start()
    await _subscribe(subscriber, queue, "g")
    await consumer.execute("SET lock_timeout = '2s'")
    assert not [row for row in await pop(consumer, Want([place], "g")) if row.messages]
    await opened.commit()
    assert (await pop_one(consumer, place, "g")).outcome == "none"


async def test_start_at_a_time_gets_that_message_and_all_after_it(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    for number in range(9):
        await push_all(database, place, number)
    time = await database.fetchval(
        "SELECT created_at FROM queen.messages WHERE partition_id = $1 AND seq = 5", place
    )
    await _subscribe(database, queue, "g", time=time)
    assert (await pop_one(database, place, "g")).data == [4, 5, 6, 7, 8]


async def test_start_of_one_partition_leaves_the_others_at_the_oldest(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    places = await ensure(database, queue, "a", "b")
    for place in places:
        await push_all(database, place, "old")
    await _subscribe(database, queue, "g", partition="a")
    assert (await pop_one(database, places[0], "g")).outcome == "none"
    assert (await pop_one(database, places[1], "g")).data == ["old"]


async def test_group_of_the_default_mode_is_never_cut_short_by_a_subscription(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, "old")
    await _subscribe(database, queue, "g")
    assert (await pop_one(database, place)).data == ["old"]
    assert (await pop_one(database, place, "other")).data == ["old"]


# One row, whatever the number of partitions.


async def test_subscription_makes_no_cursor_and_the_first_pop_makes_one(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    places = await ensure(database, queue, *(f"p{n}" for n in range(50)))
    await push_all(database, places[7], "old")
    for group in ("g", "h"):
        await _subscribe(database, queue, group)
    assert await _cursors(database) == 0
    assert await resolve(database, queue, "g", "h") == [[], []]
    await push_all(database, places[7], "new")
    assert await resolve(database, queue, "g", "h") == [[places[7]], [places[7]]]
    assert (await pop_one(database, places[7], "g")).data == ["new"]
    assert await _cursors(database) == 1


async def _cursors(session: asyncpg.Connection) -> int:
    count: int = await session.fetchval("SELECT count(*) FROM queen.partition_consumers")
    return count


async def test_clock_that_goes_back_does_not_bring_what_was_committed_before(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, "from a clock ahead")
    for table, column in (
        ("messages", "created_at"),
        ("partition_lookup", "last_message_created_at"),
    ):
        await database.execute(f"UPDATE queen.{table} SET {column} = {column} + interval '1 hour'")
    await _subscribe(database, queue, "g")
    assert await resolve(database, queue, "g") == [[]]
    await push_all(database, place, "new")
    assert (await pop_one(database, place, "g")).data == ["new"]


async def test_start_that_was_loaded_into_another_cluster_counts_by_time_as_well(
    database: asyncpg.Connection,
) -> None:
    """There transaction ids are small again, so the snapshot seems to see what is pushed."""
    queue = unique()
    places = await ensure(database, queue, "a", "b")
    for place in places:
        await push_all(database, place, "old")
    await _subscribe(database, queue, "g")
    # As a load does: the same values in a row of another transaction.
    await database.execute(
        "WITH gone AS (DELETE FROM queen.consumer_groups_metadata RETURNING *)"
        " INSERT INTO queen.consumer_groups_metadata SELECT * FROM gone"
    )
    assert await resolve(database, queue, "g") == [[]]
    await push_all(database, places[0], "new")
    await database.execute("UPDATE queen.messages SET xid = '3' WHERE partition_id = $1", places[0])
    await database.execute(
        "UPDATE queen.partition_lookup SET last_xid = '3' WHERE partition_id = $1", places[0]
    )
    assert await resolve(database, queue, "g") == [[places[0]]]
    assert (await pop_one(database, places[1], "g")).outcome == "none"


async def test_group_that_got_its_cursors_before_there_were_snapshots_keeps_its_start(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (old,) = await ensure(database, queue, "old")
    await push_all(database, old, "before")
    assert (await pop_one(database, old, "g", auto_ack=True)).data == ["before"]
    await database.execute(
        "INSERT INTO queen.consumer_groups_metadata"
        " (queue_name, consumer_group, subscription_mode, subscription_timestamp)"
        " VALUES ($1, 'g', 'new', now())",
        queue,
    )
    (younger,) = await ensure(database, queue, "younger")
    await push_all(database, younger, 1, 2)
    # As pushed before the column was there.
    await database.execute("UPDATE queen.partition_lookup SET last_xid = NULL")
    assert await resolve(database, queue, "g") == [[younger]]
    assert (await pop_one(database, younger, "g")).data == [1, 2]


async def test_start_of_a_partition_does_not_come_behind_that_of_the_queue(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue, "a")
    await push_all(database, place, "old")
    await _subscribe(database, queue, "g")
    await push_all(database, place, "between")
    await _subscribe(database, queue, "g", partition="a")
    assert (await pop_one(database, place, "g")).data == ["between"]


async def test_subscription_to_a_partition_waits_for_the_delete_of_that_to_the_queue(
    database: asyncpg.Connection, connect: Connect
) -> None:
    operator, consumer = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(database, queue, "a")
    await _subscribe(database, queue, "g")
    async with operator.transaction():
        await operator.fetchval("SELECT queen.delete_group('g', $1, true)", queue)
        waiting = await start_blocked(
            database, consumer, _subscribe(consumer, queue, "g", partition="a")
        )
        await push_all(database, place, "old")
    await waiting
    await push_all(database, place, "new")
    assert (await pop_one(database, place, "g")).data == ["new"]


# Seek.


async def test_seek_moves_a_group_in_partitions_that_it_has_not_visited(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    places = await ensure(database, queue, "a", "b")
    for place in places:
        await push_all(database, place, "old")
    await _subscribe(database, queue, "g")
    seek = "SELECT partition_id FROM queen.seek_group('g', $1, NULL, $2)"
    moved = await database.fetch(seek, queue, datetime.fromisoformat("2001-01-01T00:00:00Z"))
    assert {row[0] for row in moved} == set(places)
    assert set((await resolve(database, queue, "g"))[0]) == set(places)
    assert (await pop_one(database, places[0], "g")).data == ["old"]
    assert len(await database.fetch(seek, queue, None)) == 2
    assert await resolve(database, queue, "g") == [[]]
    await push_all(database, places[1], "new")
    assert (await pop_one(database, places[1], "g")).data == ["new"]


async def test_pop_beside_a_seek_makes_no_cursor_at_the_old_start(
    database: asyncpg.Connection, connect: Connect
) -> None:
    operator, consumer = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(database, queue)
    await _subscribe(database, queue, "g")
    await push_all(database, place, 1)
    await consumer.execute("SET lock_timeout = '2s'")
    async with operator.transaction():
        await operator.execute("SELECT queen.seek_group('g', $1, NULL, NULL)", queue)
        assert await pop(consumer, Want([place], "g")) == []
    await push_all(database, place, 2)
    assert (await pop_one(consumer, place, "g")).data == [2]


async def test_seek_waits_for_a_cursor_that_is_being_made_and_moves_it(
    database: asyncpg.Connection, connect: Connect
) -> None:
    operator, consumer = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(database, queue)
    await _subscribe(database, queue, "g")
    await push_all(database, place, 1)
    async with consumer.transaction():
        assert (await pop_one(consumer, place, "g")).data == [1]
        moving = operator.fetch("SELECT queen.seek_group('g', $1, NULL, NULL)", queue)
        waiting = await start_blocked(database, operator, moving)
    assert len(await waiting) == 1
    assert (await pop_one(database, place, "g")).outcome == "none"


async def test_seek_and_subscriptions_at_once_do_not_deadlock(
    database: asyncpg.Connection, connect: Connect
) -> None:
    subscriber, operator = await connect(), await connect()
    queue = unique()
    await ensure(database, queue)
    async with subscriber.transaction():
        await _subscribe(subscriber, queue, "g")
        moving = operator.fetch("SELECT queen.seek_group('g', $1, NULL, NULL)", queue)
        waiting = await start_blocked(database, operator, moving)
        await _subscribe(subscriber, queue, "g", partition="Default")
    await waiting
