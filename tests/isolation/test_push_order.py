"""Concurrent pushes to one partition: dense, in commit order, one winner per transaction id."""

from __future__ import annotations

import asyncio
import random
from uuid import UUID

import asyncpg

from tests.isolation.sessions import (
    Connect,
    Item,
    ensure,
    pop_one,
    push,
    push_all,
    seqs,
    start_blocked,
)
from tests.support.broker import unique

_SESSIONS = 8
_PUSHES = 40


async def test_second_push_waits_and_follows_in_commit_order(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    (place,) = await ensure(database, unique())
    open_push = first.transaction()
    await open_push.start()
    await push_all(first, place, "first")
    waiting = await start_blocked(database, second, push_all(second, place, "second"))
    await open_push.commit()
    assert (await waiting).outcomes == "q"
    assert (await pop_one(database, place)).data == ["first", "second"]


async def test_rolled_back_push_leaves_no_hole(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, "before")
    open_push = first.transaction()
    await open_push.start()
    await push_all(first, place, "lost", "lost too")
    waiting = await start_blocked(database, second, push_all(second, place, "kept"))
    await open_push.rollback()
    await waiting
    assert await seqs(database, place) == [1, 2]
    assert (await pop_one(database, place)).data == ["before", "kept"]


async def test_open_push_is_not_visible_and_not_skipped_later(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer = await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    open_push = producer.transaction()
    await open_push.start()
    await push_all(producer, place, 2)
    assert (await pop_one(database, place, auto_ack=True)).data == [1]
    assert (await pop_one(database, place, auto_ack=True)).outcome == "none"
    await open_push.commit()
    assert (await pop_one(database, place, auto_ack=True)).data == [2]


async def test_repeated_transaction_id_waits_for_the_first_and_names_its_message(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    (place,) = await ensure(database, unique())
    open_push = first.transaction()
    await open_push.start()
    won = await push(first, Item(place, "winner", "same"))
    waiting = await start_blocked(database, second, push(second, Item(place, "loser", "same")))
    await open_push.commit()
    lost = await waiting
    assert (won.outcomes, lost.outcomes) == ("q", "d")
    assert lost.message_ids == won.message_ids
    assert (await pop_one(database, place)).data == ["winner"]


async def test_repeated_transaction_id_wins_when_the_first_rolls_back(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    (place,) = await ensure(database, unique())
    open_push = first.transaction()
    await open_push.start()
    await push(first, Item(place, "gone", "same"))
    waiting = await start_blocked(database, second, push(second, Item(place, "kept", "same")))
    await open_push.rollback()
    assert (await waiting).outcomes == "q"
    assert (await pop_one(database, place)).data == ["kept"]


async def test_creation_times_never_decrease_with_the_sequence(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    (place,) = await ensure(database, unique())
    open_push = first.transaction()
    await open_push.start()
    await push_all(first, place, 1)
    waiting = await start_blocked(database, second, push_all(second, place, 2, 3))
    await open_push.commit()
    await waiting
    rows = await database.fetch(
        "SELECT created_at, id FROM queen.messages WHERE partition_id = $1 ORDER BY seq", place
    )
    assert rows == sorted(rows, key=lambda row: (row["created_at"], row["id"]))


async def test_eight_sessions_with_rollbacks_and_shared_ids_have_one_winner_and_no_gaps(
    database: asyncpg.Connection, connect: Connect
) -> None:
    (place,) = await ensure(database, unique())
    sessions = [await connect() for _ in range(_SESSIONS)]
    outcomes = await asyncio.gather(
        *(_push_at_random(session, place, number) for number, session in enumerate(sessions))
    )
    committed = [one for results in outcomes for one in results]
    stored = await database.fetch(
        "SELECT id::text, transaction_id, seq FROM queen.messages WHERE partition_id = $1"
        " ORDER BY seq",
        place,
    )
    assert [row["seq"] for row in stored] == list(range(1, len(stored) + 1))
    winners = {row["transaction_id"]: row["id"] for row in stored}
    assert len(winners) == len(stored)
    queued = [transaction_id for transaction_id, _, letter in committed if letter == "q"]
    assert sorted(queued) == sorted(winners)
    # A duplicate was told the id of a message that is really there.
    assert all(winners[transaction_id] == message_id for transaction_id, message_id, _ in committed)
    last = await database.fetchval(
        "SELECT last_seq FROM queen.partition_lookup WHERE partition_id = $1", place
    )
    assert last == len(stored)


async def _push_at_random(
    session: asyncpg.Connection, place: UUID, number: int
) -> list[tuple[str, str, str]]:
    """Return this session's commits: transaction id, message id and outcome letter."""
    chance = random.Random(number)
    committed = []
    for turn in range(_PUSHES):
        shared = chance.random() < 0.35
        name = f"shared-{chance.randrange(60)}" if shared else f"own-{number}-{turn}"
        transaction = session.transaction()
        await transaction.start()
        pushed = await push(session, Item(place, turn, name))
        if chance.random() < 0.1:
            await transaction.rollback()
        else:
            await transaction.commit()
            committed.append((name, pushed.message_ids[0], pushed.outcomes))
    return committed


async def test_reader_never_sees_a_message_before_an_earlier_one(
    database: asyncpg.Connection, connect: Connect
) -> None:
    (place,) = await ensure(database, unique())
    sessions = [await connect() for _ in range(4)]

    async def produce(session: asyncpg.Connection) -> None:
        for turn in range(_PUSHES):
            await push_all(session, place, turn, turn)

    producers = asyncio.gather(*map(produce, sessions))
    looks = 0
    while not producers.done():
        row = await database.fetchrow(
            "SELECT count(*) AS messages, coalesce(max(seq), 0) AS last FROM queen.messages"
            " WHERE partition_id = $1",
            place,
        )
        assert row["messages"] == row["last"]
        looks += 1
    await producers
    assert looks
    assert await seqs(database, place) == list(range(1, 4 * 2 * _PUSHES + 1))


async def test_busy_partitions_are_named_and_the_others_are_free(
    database: asyncpg.Connection, connect: Connect
) -> None:
    holder = await connect()
    held, free = await ensure(database, unique(), "held", "free")
    async with holder.transaction():
        await push_all(holder, held, 1)
        busy = await database.fetchval("SELECT queen.find_busy_partitions($1)", [held, free])
        assert busy == [held]
        assert (await push_all(database, free, 1)).outcomes == "q"
    assert await database.fetchval("SELECT queen.find_busy_partitions($1)", [held, free]) == []


async def test_push_gives_up_after_its_lock_timeout_with_nothing_stored(
    database: asyncpg.Connection, connect: Connect
) -> None:
    holder = await connect()
    held, free = await ensure(database, unique(), "held", "free")
    async with holder.transaction():
        await push_all(holder, held, "holder")
        try:
            await push(database, Item(free, 1), Item(held, 1), lock_timeout_ms=20)
        except asyncpg.LockNotAvailableError:
            pass
        else:
            raise AssertionError("the push did not wait for the held partition")
    assert await seqs(database, free) == []
    assert (await pop_one(database, held)).data == ["holder"]
    # The timeout of one call must not stay with the session.
    assert await database.fetchval("SELECT current_setting('lock_timeout')") == "0"


async def test_two_pushes_never_pass_the_bound_of_a_queue_together(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    queue = unique()
    one, other = await ensure(database, queue, "one", "other")
    await database.execute("UPDATE queen.queues SET max_size = 3 WHERE name = $1", queue)
    open_push = first.transaction()
    await open_push.start()
    assert (await push_all(first, one, 1, 2)).outcomes == "qq"
    waiting = await start_blocked(database, second, push_all(second, other, 1, 2))
    await open_push.commit()
    assert (await waiting).outcomes == "qf"
