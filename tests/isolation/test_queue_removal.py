"""Deleting and clearing queues while others push, pop and create partitions."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from tests.isolation.sessions import (
    Connect,
    Item,
    Want,
    ack,
    acks_of,
    cursor,
    ensure,
    pop,
    pop_one,
    push,
    push_all,
    seqs,
    start_blocked,
)
from tests.support.broker import SOON_S, unique
from tests.support.waiting import wait_until_async

_DELETE = "SELECT queen.delete_queue($1)"
_TABLES = ("partitions", "partition_lookup", "partition_consumers", "messages", "dead_letter_queue")


async def _leftovers(database: asyncpg.Connection) -> dict[str, int]:
    counts = {
        table: await database.fetchval(f"SELECT count(*) FROM queen.{table}") for table in _TABLES
    }
    return {table: count for table, count in counts.items() if count}


async def test_delete_waits_for_a_push_in_flight_and_removes_it(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer, remover = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(database, queue)
    opened = producer.transaction()
    await opened.start()
    await push_all(producer, place, 1)
    waiting = await start_blocked(database, remover, remover.fetchval(_DELETE, queue))
    await opened.commit()
    assert await waiting is True
    assert await _leftovers(database) == {}


async def test_push_that_waited_for_a_delete_hears_that_the_partition_is_gone(
    database: asyncpg.Connection, connect: Connect
) -> None:
    remover, producer = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(database, queue)
    opened = remover.transaction()
    await opened.start()
    await remover.fetchval(_DELETE, queue)
    waiting = await start_blocked(database, producer, push_all(producer, place, 1))
    await opened.commit()
    with pytest.raises(asyncpg.PostgresError) as refusal:
        await waiting
    assert refusal.value.sqlstate == "QN001"
    assert await _leftovers(database) == {}


async def test_push_goes_on_when_the_delete_rolls_back(
    database: asyncpg.Connection, connect: Connect
) -> None:
    remover, producer = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(database, queue)
    opened = remover.transaction()
    await opened.start()
    await remover.fetchval(_DELETE, queue)
    waiting = await start_blocked(database, producer, push_all(producer, place, 1))
    await opened.rollback()
    await waiting
    assert (await pop_one(database, place)).data == [1]


async def test_one_push_with_a_deleted_partition_stores_nothing_elsewhere(
    database: asyncpg.Connection,
) -> None:
    queue, other = unique(), unique()
    (gone,) = await ensure(database, queue)
    (place,) = await ensure(database, other)
    await database.fetchval(_DELETE, queue)
    with pytest.raises(asyncpg.PostgresError):
        await push(database, Item(place, 1), Item(gone, 1))
    assert await seqs(database, place) == []


async def test_partition_made_while_its_queue_is_deleted_belongs_to_a_new_queue(
    database: asyncpg.Connection, connect: Connect
) -> None:
    remover, creator = await connect(), await connect()
    queue = unique()
    (old,) = await ensure(database, queue, "p")
    opened = remover.transaction()
    await opened.start()
    await remover.fetchval(_DELETE, queue)
    waiting = await start_blocked(
        database,
        creator,
        creator.fetch(
            "SELECT partition_id FROM queen.ensure_partitions($1, $2, NULL)", [queue], ["p"]
        ),
    )
    await opened.commit()
    rows = await waiting
    assert len(rows) == 1, "every pair asked for must get a row"
    assert rows[0]["partition_id"] != old
    await push_all(database, rows[0]["partition_id"], 1)


async def test_caller_push_while_the_queue_is_deleted_lands_in_a_new_queue(
    database: asyncpg.Connection, connect: Connect
) -> None:
    remover, caller = await connect(), await connect()
    queue = unique()
    await ensure(database, queue)
    opened = remover.transaction()
    await opened.start()
    await remover.fetchval(_DELETE, queue)
    waiting = await start_blocked(
        database, caller, caller.fetchval("SELECT queen.push($1, '1')", queue)
    )
    await opened.commit()
    await waiting
    (place,) = await ensure(database, queue)
    assert (await pop_one(database, place)).data == [1]


async def test_delete_waits_for_a_caller_that_adds_a_partition(
    database: asyncpg.Connection, connect: Connect
) -> None:
    caller, remover = await connect(), await connect()
    queue = unique()
    await ensure(database, queue)
    opened = caller.transaction()
    await opened.start()
    await caller.fetchval("SELECT queen.push($1, '1', partition => 'new')", queue)
    waiting = await start_blocked(database, remover, remover.fetchval(_DELETE, queue))
    await opened.commit()
    assert await waiting is True
    assert await _leftovers(database) == {}


async def test_two_deletes_of_one_queue_remove_it_once(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    queue = unique()
    await ensure(database, queue)
    opened = first.transaction()
    await opened.start()
    assert await first.fetchval(_DELETE, queue) is True
    waiting = await start_blocked(database, second, second.fetchval(_DELETE, queue))
    await opened.commit()
    assert await waiting is False


async def test_pop_of_a_partition_being_deleted_leaves_no_cursor_behind(
    database: asyncpg.Connection, connect: Connect
) -> None:
    remover, consumer = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, 1)
    opened = remover.transaction()
    await opened.start()
    await remover.fetchval(_DELETE, queue)
    # The consumer sees the partition still, but must not wait for the end of the delete.
    assert await pop(consumer, Want([place], "g")) == []
    await opened.commit()
    assert await _leftovers(database) == {}


async def test_ack_after_a_delete_is_refused_and_leaves_no_cursor_behind(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, 1)
    popped = await pop_one(database, place)
    await database.fetchval(_DELETE, queue)
    (result,) = await ack(database, *acks_of(popped))
    assert not result["success"]
    assert await _leftovers(database) == {}


async def test_delete_and_a_subscription_of_two_groups_never_deadlock(
    database: asyncpg.Connection, connect: Connect
) -> None:
    remover, subscriber, holder = await connect(), await connect(), await connect()
    queue = unique()
    await ensure(database, queue)
    subscribe = "SELECT queen.subscribe_groups($1, $2, $3, $4)"
    await database.execute(subscribe, [queue], [""], ["b"], [None])
    opened = holder.transaction()
    await opened.start()
    await holder.fetch("SELECT FROM queen.queues WHERE name = $1 FOR KEY SHARE", queue)
    # The delete may have removed the start of group b already, and still needs the partitions.
    deleting = await start_blocked(database, remover, remover.fetchval(_DELETE, queue))
    # The subscription of a needs the partitions, that of b the start.
    subscribing = asyncio.create_task(
        subscriber.execute(subscribe, [queue] * 2, [""] * 2, ["a", "b"], [None] * 2)
    )
    pid = subscriber.get_server_pid()
    await wait_until_async(
        lambda: _is_done_or_waits(database, subscribing, pid), timeout_s=SOON_S, what="a lock"
    )
    await opened.commit()
    results = await asyncio.gather(deleting, subscribing, return_exceptions=True)
    assert not [one for one in results if isinstance(one, asyncpg.DeadlockDetectedError)]


async def _is_done_or_waits(
    observer: asyncpg.Connection, task: asyncio.Task[str], pid: int
) -> bool:
    return task.done() or bool(await observer.fetchval("SELECT pg_blocking_pids($1)", pid))


async def test_delete_leaves_other_queues_and_their_groups_alone(
    database: asyncpg.Connection,
) -> None:
    queue, other = unique(), unique()
    (place,) = await ensure(database, queue)
    (kept,) = await ensure(database, other)
    for one in (place, kept):
        await push_all(database, one, 1)
        await pop_one(database, one, "g")
    await database.fetchval(_DELETE, queue)
    assert (await cursor(database, kept, "g"))["is_leased"]
    assert await seqs(database, kept) == [1]


async def test_clear_waits_for_a_push_in_flight_and_numbers_go_on(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer, cleaner = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, 1)
    opened = producer.transaction()
    await opened.start()
    await push_all(producer, place, 2)
    waiting = await start_blocked(
        database, cleaner, cleaner.fetchval("SELECT queen.clear_queue($1, NULL)", queue)
    )
    await opened.commit()
    assert await waiting == 2
    await push_all(database, place, 3)
    assert await seqs(database, place) == [3]
    assert (await pop_one(database, place)).data == [3]
    assert (await pop_one(database, place, "fresh")).data == [3]


async def test_clear_ends_leases_and_their_acks_are_refused(database: asyncpg.Connection) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, 1)
    popped = await pop_one(database, place)
    await database.fetchval("SELECT queen.clear_queue($1, NULL)", queue)
    (result,) = await ack(database, *acks_of(popped))
    assert not result["success"]
    await push_all(database, place, 2)
    assert (await pop_one(database, place)).data == [2]


# One partition.

_DELETE_PARTITION = "SELECT queen.delete_partition($1, $2)"


async def test_deleting_a_partition_waits_for_a_push_in_flight_and_removes_it(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer, remover = await connect(), await connect()
    queue = unique()
    gone, kept = await ensure(database, queue, "gone", "kept")
    await push_all(database, kept, "kept")
    async with producer.transaction():
        await push_all(producer, gone, 1)
        waiting = await start_blocked(
            database, remover, remover.fetchval(_DELETE_PARTITION, queue, "gone")
        )
    assert await waiting is True
    assert await _leftovers(database) == {"partitions": 1, "partition_lookup": 1, "messages": 1}
    assert await remover.fetchval(_DELETE_PARTITION, queue, "gone") is False
    assert await remover.fetchval(_DELETE_PARTITION, unique(), "gone") is False


async def test_a_push_that_waited_for_a_deleted_partition_hears_that_it_is_gone(
    database: asyncpg.Connection, connect: Connect
) -> None:
    remover, producer, other = await connect(), await connect(), await connect()
    queue = unique()
    gone, kept = await ensure(database, queue, "gone", "kept")
    async with remover.transaction():
        await remover.fetchval(_DELETE_PARTITION, queue, "gone")
        waiting = await start_blocked(database, producer, push_all(producer, gone, 1))
        # Its neighbours are not held up.
        assert (await push_all(other, kept, 2)).outcomes == "q"
    with pytest.raises(asyncpg.PostgresError) as refusal:
        await waiting
    assert refusal.value.sqlstate == "QN001"


async def test_who_asks_for_a_partition_that_is_being_deleted_gets_a_new_one(
    database: asyncpg.Connection, connect: Connect
) -> None:
    remover, producer = await connect(), await connect()
    queue = unique()
    (gone,) = await ensure(database, queue, "gone")
    async with remover.transaction():
        await remover.fetchval(_DELETE_PARTITION, queue, "gone")
        waiting = await start_blocked(database, producer, ensure(producer, queue, "gone"))
    (made,) = await waiting
    assert made != gone
    assert (await push_all(producer, made, 1)).outcomes == "q"


async def test_deleting_a_partition_waits_for_an_ack_and_ends_its_leases(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, remover = await connect(), await connect()
    queue = unique()
    (gone,) = await ensure(database, queue, "gone")
    await push_all(database, gone, 1, 2)
    popped = await pop_one(database, gone)
    async with consumer.transaction():
        await ack(consumer, acks_of(popped)[0])
        waiting = await start_blocked(
            database, remover, remover.fetchval(_DELETE_PARTITION, queue, "gone")
        )
    assert await waiting is True
    (late,) = await ack(database, acks_of(popped)[1])
    assert not late["success"]
    assert await pop(database, Want([gone])) == []
    assert await _leftovers(database) == {}


async def test_partitions_that_come_and_go_under_load_lose_no_answered_push_of_others(
    database: asyncpg.Connection, connect: Connect
) -> None:
    queue = unique()
    (kept,) = await ensure(database, queue, "kept")
    over = asyncio.Event()

    async def come_and_go() -> int:
        session, done = await connect(), 0
        for _ in range(30):
            await ensure(session, queue, "gone")
            done += await session.fetchval(_DELETE_PARTITION, queue, "gone")
        over.set()
        return done

    async def produce() -> tuple[int, int]:
        session, answered, gone = await connect(), 0, 0
        while not over.is_set():
            (place,) = await ensure(session, queue, "gone")
            items = sorted([Item(kept, answered), Item(place, answered)])
            try:
                await push(session, *items)
                answered += 1
            except asyncpg.PostgresError as error:
                assert error.sqlstate == "QN001", error
                gone += 1
        return answered, gone

    done, *counts = await asyncio.gather(come_and_go(), produce(), produce())
    assert done == 30
    assert len(await seqs(database, kept)) == sum(answered for answered, _ in counts)
