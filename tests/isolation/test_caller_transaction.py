"""queen.push inside the caller's own transaction."""

from __future__ import annotations

import asyncio
import json
from uuid import UUID

import asyncpg
import pytest

from tests.isolation.sessions import (
    Connect,
    ensure,
    pop_one,
    push_all,
    resolve,
    seqs,
    start_blocked,
)
from tests.support.broker import SOON_S, unique
from tests.support.waiting import wait_until_async

_PUSH = "SELECT queen.push($1, $2::json, partition => $3)"


async def test_pushed_message_is_visible_after_commit_and_not_before(
    database: asyncpg.Connection, connect: Connect
) -> None:
    caller = await connect()
    queue = unique()
    (place,) = await ensure(database, queue, "p")
    async with caller.transaction():
        message_id = await caller.fetchval(_PUSH, queue, '{"n": 1}', "p")
        assert await resolve(database, queue, "g") == [[]]
        assert (await pop_one(database, place, "g")).outcome == "none"
    popped = await pop_one(database, place, "g")
    assert popped.data == [{"n": 1}]
    assert UUID(popped.messages[0]["id"]) == message_id


async def test_rolled_back_message_is_gone_without_a_hole(
    database: asyncpg.Connection, connect: Connect
) -> None:
    caller = await connect()
    queue = unique()
    (place,) = await ensure(database, queue, "p")
    await push_all(database, place, "before")
    transaction = caller.transaction()
    await transaction.start()
    await caller.fetchval(_PUSH, queue, '"lost"', "p")
    await caller.fetchval(_PUSH, queue, '"lost"', "p")
    await transaction.rollback()
    await caller.fetchval(_PUSH, queue, '"after"', "p")
    assert await seqs(database, place) == [1, 2]
    assert (await pop_one(database, place)).data == ["before", "after"]


async def test_rolled_back_first_push_leaves_neither_queue_nor_partition(
    database: asyncpg.Connection, connect: Connect
) -> None:
    caller = await connect()
    queue = unique()
    transaction = caller.transaction()
    await transaction.start()
    await caller.fetchval(_PUSH, queue, "1", "p")
    await transaction.rollback()
    assert not await database.fetchval("SELECT count(*) FROM queen.queues WHERE name = $1", queue)
    await caller.fetchval(_PUSH, queue, "2", "p")
    (place,) = await ensure(database, queue, "p")
    assert (await pop_one(database, place)).data == [2]


async def test_savepoint_rollback_takes_only_its_own_messages(
    database: asyncpg.Connection, connect: Connect
) -> None:
    caller = await connect()
    queue = unique()
    async with caller.transaction():
        await caller.fetchval(_PUSH, queue, "1", "p")
        inner = caller.transaction()
        await inner.start()
        await caller.fetchval(_PUSH, queue, "2", "p")
        await inner.rollback()
        await caller.fetchval(_PUSH, queue, "3", "p")
    (place,) = await ensure(database, queue, "p")
    assert await seqs(database, place) == [1, 2]
    assert (await pop_one(database, place)).data == [1, 3]


async def test_several_pushes_of_one_transaction_keep_their_order(
    database: asyncpg.Connection, connect: Connect
) -> None:
    caller, other = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(database, queue, "p")
    transaction = caller.transaction()
    await transaction.start()
    await caller.fetchval(_PUSH, queue, "1", "p")
    waiting = await start_blocked(database, other, push_all(other, place, "other"))
    await caller.fetchval(_PUSH, queue, "2", "p")
    await transaction.commit()
    await waiting
    assert (await pop_one(database, place)).data == [1, 2, "other"]


async def test_repeated_transaction_id_returns_the_stored_message(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    call = "SELECT queen.push($1, $2::json, transaction_id => 'same')"
    first = await database.fetchval(call, queue, "1")
    async with database.transaction():
        assert await database.fetchval(call, queue, "2") == first
        assert await database.fetchval(call, queue, "3") == first
    (place,) = await ensure(database, queue)
    assert (await pop_one(database, place)).data == [1]


async def test_payload_of_null_is_stored_as_json_null(database: asyncpg.Connection) -> None:
    queue = unique()
    await database.fetchval("SELECT queen.push($1, NULL)", queue)
    (place,) = await ensure(database, queue)
    assert (await pop_one(database, place)).data == [None]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("'', '1'", id="empty queue"),
        pytest.param("NULL, '1'", id="no queue"),
        pytest.param("'q', '1', partition => ''", id="empty partition"),
        pytest.param("'q', '1', transaction_id => ''", id="empty transaction id"),
        pytest.param("repeat('q', 256), '1'", id="long queue"),
    ],
)
async def test_bad_names_are_refused(database: asyncpg.Connection, arguments: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError):
        await database.execute(f"SELECT queen.push({arguments})")


async def test_full_queue_refuses_with_its_own_code(database: asyncpg.Connection) -> None:
    queue = unique()
    await ensure(database, queue)
    await database.execute("UPDATE queen.queues SET max_size = 1 WHERE name = $1", queue)
    await database.fetchval("SELECT queen.push($1, '1')", queue)
    with pytest.raises(asyncpg.PostgresError) as refusal:
        await database.fetchval("SELECT queen.push($1, '2')", queue)
    assert refusal.value.sqlstate == "QN002"


async def test_listeners_hear_of_a_push_on_commit_and_not_of_a_rollback(
    database: asyncpg.Connection, connect: Connect
) -> None:
    caller = await connect()
    heard: list[str] = []
    await database.add_listener("queen_wake", lambda *call: heard.append(call[3]))
    lost, kept = unique(), unique()
    transaction = caller.transaction()
    await transaction.start()
    await caller.fetchval("SELECT queen.push($1, '1')", lost)
    await transaction.rollback()
    await caller.fetchval("SELECT queen.push($1, '1')", kept)
    await wait_until_async(lambda: bool(heard), timeout_s=SOON_S, what="a notification")
    assert [json.loads(text)["queues"] for text in heard] == [[kept]]


async def test_callers_on_many_partitions_and_a_broker_call_lose_nothing(
    database: asyncpg.Connection, connect: Connect
) -> None:
    queue = unique()
    names = [f"p{number}" for number in range(10)]
    places = await ensure(database, queue, *names)
    callers = [await connect() for _ in range(3)]

    async def produce(session: asyncpg.Connection, number: int) -> None:
        for turn in range(10):
            async with session.transaction():
                # In one order: callers who lock several partitions have to agree on it themselves.
                for name in names:
                    await session.fetchval(_PUSH, queue, json.dumps([number, turn]), name)

    await asyncio.gather(*(produce(session, n) for n, session in enumerate(callers)))
    for place in places:
        assert await seqs(database, place) == list(range(1, 31))
        data = (await pop_one(database, place, batch=100)).data
        for number in range(3):
            assert [turn for n, turn in data if n == number] == list(range(10))
