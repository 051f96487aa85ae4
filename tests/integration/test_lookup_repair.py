"""`queen db resync-lookup`: lookup rows agree with their messages again, beside running brokers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from queenmq.cli.server import db
from queenmq.storage.schema import lookup_care
from queenmq.storage.schema.lookup_care import Resynced
from tests.isolation.sessions import (
    Connect,
    configure,
    ensure,
    pop_one,
    push_all,
    resolve,
    seqs,
    start_blocked,
)
from tests.support.broker import SOON_S, Api, BrokerProcess, running_broker, unique
from tests.support.plain_sql import insert, lookup, newest

_WITHOUT_TRIGGER = "ALTER TABLE queen.messages DISABLE TRIGGER messages_track_inserts"


async def _resync(url: str) -> Resynced:
    return await lookup_care.resync(url, lambda done: None)


async def _damage(url: str) -> dict[str, int]:
    return {found.kind.name: found.total for found in await lookup_care.check(url) if found.total}


async def _set(session: asyncpg.Connection, place: UUID, changes: str) -> None:
    await session.execute(
        f"UPDATE queen.partition_lookup SET {changes} WHERE partition_id = $1", place
    )


async def _set_cursor(
    session: asyncpg.Connection, place: UUID, *, cursor_seq: int, lease_end_seq: int | None = None
) -> None:
    await session.execute(
        "INSERT INTO queen.partition_consumers"
        " (partition_id, consumer_group, queue_id, cursor_seq, lease_end_seq)"
        " SELECT id, 'g', queue_id, $2, $3 FROM queen.partitions WHERE id = $1",
        place,
        cursor_seq,
        lease_end_seq,
    )


@pytest.mark.parametrize(
    "damage",
    [
        "last_seq = 2",
        "first_seq = 1, last_seq = 0, last_message_id = NULL, last_message_created_at = NULL",
        "last_message_id = gen_random_uuid()",
        "last_message_created_at = last_message_created_at - interval '1 hour'",
        "last_message_created_at = last_message_created_at + interval '1 hour'",
        "queue_id = gen_random_uuid()",
    ],
)
async def test_row_is_what_it_was_again(
    database: asyncpg.Connection, database_url: str, damage: str
) -> None:
    queue = unique()
    place, other = await ensure(database, queue, "a", "b")
    await push_all(database, place, 1, 2, 3)
    await push_all(database, other, 1)
    before = await database.fetch("SELECT * FROM queen.partition_lookup ORDER BY partition_id")
    await _set(database, place, damage)
    assert await _damage(database_url)
    done = await _resync(database_url)
    assert (done.partitions, done.checked, done.held) == (2, 2, 0)
    assert done.created + done.repaired == 1
    query = "SELECT * FROM queen.partition_lookup ORDER BY partition_id"
    assert await database.fetch(query) == before
    assert await _damage(database_url) == {}
    assert await _resync(database_url) == Resynced(partitions=2, checked=2)


async def test_missing_row_is_made_from_the_messages(
    database: asyncpg.Connection, database_url: str
) -> None:
    queue = unique()
    full, empty = await ensure(database, queue, "full", "empty")
    await push_all(database, full, 1, 2, 3)
    await database.execute("DELETE FROM queen.messages WHERE seq = 1")
    await database.execute("DELETE FROM queen.partition_lookup")
    done = await _resync(database_url)
    assert done == Resynced(partitions=2, checked=2, created=2)
    row = await lookup(database, full)
    assert row is not None and row.span == (2, 3)
    assert row[2:] == await newest(database, full)
    assert await lookup(database, empty) == (1, 0, None, None)
    assert await resolve(database, queue, "g") == [[full]]
    for place in (full, empty):
        assert (await push_all(database, place, "more")).outcomes == "q"
    assert await seqs(database, full) == [2, 3, 4]


async def test_messages_inserted_without_the_trigger_are_delivered_after_it(
    database: asyncpg.Connection, database_url: str
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, "pushed")
    await database.execute(_WITHOUT_TRIGGER)
    await insert(database, place, 2, 3)
    assert (await pop_one(database, place, auto_ack=True)).data == ["pushed"]
    assert (await pop_one(database, place, auto_ack=True)).outcome == "none"
    assert (await _resync(database_url)).repaired == 1
    assert (await pop_one(database, place, auto_ack=True)).data == [2, 3]
    await push_all(database, place, "next")
    assert await seqs(database, place) == [1, 2, 3, 4]


async def test_emptied_partition_has_nothing_to_look_for(
    database: asyncpg.Connection, database_url: str
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, 1, 2, 3)
    await database.execute("DELETE FROM queen.messages")
    assert await resolve(database, queue, "g") == [[place]]
    assert (await _resync(database_url)).repaired == 1
    assert await resolve(database, queue, "g", "h") == [[], []]
    assert (await pop_one(database, place, "g")).outcome == "none"
    row = await lookup(database, place)
    assert row is not None and row.span == (4, 3)
    # Numbers are not given out again, though their messages are gone.
    await push_all(database, place, "next")
    assert await seqs(database, place) == [4]
    assert (await pop_one(database, place, "g")).data == ["next"]
    assert await _damage(database_url) == {}


async def test_deleted_ends_neither_lower_the_head_nor_hide_the_rest(
    database: asyncpg.Connection, database_url: str
) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, *range(1, 11))
    before = await lookup(database, place)
    await database.execute("DELETE FROM queen.messages WHERE seq < 4 OR seq > 7")
    assert (await _resync(database_url)).repaired == 1
    after = await lookup(database, place)
    assert before is not None and after is not None
    assert after == before._replace(first_seq=4)
    popped = await pop_one(database, place, batch=100)
    assert popped.data == [4, 5, 6, 7]
    await push_all(database, place, "next")
    assert (await seqs(database, place))[-1] == 11


async def test_messages_below_the_first_number_stay_dropped(
    database: asyncpg.Connection, database_url: str
) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, *range(1, 6))
    await _set(database, place, "first_seq = 3")
    assert await _resync(database_url) == Resynced(partitions=1, checked=1)
    assert (await pop_one(database, place)).data == [3, 4, 5]


@pytest.mark.parametrize("has_row", [True, False], ids=["behind", "missing"])
async def test_no_number_that_a_group_knows_is_given_out_again(
    database: asyncpg.Connection, database_url: str, has_row: bool
) -> None:
    passed, leased, buried = await ensure(database, unique(), "passed", "leased", "buried")
    await _set_cursor(database, passed, cursor_seq=40)
    await _set_cursor(database, leased, cursor_seq=10, lease_end_seq=50)
    await database.execute(
        "INSERT INTO queen.dead_letter_queue (queue_id, partition_id, consumer_group, message_id,"
        " seq, transaction_id, payload, error_message, retry_count, created_at, failed_at)"
        " SELECT queue_id, id, 'g', gen_random_uuid(), 60, 'x', 'null', 'bad', 0, now(), now()"
        " FROM queen.partitions WHERE id = $1",
        buried,
    )
    if not has_row:
        await database.execute("DELETE FROM queen.partition_lookup")
    await _resync(database_url)
    for place in (passed, leased, buried):
        await push_all(database, place, "new")
        assert (await pop_one(database, place, "g")).data == ["new"]
    assert [(await seqs(database, place))[0] for place in (passed, leased, buried)] == [41, 51, 61]
    assert await _damage(database_url) == {}


async def test_held_partition_is_left_out_and_all_others_are_repaired(
    database: asyncpg.Connection, connect: Connect, database_url: str
) -> None:
    places = sorted(await ensure(database, unique(), *(f"p{n}" for n in range(9))))
    for place in places:
        await push_all(database, place, 1, 2)
        await _set(database, place, "last_seq = 1")
    holder = await connect()
    async with holder.transaction():
        await holder.fetch(
            "SELECT FROM queen.partition_lookup WHERE partition_id = $1 FOR UPDATE", places[4]
        )
        done = await _resync(database_url)
        assert done == Resynced(partitions=9, checked=8, repaired=8, held=1)
    assert await _damage(database_url) == {"lookup_behind": 1}
    assert (await _resync(database_url)).repaired == 1
    assert await _damage(database_url) == {}


async def test_more_partitions_than_a_slice_are_all_looked_at(
    database: asyncpg.Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_care, "_SLICE", 7)
    await ensure(database, unique(), *(f"p{n}" for n in range(50)))
    await database.execute("DELETE FROM queen.partition_lookup")
    told: list[int] = []
    done = await lookup_care.resync(database_url, lambda done: told.append(done.checked))
    assert done == Resynced(partitions=50, checked=50, created=50)
    assert told == [7, 14, 21, 28, 35, 42, 49, 50]


async def test_deleted_queue_leaves_no_row_behind(
    database: asyncpg.Connection, connect: Connect, database_url: str
) -> None:
    remover, operator = await connect(), await connect()
    queue = unique()
    places = await ensure(database, queue, "a", "b")
    await database.execute("DELETE FROM queen.partition_lookup WHERE partition_id = $1", places[0])
    removal = remover.transaction()
    await removal.start()
    await remover.fetchval("SELECT queen.delete_queue($1)", queue)
    query = "SELECT * FROM queen.resync_lookup($1, 60000)"
    waiting = await start_blocked(database, operator, operator.fetchrow(query, places))
    await removal.commit()
    assert tuple(await waiting) == (0, 0, 0)
    assert await _damage(database_url) == {}


async def test_push_that_waited_for_a_repair_goes_on_from_it(
    database: asyncpg.Connection, connect: Connect
) -> None:
    operator, producer = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1, 2, 3)
    await _set(database, place, "last_seq = 1")
    repair = operator.transaction()
    await repair.start()
    await operator.fetchrow("SELECT * FROM queen.resync_lookup($1, 1000)", [place])
    waiting = await start_blocked(database, producer, push_all(producer, place, 4))
    await repair.commit()
    assert (await waiting).outcomes == "q"
    assert (await pop_one(database, place)).data == [1, 2, 3, 4]


async def test_repair_that_waited_for_a_push_sees_its_messages(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer, operator = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    await database.execute("DELETE FROM queen.messages")
    opened = producer.transaction()
    await opened.start()
    await push_all(producer, place, 2)
    query = "SELECT * FROM queen.resync_lookup($1, 60000)"
    waiting = await start_blocked(database, operator, operator.fetchrow(query, [place]))
    await opened.commit()
    assert tuple(await waiting) == (1, 0, 1)
    row = await lookup(database, place)
    assert row is not None and row.span == (2, 2)
    assert row[2:] == await newest(database, place)


# Under load.

_PRODUCERS = 4
_PUSHES = 60


async def _consume(api: Api, queue: str, is_over: asyncio.Event) -> list[Any]:
    """Pop and ack until nothing comes after the end of the pushes."""
    got: list[Any] = []
    while True:
        was_over = is_over.is_set()
        messages = await api.pop(queue, batch=7, wait=not was_over, timeout=200)
        if not messages and was_over:
            return got
        if messages:
            assert all(result["success"] for result in await api.ack(*messages))
            got += [(message["partition"], message["data"]) for message in messages]


async def _produce(api: Api, queue: str, producer: int) -> list[Any]:
    pushed = []
    for number in range(_PUSHES):
        name = f"p{number % 5}"
        await api.push(queue, [producer, number], partition=name)
        pushed.append((name, [producer, number]))
    return pushed


async def test_repairs_beside_producers_and_consumers_lose_and_repeat_nothing(
    start_broker: Callable[..., BrokerProcess], database: asyncpg.Connection, database_url: str
) -> None:
    queue = unique()
    await configure(database, queue, lease_time=600)
    api, is_over = Api(start_broker().url), asyncio.Event()
    repairs = 0

    async def repair() -> None:
        nonlocal repairs
        while not is_over.is_set():
            done = await _resync(database_url)
            assert (done.created, done.repaired) == (0, 0)
            repairs += 1

    try:
        consumers = [asyncio.create_task(_consume(api, queue, is_over)) for _ in range(4)]
        repairing = asyncio.create_task(repair())
        producers = (_produce(api, queue, producer) for producer in range(_PRODUCERS))
        pushed = [one for many in await asyncio.gather(*producers) for one in many]
        is_over.set()
        await repairing
        got = [one for many in await asyncio.gather(*consumers) for one in many]
    finally:
        is_over.set()
        await api.close()
    assert repairs > 1
    assert sorted(got) == sorted(pushed)
    assert await _damage(database_url) == {}


# The command.


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "queenmq", "db", "resync-lookup", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SOON_S)


async def test_command_says_what_it_looked_at_and_repaired(
    database: asyncpg.Connection, database_url: str
) -> None:
    made, changed = await ensure(database, unique(), "a", "b")
    await push_all(database, changed, 1, 2)
    await _set(database, changed, "last_seq = 1")
    await database.execute("DELETE FROM queen.partition_lookup WHERE partition_id = $1", made)
    said = []
    for _ in range(2):
        ended = await asyncio.to_thread(_run, "--database-url", database_url)
        assert (ended.returncode, ended.stderr) == (0, "")
        said.append(ended.stdout)
    assert said == [
        "checked 2 partitions: 1 lookup rows created, 1 repaired\n",
        "checked 2 partitions: 0 lookup rows created, 0 repaired\n",
    ]


async def test_command_tells_of_partitions_that_are_held(
    database: asyncpg.Connection, connect: Connect, database_url: str
) -> None:
    await ensure(database, unique(), "a", "b")
    holder = await connect()
    async with holder.transaction():
        await holder.fetch("SELECT FROM queen.partition_lookup LIMIT 1 FOR UPDATE")
        ended = await asyncio.to_thread(_run, "--database-url", database_url)
    assert ended.returncode == 1
    assert "checked 1 partitions" in ended.stdout
    assert ended.stderr.startswith("queen: 1 partitions were skipped") and "again" in ended.stderr


async def test_long_run_tells_how_far_it_is(
    database: asyncpg.Connection,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(lookup_care, "_SLICE", 2)
    monkeypatch.setattr(db, "_PROGRESS_MS", 0)
    await ensure(database, unique(), *"abc")
    await asyncio.to_thread(db.resync_lookup, database_url, None)
    said = capsys.readouterr()
    assert said.err.splitlines() == ["... 2 of 3 partitions", "... 3 of 3 partitions"]
    assert said.out.startswith("checked 3 partitions")


def test_command_finds_the_database_of_a_data_directory(data_dir: Path) -> None:
    with running_broker(data_dir=data_dir):
        ended = _run("--data-dir", str(data_dir))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("checked 0 partitions")
