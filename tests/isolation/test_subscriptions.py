"""Where a group starts, when messages commit around the moment of its subscription."""

from __future__ import annotations

from datetime import datetime

import asyncpg

from tests.isolation.sessions import (
    Connect,
    Want,
    cursor,
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
    assert (await cursor(database, place, "g"))["cursor_seq"] == 1
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
