"""Retention beside pushes, pops, acks and itself: it waits for nobody, and harms nobody."""

from __future__ import annotations

import asyncio
from uuid import UUID

import asyncpg
import pytest

from tests.isolation.sessions import (
    Ack,
    Connect,
    Item,
    ack,
    acks_of,
    configure,
    ensure,
    pop_one,
    push_all,
    seqs,
    start_blocked,
    transaction,
)
from tests.support.retention import OLD, Removed, age, place_of, retain

_RULE = {"retention_enabled": True, "retention_seconds": OLD // 2}


async def _old(session: asyncpg.Connection, *names: str, count: int = 2) -> list[UUID]:
    """Queue q with old messages in some partitions."""
    await configure(session, "q", **_RULE)
    places = await ensure(session, "q", *names)
    for place in places:
        await push_all(session, place, *range(1, count + 1))
        await age(session, place)
    return places


async def test_a_partition_that_a_push_holds_is_left_for_the_next_time(
    database: asyncpg.Connection, connect: Connect
) -> None:
    held, free = await _old(database, "held", "free")
    producer = await connect()
    opened = producer.transaction()
    await opened.start()
    await push_all(producer, held, 3)
    assert await retain(database, "q") == Removed(retention=2)
    assert await seqs(database, held) == [1, 2] and await seqs(database, free) == []
    await opened.commit()
    assert await retain(database, "q") == Removed(retention=2)
    assert await seqs(database, held) == [3] and await place_of(database, held) == (3, 3)


async def test_a_partition_with_a_pop_or_ack_in_flight_is_left_for_the_next_time(
    database: asyncpg.Connection, connect: Connect
) -> None:
    (place,) = await _old(database, "p")
    await pop_one(database, place, "other", batch=1, auto_ack=True)
    consumer = await connect()
    await pop_one(consumer, place, "g", batch=1, auto_ack=True)
    opened = consumer.transaction()
    await opened.start()
    popped = await pop_one(consumer, place, "g")
    assert await retain(database, "q") == Removed()
    await opened.commit()
    assert await retain(database, "q") == Removed(retention=1), "leased: the second one"
    opened = consumer.transaction()
    await opened.start()
    await ack(consumer, *acks_of(popped, group="g"))
    assert await retain(database, "q") == Removed()
    await opened.commit()
    assert await retain(database, "q") == Removed(retention=1)


async def test_pushes_wait_for_a_removal_and_pops_pass_it_by(
    database: asyncpg.Connection, connect: Connect
) -> None:
    (place,) = await _old(database, "p")
    await pop_one(database, place, "g", batch=1, auto_ack=True)
    keeper, producer = await connect(), await connect()
    opened = keeper.transaction()
    await opened.start()
    await retain(keeper, "q")
    pushing = await start_blocked(database, producer, push_all(producer, place, 3))
    rows = await database.fetch(
        "SELECT outcome FROM queen.pop_messages_batch("
        "ARRAY[1], ARRAY[$1::uuid], ARRAY['g'], ARRAY[1], ARRAY[false], ARRAY[gen_random_uuid()])",
        place,
    )
    assert rows == [], "the cursor is locked just then"
    await opened.commit()
    assert (await pushing).outcomes == "q"
    assert (await pop_one(database, place, "g")).data == [3]


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "rolled back"])
async def test_two_at_once_remove_and_count_each_message_once(
    database: asyncpg.Connection, connect: Connect, is_committed: bool
) -> None:
    await _old(database, "a", "b")
    first, second = await connect(), await connect()
    opened = first.transaction()
    await opened.start()
    assert await retain(first, "q", messages_max=10) == Removed(2, next_after="a")
    assert await retain(second, "q") == Removed(), "left to the first"
    await (opened.commit() if is_committed else opened.rollback())
    assert await retain(second, "q") == Removed(2 if is_committed else 4)
    assert await database.fetchval("SELECT count(*) FROM queen.messages") == 0
    counted = "SELECT sum(retention_messages)::int FROM queen.retention_history"
    assert await database.fetchval(counted) == 4


async def test_many_at_once_beside_producers_remove_all_that_is_old_and_nothing_else(
    database: asyncpg.Connection, connect: Connect
) -> None:
    names = [f"p{number}" for number in range(8)]
    places = await _old(database, *names, count=40)
    sessions = [await connect() for _ in range(6)]

    async def produce(session: asyncpg.Connection) -> None:
        for number in range(20):
            for place in places:
                await push_all(session, place, number)

    async def remove(session: asyncpg.Connection) -> int:
        total = 0
        for _ in range(60):
            total += (await retain(session, "q", messages_max=30)).retention
        return total

    results = await asyncio.gather(
        *(produce(session) for session in sessions[:2]),
        *(remove(session) for session in sessions[2:]),
    )
    last = 0
    after: str | None = ""
    while after is not None:
        removed = await retain(database, "q", after)
        last, after = last + removed.retention, removed.next_after
    assert sum(number or 0 for number in results) + last == 8 * 40
    for place in places:
        assert await seqs(database, place) == list(range(41, 81))
        assert await place_of(database, place) == (41, 80)


async def test_a_transaction_whose_message_is_gone_does_nothing(
    database: asyncpg.Connection,
) -> None:
    source, target = await _old(database, "source", "target", count=1)
    popped = await pop_one(database, source, "g")
    await database.execute(
        "UPDATE queen.partition_consumers SET lease_expires_at = now() - interval '1 s'"
    )
    await retain(database, "q")
    await database.execute(
        "UPDATE queen.partition_consumers SET lease_id = $1, lease_end_seq = 1,"
        " lease_expires_at = now() + interval '1 min'",
        popped.lease_id,
    )
    acks = [Ack(source, popped.messages[0]["transactionId"], popped.lease_id, group="g")]
    with pytest.raises(asyncpg.PostgresError) as refused:
        await transaction(database, items=[Item(target, "copy")], acks=acks)
    assert refused.value.sqlstate == "QN010"
    assert await seqs(database, target) == []


async def test_a_stranger_that_holds_a_message_is_not_waited_for(
    database: asyncpg.Connection, connect: Connect
) -> None:
    (place,) = await _old(database, "p")
    stranger = await connect()
    opened = stranger.transaction()
    await opened.start()
    await stranger.execute("SELECT FROM queen.messages WHERE seq = 1 FOR UPDATE")
    with pytest.raises(asyncpg.LockNotAvailableError):
        await retain(database, "q")
    await opened.rollback()
    assert await seqs(database, place) == [1, 2]
    assert await retain(database, "q") == Removed(2)


async def test_a_queue_deleted_meanwhile_is_no_error(
    database: asyncpg.Connection, connect: Connect
) -> None:
    await _old(database, "p")
    queue_id = await database.fetchval("SELECT id FROM queen.queues")
    remover = await connect()
    opened = remover.transaction()
    await opened.start()
    await remover.execute("SELECT queen.delete_queue('q')")
    assert await retain(database, "q") == Removed()
    await opened.commit()
    row = await database.fetchrow("SELECT * FROM queen.apply_retention($1, '', 9, 9)", queue_id)
    assert tuple(row or ()) == (None, 0, 0, 0)
