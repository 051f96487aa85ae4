"""Creating and pushing to many partitions at once: no deadlock, no duplicate, no lost row."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from tests.isolation.sessions import Connect, Item, ensure, push, push_all, seqs, start_blocked
from tests.support.broker import unique

_PARTITIONS = [f"p{number}" for number in range(400)]


async def test_two_sessions_create_400_partitions_in_opposite_order_without_a_deadlock(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    for _ in range(4):
        queue = unique()
        there, back = await asyncio.gather(
            ensure(first, queue, *_PARTITIONS), ensure(second, queue, *reversed(_PARTITIONS))
        )
        assert there == list(reversed(back))
        made = await database.fetchval(
            "SELECT count(*) FROM queen.partition_lookup l JOIN queen.partitions p"
            " ON p.id = l.partition_id JOIN queen.queues q ON q.id = p.queue_id"
            " AND q.id = l.queue_id WHERE q.name = $1",
            queue,
        )
        assert made == len(_PARTITIONS)


async def test_two_sessions_create_many_queues_in_opposite_order_without_a_deadlock(
    connect: Connect,
) -> None:
    first, second = await connect(), await connect()
    call = "SELECT queue_name, partition_id FROM queen.ensure_partitions($1, $2, NULL)"
    for _ in range(4):
        queues = [unique() for _ in range(100)]
        there, back = await asyncio.gather(
            first.fetch(call, queues, ["Default"] * 100),
            second.fetch(call, queues[::-1], ["Default"] * 100),
        )
        assert {tuple(row) for row in there} == {tuple(row) for row in back}


async def test_two_sessions_push_to_400_partitions_in_opposite_order_without_a_deadlock(
    database: asyncpg.Connection, connect: Connect
) -> None:
    sessions = [await connect() for _ in range(2)]
    places = await ensure(database, unique(), *_PARTITIONS)

    async def produce(session: asyncpg.Connection, number: int) -> None:
        order = places if number == 0 else places[::-1]
        for turn in range(5):
            pushed = await push(session, *(Item(place, [number, turn]) for place in order))
            assert pushed.outcomes == "q" * len(places)

    await asyncio.gather(*(produce(session, n) for n, session in enumerate(sessions)))
    stored = await database.fetch(
        "SELECT partition_id, array_agg(seq ORDER BY seq) AS seqs FROM queen.messages"
        " GROUP BY partition_id"
    )
    assert len(stored) == len(places)
    assert all(row["seqs"] == list(range(1, 11)) for row in stored)


async def test_creation_waits_for_the_same_partition_in_another_transaction_and_then_uses_it(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    queue = unique()
    await ensure(database, queue)
    opened = first.transaction()
    await opened.start()
    (made,) = await ensure(first, queue, "p")
    waiting = await start_blocked(database, second, ensure(second, queue, "p"))
    await opened.commit()
    assert await waiting == [made]


async def test_creation_goes_on_when_the_other_transaction_rolls_back(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    queue = unique()
    opened = first.transaction()
    await opened.start()
    await ensure(first, queue, "p")
    waiting = await start_blocked(database, second, ensure(second, queue, "p"))
    await opened.rollback()
    (made,) = await waiting
    await push_all(database, made, 1)
    assert await seqs(database, made) == [1]


async def test_creation_gives_up_after_its_lock_timeout(
    database: asyncpg.Connection, connect: Connect
) -> None:
    other = await connect()
    queue = unique()
    async with other.transaction():
        await ensure(other, queue, "p")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await database.fetch(
                "SELECT * FROM queen.ensure_partitions($1, $2, 20)", [queue], ["p"]
            )
