"""Messages that arrive by plain SQL: the lookup row follows, consumers are woken."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from queenmq.storage.schema import lookup_care
from tests.isolation.sessions import (
    Connect,
    Item,
    ack,
    acks_of,
    ensure,
    pop_one,
    push,
    push_all,
    resolve,
    start_blocked,
    transaction,
)
from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.plain_sql import documented_sql, insert, insert_rows, lookup, newest
from tests.support.waiting import wait_until_async

_START = datetime(2030, 1, 1, tzinfo=UTC)
_SESSIONS = 8
_PARTITIONS = 400
_ROUNDS = 6


async def _damage(url: str) -> dict[str, int]:
    return {found.kind.name: found.total for found in await lookup_care.check(url) if found.total}


async def test_inserted_messages_are_found_delivered_and_acked(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await insert(database, place, 1, 2, 3)
    row = await lookup(database, place)
    assert row is not None and row.span == (1, 3)
    assert row[2:] == await newest(database, place)
    assert await resolve(database, queue, "g") == [[place]]
    popped = await pop_one(database, place, "g")
    assert popped.data == [1, 2, 3] and popped.has_more is False
    results = await ack(database, *acks_of(popped, group="g"))
    assert all(result["success"] for result in results)
    assert await resolve(database, queue, "g") == [[]]


async def test_copied_messages_move_the_row_as_well(database: asyncpg.Connection) -> None:
    places = await ensure(database, unique(), "a", "b")
    columns = ("partition_id", "seq", "id", "queue_id", "created_at", "payload")
    records = [
        (place, seq, uuid4(), place, _START, json.dumps(seq)) for seq in (2, 1) for place in places
    ]
    await database.copy_records_to_table(
        "messages", schema_name="queen", columns=columns, records=records
    )
    for place in places:
        row = await lookup(database, place)
        assert row is not None and row.span == (1, 2)
        assert row[2:] == await newest(database, place)


async def test_highest_number_of_a_statement_is_the_newest_message(
    database: asyncpg.Connection,
) -> None:
    places = await ensure(database, unique(), "a", "b", "c")
    rows = [(place, seq) for seq in range(1, 21) for place in places]
    random.Random(1).shuffle(rows)
    # Times against the order of the numbers: it is the number that counts.
    await insert_rows(database, rows, [_START - timedelta(seconds=seq) for _, seq in rows])
    for place in places:
        row = await lookup(database, place)
        assert row is not None and row.span == (1, 20)
        assert row[2:] == await newest(database, place)
        assert row.last_message_created_at == _START - timedelta(seconds=20)


async def test_older_message_does_not_move_the_head_back(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    await insert(database, place, 10, 11)
    before = await lookup(database, place)
    await insert(database, place, 4)
    after = await lookup(database, place)
    assert before is not None and after is not None
    assert (before.span, after.span) == ((10, 11), (4, 11))
    assert after[2:] == before[2:]
    await insert(database, place, 7)
    assert await lookup(database, place) == after


async def test_a_push_goes_on_after_the_highest_number_inserted(
    database: asyncpg.Connection, database_url: str
) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, "pushed")
    await insert(database, place, 2, 3)
    assert (await push_all(database, place, "pushed, too")).outcomes == "q"
    assert (await pop_one(database, place)).data == ["pushed", 2, 3, "pushed, too"]
    assert await _damage(database_url) == {}


async def test_empty_partition_begins_where_the_first_message_is(
    database: asyncpg.Connection, database_url: str
) -> None:
    queue = unique()
    fresh, cleared = await ensure(database, queue, "fresh", "cleared")
    await push_all(database, cleared, 1, 2, 3)
    await database.execute("SELECT queen.clear_queue($1, 'cleared')", queue)
    await insert_rows(database, [(fresh, 1_000), (cleared, 1_000)])
    for place in (fresh, cleared):
        row = await lookup(database, place)
        assert row is not None and row.span == (1_000, 1_000)
        assert (await pop_one(database, place)).data == [1_000]
    assert await _damage(database_url) == {}


async def test_row_that_is_missing_is_made_under_the_queue_of_the_partition(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await database.execute("DELETE FROM queen.partition_lookup")
    await insert(database, place, 5, 6)
    row = await lookup(database, place)
    assert row is not None and row.span == (5, 6)
    assert await resolve(database, queue, "g") == [[place]]


async def test_message_of_no_partition_is_refused_with_all_others(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    with pytest.raises(asyncpg.PostgresError) as caught:
        await insert_rows(database, [(place, 1), (uuid4(), 1)])
    assert caught.value.sqlstate == "QN001"
    assert await database.fetchval("SELECT count(*) FROM queen.messages") == 0
    row = await lookup(database, place)
    assert row is not None and row.span == (1, 0)


async def test_number_below_one_is_refused(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    with pytest.raises(asyncpg.CheckViolationError):
        await insert(database, place, 0, 1)


async def test_insert_that_waited_for_a_deleted_queue_is_refused(
    database: asyncpg.Connection, connect: Connect, database_url: str
) -> None:
    remover, writer = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(database, queue)
    removal = remover.transaction()
    await removal.start()
    await remover.fetchval("SELECT queen.delete_queue($1)", queue)
    waiting = await start_blocked(database, writer, insert(writer, place, 1))
    await removal.commit()
    with pytest.raises(asyncpg.PostgresError) as caught:
        await waiting
    assert caught.value.sqlstate == "QN001"
    assert await lookup(database, place) is None
    assert await _damage(database_url) == {}


async def test_open_insert_is_not_visible_and_not_skipped_later(
    database: asyncpg.Connection, connect: Connect
) -> None:
    writer, producer = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, "first")
    opened = writer.transaction()
    await opened.start()
    await insert(writer, place, 2)
    assert (await pop_one(database, place, auto_ack=True)).data == ["first"]
    waiting = await start_blocked(database, producer, push_all(producer, place, "third"))
    assert (await pop_one(database, place, auto_ack=True)).outcome == "none"
    await opened.commit()
    await waiting
    assert (await pop_one(database, place, auto_ack=True)).data == [2, "third"]


async def test_pushes_do_not_run_the_body_of_the_trigger(database: asyncpg.Connection) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await database.execute(
        "CREATE OR REPLACE FUNCTION queen.track_inserts() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE EXCEPTION 'the body ran'; END $$"
    )
    await push_all(database, place, 1, 2)
    await database.fetchval("SELECT queen.push($1, '3')", queue)
    await transaction(database, items=[Item(place, 4)])
    row = await lookup(database, place)
    assert row is not None and row.span == (1, 4)
    with pytest.raises(asyncpg.RaiseError, match="the body ran"):
        await insert(database, place, 5)
    # What a push says of itself ends with it, also within one transaction.
    async with database.transaction():
        await push_all(database, place, 5)
        assert await database.fetchval("SELECT current_setting('queen.tracks_lookup')") == ""
        with pytest.raises(asyncpg.RaiseError, match="the body ran"):
            async with database.transaction():
                await insert(database, place, 6)


async def test_failed_push_does_not_leave_the_trigger_off(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    async with database.transaction():
        with pytest.raises(asyncpg.PostgresError):
            async with database.transaction():
                await push(database, Item(uuid4(), 1))
        await insert(database, place, 1)
    row = await lookup(database, place)
    assert row is not None and row.span == (1, 1)


async def test_sessions_that_insert_in_any_order_do_not_deadlock(
    database: asyncpg.Connection, connect: Connect, database_url: str
) -> None:
    places = await ensure(database, unique(), *(f"p{n}" for n in range(_PARTITIONS)))
    sessions = [await connect() for _ in range(_SESSIONS)]

    async def write(number: int, session: asyncpg.Connection) -> None:
        chance = random.Random(number)
        for turn in range(_ROUNDS):
            seq = 1 + number + turn * _SESSIONS
            await insert_rows(session, [(place, seq) for place in chance.sample(places, 400)])

    await asyncio.gather(*(write(number, session) for number, session in enumerate(sessions)))
    rows = await database.fetch(
        "SELECT DISTINCT first_seq, last_seq FROM queen.partition_lookup l"
        " JOIN queen.messages m USING (partition_id) WHERE m.seq = l.last_seq"
        " AND m.id = l.last_message_id AND m.created_at = l.last_message_created_at"
    )
    assert [tuple(row) for row in rows] == [(1, _SESSIONS * _ROUNDS)]
    assert await _damage(database_url) == {}


# Wake-ups.


async def _heard(database: asyncpg.Connection, calls: Callable[[], Any]) -> list[Any]:
    """Return the notifications that a listener gets from these calls."""
    texts: list[str] = []
    await database.add_listener("queen_wake", lambda *call: texts.append(call[3]))
    await calls()
    await database.execute("NOTIFY queen_wake, 'end'")
    await wait_until_async(lambda: "end" in texts, timeout_s=SOON_S, what="the notifications")
    return [json.loads(text) for text in texts if text != "end"]


async def test_an_insert_names_its_queues_to_every_broker(database: asyncpg.Connection) -> None:
    names = [unique('odd " näme'), unique("plain")]
    places = [(await ensure(database, name))[0] for name in names]

    async def write() -> None:
        await insert_rows(database, [(place, seq) for place in places for seq in (1, 2)])

    assert await _heard(database, write) == [{"from": "", "queues": sorted(names)}]


async def test_more_queues_than_a_notification_holds_wake_everybody(
    database: asyncpg.Connection,
) -> None:
    names = [unique("x" * 200) for _ in range(60)]
    places = [(await ensure(database, name))[0] for name in names]

    async def write() -> None:
        await insert_rows(database, [(place, 1) for place in places])

    assert await _heard(database, write) == [{"from": "", "queues": ["*"]}]


async def test_an_insert_of_nothing_wakes_nobody(database: asyncpg.Connection) -> None:
    await ensure(database, unique())

    async def write() -> None:
        await insert_rows(database, [])

    assert await _heard(database, write) == []


async def test_waiting_pop_gets_what_plain_sql_inserts(
    start_broker: Callable[..., BrokerProcess], database: asyncpg.Connection
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    # Without the notification the next look would come long after the test has given up.
    slow = {
        "QUEEN_SMART_POLL_MIN_INTERVAL_MS": "900000",
        "QUEEN_SMART_POLL_MAX_INTERVAL_MS": "900000",
    }
    api = Api(start_broker(**slow).url)
    try:
        waiting = asyncio.create_task(api.pop(queue, wait=True, timeout=600_000))
        assert await api.pop(queue) == []
        assert await api.pop(queue) == []
        await insert(database, place, 1)
        (message,) = await asyncio.wait_for(waiting, SOON_S)
        assert message["data"] == 1
        (result,) = await api.ack(message)
        assert result["success"]
    finally:
        await api.close()


async def test_documented_way_to_insert_works_beside_producers(
    start_broker: Callable[..., BrokerProcess], database: asyncpg.Connection, database_url: str
) -> None:
    statements = documented_sql("operations.md", "Messages inserted by SQL")
    api = Api(start_broker().url)

    async def produce(name: str) -> list[Any]:
        for number in range(30):
            await api.push("orders", [name, number], partition="customer-42")
        return [[name, number] for number in range(30)]

    try:
        producers = [asyncio.create_task(produce(name)) for name in "abcd"]
        await database.execute(statements)
        pushed = [one for many in await asyncio.gather(*producers) for one in many]
        got: list[Any] = []
        while messages := await api.pop("orders", batch=500):
            got += [message["data"] for message in messages]
            assert all(result["success"] for result in await api.ack(*messages))
    finally:
        await api.close()
    assert [one for one in got if isinstance(one, dict)] == [{"n": n} for n in range(1, 1001)]
    assert sorted(one for one in got if isinstance(one, list)) == sorted(pushed)
    assert await _damage(database_url) == {}
