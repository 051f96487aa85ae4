"""The history of acks: what every move of a cursor leaves behind, also under races."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from queenmq.storage.sql_files import load_queries
from tests.isolation.sessions import (
    QUEUE_MODE,
    Ack,
    Connect,
    Item,
    Want,
    ack,
    acks_of,
    configure,
    cursor,
    ensure,
    expire,
    pop,
    pop_one,
    push_all,
    start_blocked,
    transaction,
)
from tests.support.broker import unique

_LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


async def _rows(
    session: asyncpg.Connection, place: UUID, group: str = QUEUE_MODE
) -> list[asyncpg.Record]:
    return await session.fetch(
        "SELECT * FROM queen.ack_history WHERE partition_id = $1 AND consumer_group = $2"
        " ORDER BY id",
        place,
        group,
    )


async def _steps(
    session: asyncpg.Connection, place: UUID, group: str = QUEUE_MODE
) -> list[tuple[Any, ...]]:
    names = ("cause", "first_seq", "last_seq", "completed", "dead_lettered", "retries")
    return [tuple(row[name] for name in names) for row in await _rows(session, place, group)]


async def _place(session: asyncpg.Connection, *payloads: Any, **columns: Any) -> UUID:
    queue = unique()
    await configure(session, queue, ack_history=True, **columns)
    (place,) = await ensure(session, queue)
    if payloads:
        await push_all(session, place, *payloads)
    return place


async def _seek(session: asyncpg.Connection, place: UUID, time: datetime | None) -> None:
    await session.fetch(
        "SELECT queen.seek_group($1, q.name, NULL, $3) FROM queen.queues q"
        " JOIN queen.partitions p ON p.queue_id = q.id WHERE p.id = $2",
        QUEUE_MODE,
        place,
        time,
    )


async def test_a_queue_that_does_not_ask_has_no_history(database: asyncpg.Connection) -> None:
    place = await _place(database, *range(6))
    await database.execute("UPDATE queen.queues SET ack_history = false")
    await ack(database, *acks_of(await pop_one(database, place, batch=2)))
    await pop_one(database, place, batch=2, auto_ack=True)
    await _seek(database, place, None)
    assert (await cursor(database, place) or {})["cursor_seq"] == 6
    assert await database.fetchval("SELECT count(*) FROM queen.ack_history") == 0


async def test_each_ack_is_a_step_with_its_outcome(database: asyncpg.Connection) -> None:
    place = await _place(database, *range(6), retry_limit=1)
    first = await pop_one(database, place, batch=6)
    acks = acks_of(first)
    await ack(database, *acks[:2])
    await ack(database, acks[2]._replace(status="dlq"), acks[3])
    await ack(database, acks[4]._replace(status="failed"))
    second = await pop_one(database, place)
    await ack(database, *acks_of(second, status="failed")[:1])
    assert await _steps(database, place) == [
        ("ack", 1, 2, 2, 0, 0),
        ("ack", 3, 4, 1, 1, 0),
        ("ack", 5, 5, 0, 1, 1),
    ]
    rows = await _rows(database, place)
    assert all(row["delivered_at"] <= row["passed_at"] for row in rows)
    assert rows[0]["delivered_at"] == rows[1]["delivered_at"] < rows[2]["delivered_at"]


async def test_an_ack_without_a_lease_has_no_time_of_delivery(database: asyncpg.Connection) -> None:
    place = await _place(database, 1)
    (taken,) = (await pop_one(database, place)).messages
    await _seek(database, place, _LONG_AGO)
    await ack(database, Ack(place, taken["transactionId"]))
    (row,) = await _rows(database, place)
    assert (row["cause"], row["delivered_at"]) == ("ack", None)


async def test_auto_acks_transactions_and_poison_leave_steps(database: asyncpg.Connection) -> None:
    place = await _place(database, *range(5), retry_limit=1, on_poison="dlq")
    await pop_one(database, place, batch=2, auto_ack=True)
    taken = await pop_one(database, place, batch=2)
    await transaction(database, items=[Item(place, "new")], acks=acks_of(taken))
    for _ in range(2):
        assert (await pop_one(database, place, batch=1)).outcome == "granted"
        await expire(database, place)
    assert (await pop_one(database, place, batch=1)).outcome == "again"
    assert await _steps(database, place) == [
        ("autoAck", 1, 2, 2, 0, 0),
        ("ack", 3, 4, 2, 0, 0),
        ("poison", 5, 5, 0, 1, 2),
    ]


async def test_a_refused_transaction_leaves_no_step(database: asyncpg.Connection) -> None:
    place = await _place(database, 1, 2)
    taken = await pop_one(database, place)
    await expire(database, place)
    with pytest.raises(asyncpg.PostgresError):
        await transaction(database, acks=acks_of(taken))
    assert await _rows(database, place) == []


async def test_what_was_removed_and_what_a_seek_skips_has_its_own_cause(
    database: asyncpg.Connection,
) -> None:
    place = await _place(database, *range(9))
    await pop_one(database, place, batch=1, auto_ack=True)
    await database.execute("DELETE FROM queen.messages WHERE seq IN (2, 3)")
    await database.execute("UPDATE queen.partition_lookup SET first_seq = 4")
    await pop_one(database, place, batch=1, auto_ack=True)
    await database.execute("DELETE FROM queen.messages WHERE seq = 5")
    assert (await pop_one(database, place, batch=1)).outcome == "again"
    await _seek(database, place, None)
    await push_all(database, place, "last")
    await database.execute("SELECT queen.clear_queue(name, NULL) FROM queen.queues")
    assert await _steps(database, place) == [
        ("autoAck", 1, 1, 1, 0, 0),
        ("removed", 2, 3, 0, 0, 0),
        ("autoAck", 4, 4, 1, 0, 0),
        ("removed", 5, 5, 0, 0, 0),
        ("seek", 6, 9, 0, 0, 0),
        ("removed", 10, 10, 0, 0, 0),
    ]


async def test_a_cursor_that_steps_over_a_deleted_message_writes_it_down(
    database: asyncpg.Connection,
) -> None:
    place = await _place(database, "a", "b", "c")
    await pop_one(database, place, batch=1, auto_ack=True)
    ids = await database.fetch(
        "SELECT coalesce(transaction_id, id::text) FROM queen.messages ORDER BY seq"
    )
    await database.execute("SELECT queen.delete_message($1, $2, 1000)", place, ids[1][0])
    await pop_one(database, place, batch=1, auto_ack=True)
    assert await _steps(database, place) == [
        ("autoAck", 1, 1, 1, 0, 0),
        ("removed", 2, 2, 0, 0, 0),
        ("autoAck", 3, 3, 1, 0, 0),
    ]


async def test_a_seek_back_lets_numbers_pass_again(database: asyncpg.Connection) -> None:
    place = await _place(database, 1, 2)
    await pop_one(database, place, auto_ack=True)
    await _seek(database, place, _LONG_AGO)
    await pop_one(database, place, auto_ack=True)
    assert [step[:3] for step in await _steps(database, place)] == [("autoAck", 1, 2)] * 2


async def test_a_pop_that_meets_a_change_writes_one_step(
    database: asyncpg.Connection, connect: Connect
) -> None:
    """The statement that leases locks and looks in one go: it works with the row as it is after
    the change, and the step is written for that once.
    """
    place = await _place(database, *range(4))
    await pop_one(database, place, batch=1, auto_ack=True)
    sessions = [await connect() for _ in range(8)]
    for _ in range(10):
        await push_all(database, place, *range(8))
        await asyncio.gather(*(pop(s, Want([place], batch=1, auto_ack=True)) for s in sessions))
    await _assert_each_once(database, place, QUEUE_MODE)


async def _assert_each_once(session: asyncpg.Connection, place: UUID, group: str) -> None:
    """The steps of a group that no seek has moved cover what its cursor has passed, each once."""
    at = 0
    for row in await _rows(session, place, group):
        assert row["first_seq"] == at + 1, f"{group}: {dict(row)}"
        at = row["last_seq"]
    assert at == (await cursor(session, place, group) or {"cursor_seq": 0})["cursor_seq"]


async def _consume(session: asyncpg.Connection, places: list[UUID], group: str, seed: int) -> None:
    """Pops and settles in every way there is, now and then dying with a lease."""
    chance = random.Random(seed)
    for _ in range(40):
        place = chance.choice(places)
        want = Want([place], group, batch=chance.randint(1, 5), auto_ack=chance.random() < 0.3)
        popped = await pop(session, want)
        if not popped or popped[0].outcome != "granted" or want.auto_ack:
            continue
        acks = acks_of(popped[0], group=group)[: chance.randint(0, 5)]
        acks = [a._replace(status=chance.choice(("completed", "failed", "dlq"))) for a in acks]
        if chance.random() < 0.3:
            acks = [a._replace(status="completed") for a in acks]
            try:
                await transaction(session, items=[Item(place, "t")], acks=acks)
            except asyncpg.PostgresError as error:
                assert error.sqlstate in ("QN010", "QN011"), error
        elif acks:
            await ack(session, *acks)
        if chance.random() < 0.3:
            await expire(session, place, group)


async def test_under_races_the_steps_of_each_group_are_what_its_cursor_passed(
    database: asyncpg.Connection, connect: Connect
) -> None:
    queue = unique()
    await configure(database, queue, ack_history=True, retry_limit=1)
    places = await ensure(database, queue, "a", "b", "c")
    for place in places:
        await push_all(database, place, *range(60))
    groups = ["g1", "g2"]
    sessions = [await connect() for _ in range(6)]
    await asyncio.gather(
        *(
            _consume(session, places, groups[number % 2], number)
            for number, session in enumerate(sessions)
        )
    )
    for place in places:
        for group in groups:
            await _assert_each_once(database, place, group)
    letters = await database.fetch(
        "SELECT partition_id, consumer_group, count(*) FROM queen.dead_letter_queue GROUP BY 1, 2"
    )
    noted = await database.fetch(
        "SELECT partition_id, consumer_group, sum(dead_lettered)::bigint FROM queen.ack_history"
        " GROUP BY 1, 2 HAVING sum(dead_lettered) > 0"
    )
    assert {tuple(row) for row in letters} == {tuple(row) for row in noted}
    assert letters


async def test_an_ack_that_waited_is_written_down_once(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    place = await _place(database, 1, 2)
    taken = acks_of(await pop_one(database, place))
    async with first.transaction():
        await ack(first, taken[0])
        waiting = await start_blocked(database, second, ack(second, *taken))
    await waiting
    assert [step[:3] for step in await _steps(database, place)] == [("ack", 1, 1), ("ack", 2, 2)]


async def _sweep(session: asyncpg.Connection, older_than_s: int, limit: int) -> int:
    removed: int = await session.fetchval(
        load_queries("admin")["sweep_ack_history"], older_than_s, limit
    )
    return removed


async def test_old_steps_and_those_of_deleted_queues_are_swept_in_small_parts(
    database: asyncpg.Connection,
) -> None:
    old, new, gone = [await _place(database, *range(5)) for _ in range(3)]
    for place in (old, new, gone):
        for _ in range(5):
            await pop_one(database, place, batch=1, auto_ack=True)
    await database.execute(
        "UPDATE queen.ack_history SET passed_at = passed_at - $2::interval"
        " WHERE partition_id = $1 AND first_seq < 5",
        old,
        timedelta(hours=2),
    )
    await database.execute(
        "SELECT queen.delete_queue(q.name) FROM queen.queues q"
        " JOIN queen.partitions p ON p.queue_id = q.id WHERE p.id = $1",
        gone,
    )
    assert [await _sweep(database, 3_600, 4) for _ in range(4)] == [4, 4, 1, 0]
    assert await _rows(database, gone) == []
    assert [row["first_seq"] for row in await _rows(database, old)] == [5]
    assert len(await _rows(database, new)) == 5


async def test_the_option_is_set_and_dated_by_configure(database: asyncpg.Connection) -> None:
    async def set_option(text: str) -> datetime | None:
        await database.execute(
            "SELECT queen.configure_queue('q', '', '', to_jsonb(o)) FROM (SELECT 0 AS priority,"
            ' 60 AS "leaseTime", 3 AS "retryLimit", 0 AS "retryDelay", 0 AS "maxSize", 0 AS ttl,'
            ' false AS "deadLetterQueue", false AS "dlqAfterMaxRetries", 0 AS "delayedProcessing",'
            ' 0 AS "windowBuffer", 0 AS "retentionSeconds", 0 AS "completedRetentionSeconds",'
            ' false AS "retentionEnabled", false AS "encryptionEnabled",'
            ' 0 AS "maxWaitTimeSeconds", \'dlq\' AS "onPoison",'
            f" 'stop' AS \"onFailedOperation\"{text}) o"
        )
        row = await database.fetchrow("SELECT ack_history, ack_history_since FROM queen.queues")
        assert row is not None
        return row[1] if row[0] else None

    assert await set_option("") is None, "a broker that does not know the option"
    on = await set_option(', true AS "ackHistory"')
    assert on is not None
    assert await set_option(', true AS "ackHistory"') == on, "it was on already"
    assert await set_option("") is None
    again = await set_option(', true AS "ackHistory"')
    assert again is not None and again > on
