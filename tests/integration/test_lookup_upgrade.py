"""The trigger of the message table comes and goes: upgrades with work in flight, and back again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg
import pytest

from queenmq.storage.schema import lookup_care, migrator
from queenmq.storage.schema.migrator import migrate
from queenmq.storage.sql_files import SqlFile, load_folder
from tests.isolation.sessions import Connect, ensure, pop_one, push_all, resolve, seqs
from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.plain_sql import documented_sql, insert, insert_rows, lookup, newest
from tests.support.waiting import wait_until_async

#: What keeps the trigger from tracking a push.
_BYPASS = "set_config('queen.tracks_lookup', 'on', true)"
#: What pushes need; the release before the trigger had them all.
_FUNCTIONS = {
    "ensure_partitions",
    "find_busy_partitions",
    "find_repeats",
    "find_stored",
    "find_unfit",
    "message_id",
    "id_prefix",
    "join_push",
    "new_operation_id",
    "new_partition_number",
    "push",
    "split_push",
    "push_messages",
    "queue_push",
    "queue_rooms",
    "seq_of_message_id",
}
#: The tables of today that these functions need; the trigger does not.
_NEEDED = {
    "0006_pre_create_operations",
    "0017_pre_add_start_snapshots",
    "0018_pre_number_partitions",
}


def _older_files(folder: str) -> list[SqlFile]:
    """The files of the release before the trigger."""
    files = load_folder(folder)
    if folder == "migrations":
        return [file for file in files if file.name < "0004" or file.name in _NEEDED]
    return [
        SqlFile(file.name, file.text.replace(_BYPASS, "''"), f"older {file.checksum}")
        for file in files
        if file.name in _FUNCTIONS
    ]


async def _migrate_to_older(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what a start of the release before the trigger does."""
    with monkeypatch.context() as patch:
        patch.setattr(migrator, "load_folder", _older_files)
        await migrate(url)


@pytest.fixture
async def older_url(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of the release before the trigger."""
    await _migrate_to_older(empty_database_url, monkeypatch)
    return empty_database_url


@asynccontextmanager
async def _sessions(url: str, count: int) -> AsyncIterator[list[asyncpg.Connection]]:
    sessions = [await asyncpg.connect(url) for _ in range(count)]
    try:
        yield sessions
    finally:
        for session in sessions:
            await session.close(timeout=5)


async def _damage(url: str) -> dict[str, int]:
    return {found.kind.name: found.total for found in await lookup_care.check(url) if found.total}


async def _has_trigger(session: asyncpg.Connection) -> bool:
    return bool(
        await session.fetchval(
            "SELECT count(*) FROM pg_trigger WHERE tgname = 'messages_track_inserts'"
        )
    )


async def _start_waiting(
    observer: asyncpg.Connection, url: str, blocker: asyncpg.Connection
) -> asyncio.Task[list[str]]:
    """Start a migration and come back once it waits for a session."""
    task = asyncio.create_task(migrate(url))

    async def is_waiting() -> bool:
        assert not task.done(), "the migration did not wait"
        query = "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))"
        return bool(await observer.fetchval(query, blocker.get_server_pid()))

    await wait_until_async(is_waiting, timeout_s=SOON_S, what="the migration to wait")
    return task


async def test_upgrade_catches_up_with_what_was_inserted_before(older_url: str) -> None:
    async with _sessions(older_url, 1) as (session,):
        names = ("pushed", "behind", "late", "missing", "other id", "empty")
        places = dict(zip(names, await ensure(session, "q", *names), strict=True))
        for name in ("pushed", "behind", "missing", "other id"):
            await push_all(session, places[name], 1, 2)
        await insert_rows(session, [(places["behind"], 3), (places["late"], 70)])
        await session.execute(
            "UPDATE queen.partition_lookup SET last_message_id = gen_random_uuid()"
            " WHERE partition_id = $1",
            places["other id"],
        )
        await session.execute(
            "DELETE FROM queen.partition_lookup WHERE partition_id = $1", places["missing"]
        )
        # The release before the trigger had no such column.
        await session.execute("UPDATE queen.partition_lookup SET last_xid = NULL")
        untouched = await lookup(session, places["pushed"])

        assert await migrate(older_url)

        spans = {name: await lookup(session, place) for name, place in places.items()}
        assert {name: row.span for name, row in spans.items() if row} == {
            "pushed": (1, 2),
            "behind": (1, 3),
            "late": (70, 70),
            "missing": (1, 2),
            "other id": (1, 2),
            "empty": (1, 0),
        }
        assert spans["pushed"] == untouched
        for name in names[:-1]:
            assert spans[name][2:] == await newest(session, places[name])
        assert await _damage(older_url) == {}
        (found,) = await resolve(session, "q", "g")
        assert sorted(found) == sorted(places[name] for name in names[:-1])


async def test_upgrade_gives_out_no_number_twice(older_url: str) -> None:
    async with _sessions(older_url, 1) as (session,):
        consumed, buried = await ensure(session, "q", "consumed", "buried")
        await session.execute(
            "INSERT INTO queen.partition_consumers"
            " (partition_id, consumer_group, queue_id, cursor_seq, lease_end_seq)"
            " SELECT partition_id, 'g', queue_id, 40, 50 FROM queen.partition_lookup"
            " WHERE partition_id = $1",
            consumed,
        )
        await session.execute(
            "INSERT INTO queen.dead_letter_queue (queue_id, partition_id, consumer_group,"
            " message_id, seq, transaction_id, payload, error_message, retry_count, created_at,"
            " failed_at) SELECT queue_id, partition_id, 'g', gen_random_uuid(), 60, 'x', 'null',"
            " 'bad', 0, now(), now() FROM queen.partition_lookup WHERE partition_id = $1",
            buried,
        )
        await session.execute("DELETE FROM queen.partition_lookup")
        await migrate(older_url)
        await push_all(session, consumed, "new")
        await push_all(session, buried, "new")
        assert await seqs(session, consumed) == [51]
        assert await seqs(session, buried) == [61]
        assert (await pop_one(session, consumed, "g")).data == ["new"]


async def test_insert_that_is_open_when_the_upgrade_starts_is_not_missed(older_url: str) -> None:
    async with _sessions(older_url, 3) as (session, writer, producer):
        (place,) = await ensure(session, "q")
        await push_all(session, place, "before")
        opened = writer.transaction()
        await opened.start()
        await insert(writer, place, 2)
        upgrade = await _start_waiting(session, older_url, writer)
        pushing = asyncio.create_task(push_all(producer, place, "during"))
        await opened.commit()
        assert await upgrade
        assert (await pushing).outcomes == "q"
        await insert(writer, place, 4)
        await push_all(session, place, "after")
        assert (await pop_one(session, place)).data == ["before", 2, "during", 4, "after"]
        assert await _damage(older_url) == {}


async def test_push_that_is_open_when_the_upgrade_starts_goes_through(older_url: str) -> None:
    async with _sessions(older_url, 2) as (session, producer):
        first, second = sorted(await ensure(session, "q", "first", "second"))
        opened = producer.transaction()
        await opened.start()
        # Half-way through: it has its lookup row, and is yet to insert.
        await producer.fetch(
            "SELECT FROM queen.partition_lookup WHERE partition_id = $1 FOR NO KEY UPDATE", first
        )
        upgrade = await _start_waiting(session, older_url, producer)
        await push_all(producer, first, 1)
        await push_all(producer, second, 1)
        await opened.commit()
        assert await upgrade
        await push_all(session, first, 2)
        assert (await pop_one(session, first)).data == [1, 2]
        assert await _damage(older_url) == {}


async def test_broker_of_the_release_before_goes_on_pushing_through_an_upgrade(
    older_url: str,
) -> None:
    async with _sessions(older_url, 3) as (session, *producers):
        (place,) = await ensure(session, "q")
        is_over = asyncio.Event()

        async def produce(producer: asyncpg.Connection) -> int:
            count = 0
            while not is_over.is_set():
                count += len((await push_all(producer, place, count)).outcomes)
            return count

        producing = asyncio.gather(*map(produce, producers))
        assert await migrate(older_url)
        await push_all(session, place, "after")
        is_over.set()
        pushed = sum(await producing) + 1
        assert await seqs(session, place) == list(range(1, pushed + 1))
        assert await _damage(older_url) == {}


async def test_changed_trigger_function_is_replaced_under_its_trigger(
    database: asyncpg.Connection, database_url: str
) -> None:
    (place,) = await ensure(database, unique())
    await database.execute(
        "CREATE OR REPLACE FUNCTION queen.track_inserts() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RETURN NULL; END $$"
    )
    await database.execute(
        "UPDATE queen.schema_files SET checksum = 'older' WHERE name = 'functions/track_inserts'"
    )
    assert await migrate(database_url) == ["track_inserts"]
    assert await _has_trigger(database)
    await insert(database, place, 1)
    row = await lookup(database, place)
    assert row is not None and row.span == (1, 1)


async def _push_until(is_over: asyncio.Event, api: Api, queue: str, partition: str) -> int:
    """Push one by one; every push must be answered as stored."""
    count = 0
    while not is_over.is_set():
        (result,) = await api.push(queue, count, partition=partition)
        assert result["status"] == "queued"
        count += 1
    return count


async def _count(database: asyncpg.Connection, place: UUID) -> int:
    return len(await seqs(database, place))


async def test_documented_way_to_drop_the_trigger_breaks_no_push(
    start_broker: Callable[..., BrokerProcess],
    database: asyncpg.Connection,
    connect: Connect,
    database_url: str,
) -> None:
    statements = documented_sql("operations.md", "Remove the insert trigger")
    queue, names = unique(), [f"p{number}" for number in range(4)]
    places = await ensure(database, queue, *names)
    operator = await connect()
    api, is_over = Api(start_broker().url), asyncio.Event()
    try:
        pushing = asyncio.gather(*(_push_until(is_over, api, queue, name) for name in names))
        for place in places:
            await _wait_for_more(database, place)
        await operator.execute(statements)
        assert not await _has_trigger(database)
        for place in places:
            await _wait_for_more(database, place)
        # And back again.
        assert "0004_pre_track_inserts" in await migrate(database_url)
        assert await _has_trigger(database)
        for place in places:
            await _wait_for_more(database, place)
        is_over.set()
        counts = await pushing
    finally:
        await api.close()
    for place, count in zip(places, counts, strict=True):
        assert await seqs(database, place) == list(range(1, count + 1))
    assert await _damage(database_url) == {}


async def _wait_for_more(database: asyncpg.Connection, place: UUID) -> None:
    before = await _count(database, place)

    async def has_more() -> bool:
        return await _count(database, place) > before

    await wait_until_async(has_more, timeout_s=SOON_S, what="another push")


async def test_what_is_inserted_without_the_trigger_is_caught_up_with_on_the_way_forth(
    database: asyncpg.Connection, database_url: str
) -> None:
    (place,) = await ensure(database, unique())
    await database.execute(documented_sql("operations.md", "Remove the insert trigger"))
    await insert(database, place, 1, 2)
    assert await _damage(database_url) == {"lookup_behind": 1}
    assert await migrate(database_url) == ["0004_pre_track_inserts", "track_inserts"]
    assert await _damage(database_url) == {}
    assert (await pop_one(database, place)).data == [1, 2]
