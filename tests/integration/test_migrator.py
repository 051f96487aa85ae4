"""Bringing a schema up to date: once, by one at a time, and never over an edited migration."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys

import asyncpg
import pytest

from queenmq.errors import MigrationError, StorageUnavailable
from queenmq.storage.schema import migrator
from queenmq.storage.schema.migrator import in_order, migrate
from queenmq.storage.sql_files import SqlFile, load_folder
from tests.isolation.sessions import start_blocked
from tests.support.broker import SOON_S
from tests.support.schema_snapshot import take_snapshot
from tests.support.waiting import wait_until_async


async def _fetch(url: str, query: str, *values: object) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(query, *values)
    finally:
        await connection.close()


async def _snapshot(url: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        return await take_snapshot(connection)
    finally:
        await connection.close()


async def test_fresh_database_gets_every_file_once(empty_database_url: str) -> None:
    applied = await migrate(empty_database_url)
    migrations = [file.name for file in load_folder("migrations")]
    functions = [file.name for file in load_folder("functions")]
    assert applied[: len(migrations)] == migrations
    assert sorted(applied[len(migrations) :]) == sorted(functions)
    rows = await _fetch(empty_database_url, "SELECT name FROM queen.schema_files")
    recorded = {row["name"] for row in rows}
    assert recorded == {f"migrations/{name}" for name in migrations} | {
        f"functions/{name}" for name in functions
    }


async def test_second_run_does_nothing(empty_database_url: str) -> None:
    await migrate(empty_database_url)
    query = "SELECT name, checksum, applied_at FROM queen.schema_files ORDER BY name"
    before = await _fetch(empty_database_url, query)
    assert await migrate(empty_database_url) == []
    assert await _fetch(empty_database_url, query) == before


async def test_migrators_that_start_at_once_share_the_work(empty_database_url: str) -> None:
    done = await asyncio.gather(*(migrate(empty_database_url) for _ in range(4)))
    worked = [names for names in done if names]
    assert len(worked) == 1
    files = load_folder("migrations") + load_folder("functions")
    assert len(worked[0]) == len(files)


async def test_edited_migration_is_refused_by_name(database_url: str) -> None:
    name = load_folder("migrations")[1].name
    await _fetch(
        database_url,
        "UPDATE queen.schema_files SET checksum = 'edited' WHERE name = $1",
        f"migrations/{name}",
    )
    with pytest.raises(MigrationError, match=name):
        await migrate(database_url)


async def test_changed_function_is_applied_again_and_nothing_else(database_url: str) -> None:
    await _fetch(
        database_url,
        "CREATE OR REPLACE FUNCTION queen.seq_of_message_id(p_partition_id uuid, p_text text)"
        " RETURNS bigint LANGUAGE sql IMMUTABLE RETURN -1",
    )
    await _fetch(
        database_url,
        "UPDATE queen.schema_files SET checksum = 'older' WHERE name = $1",
        "functions/seq_of_message_id",
    )
    assert await migrate(database_url) == ["seq_of_message_id"]
    (row,) = await _fetch(
        database_url, "SELECT queen.seq_of_message_id(gen_random_uuid(), 'no id') AS seq"
    )
    assert row["seq"] is None
    assert await migrate(database_url) == []


async def _versions(url: str, name: str) -> list[str]:
    rows = await _fetch(
        url,
        "SELECT pg_get_function_identity_arguments(oid) || ' returns ' || prorettype::regtype"
        " AS version FROM pg_proc WHERE pronamespace = 'queen'::regnamespace AND proname = $1",
        name,
    )
    return [row["version"] for row in rows]


@pytest.mark.parametrize(
    "others",
    [
        pytest.param(["(p_partition_id uuid, p_text text) RETURNS bigint"], id="same"),
        pytest.param(["(p_partition_id uuid, p_text text) RETURNS text"], id="other result"),
        pytest.param(["(p_other uuid, p_names text) RETURNS bigint"], id="other names"),
        pytest.param(["(p_partition_id uuid) RETURNS bigint"], id="other arguments"),
        pytest.param(
            [
                "(p_partition_id uuid) RETURNS text",
                "(p_partition_id uuid, p_text text) RETURNS text",
            ],
            id="several",
        ),
        pytest.param([], id="gone"),
    ],
)
async def test_of_a_changed_function_only_the_new_version_is_left(
    database_url: str, others: list[str]
) -> None:
    wanted = await _versions(database_url, "seq_of_message_id")
    await _fetch(database_url, "DROP FUNCTION queen.seq_of_message_id(uuid, text)")
    for other in others:
        await _fetch(
            database_url,
            f"CREATE FUNCTION queen.seq_of_message_id{other} LANGUAGE plpgsql"
            " AS 'BEGIN RETURN NULL; END'",
        )
    await _fetch(
        database_url,
        "UPDATE queen.schema_files SET checksum = 'older' WHERE name = $1",
        "functions/seq_of_message_id",
    )
    assert await migrate(database_url) == ["seq_of_message_id"]
    assert await _versions(database_url, "seq_of_message_id") == wanted


async def test_call_in_flight_outlives_the_change_of_what_it_calls(database_url: str) -> None:
    session, holder = [await asyncpg.connect(database_url) for _ in range(2)]
    try:
        await session.fetch("SELECT queen.push('busy', '1')")
        hold = holder.transaction()
        await hold.start()
        await holder.fetch("SELECT FROM queen.partition_lookup FOR UPDATE")
        # It waits for the row, half-way through, and is yet to call others.
        pushing = await start_blocked(
            holder, session, session.fetchval("SELECT queen.push('busy', '2')")
        )
        await _fetch(
            database_url,
            "UPDATE queen.schema_files SET checksum = 'older' WHERE name LIKE 'functions/%'",
        )
        assert len(await migrate(database_url)) == len(load_folder("functions"))
        await hold.commit()
        assert await pushing
    finally:
        await session.close()
        await holder.close()


async def test_failed_migration_leaves_nothing_behind(empty_database_url: str) -> None:
    await _fetch(empty_database_url, "CREATE SCHEMA queen")
    await _fetch(empty_database_url, "CREATE TABLE queen.messages (in_the_way integer)")
    with pytest.raises(MigrationError, match="0002"):
        await migrate(empty_database_url)
    rows = await _fetch(
        empty_database_url,
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'queen'::regnamespace",
    )
    assert [row["relname"] for row in rows] == ["messages"]
    await _fetch(empty_database_url, "DROP TABLE queen.messages")
    assert await migrate(empty_database_url)


async def test_migration_that_loses_a_deadlock_is_tried_again(
    database_url: str, superuser_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = "LOCK TABLE queen.queues; {}; LOCK TABLE queen.partition_lookup"
    text = locks.format("SELECT pg_advisory_xact_lock(1)")
    extra = SqlFile("9999_pre_lock_tables", text, "checksum")

    def load(folder: str) -> list[SqlFile]:
        return load_folder(folder) + ([extra] if folder == "migrations" else [])

    monkeypatch.setattr(migrator, "load_folder", load)
    session, gate = [await asyncpg.connect(superuser_url) for _ in range(2)]
    try:
        await gate.execute("SELECT pg_advisory_lock(1)")
        # Patient, so that the migration is the one that loses.
        await session.execute("SET deadlock_timeout = '1h'")
        opened = session.transaction()
        await opened.start()
        await session.execute("LOCK TABLE queen.partition_lookup")
        migrating = asyncio.create_task(migrate(database_url))
        await _wait_for_waiters(gate, "advisory")
        # The other way round.
        locking = asyncio.create_task(session.execute("LOCK TABLE queen.queues"))
        await _wait_for_waiters(gate, "relation")
        await gate.execute("SELECT pg_advisory_unlock(1)")
        await locking
        await opened.commit()
        assert await migrating == [extra.name]
    finally:
        await session.close()
        await gate.close()


async def _wait_for_waiters(observer: asyncpg.Connection, kind: str) -> None:
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = $1"

    async def is_waited_for() -> bool:
        return bool(await observer.fetchval(query, kind))

    await wait_until_async(is_waited_for, timeout_s=SOON_S, what=f"a wait for {kind}")


async def test_messages_survive_a_migration(database_url: str) -> None:
    await _fetch(database_url, "SELECT queen.push('kept', '1')")
    await _fetch(
        database_url,
        "UPDATE queen.schema_files SET checksum = 'older' WHERE name LIKE 'functions/%'",
    )
    before = await _snapshot(database_url)
    assert len(await migrate(database_url)) == len(load_folder("functions"))
    assert await _snapshot(database_url) == before
    (row,) = await _fetch(database_url, "SELECT count(*) AS messages FROM queen.messages")
    assert row["messages"] == 1


async def test_too_old_server_is_refused_in_words(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrator, "_VERSION_MIN", 10_000_000)
    with pytest.raises(
        MigrationError, match=r"PostgreSQL \d+ is too old; use a server of version 15"
    ):
        await migrate(empty_database_url)
    rows = await _fetch(empty_database_url, "SELECT FROM pg_namespace WHERE nspname = 'queen'")
    assert rows == []


async def test_server_that_does_not_answer_is_unavailable() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(StorageUnavailable):
            await migrate(f"postgresql://nobody@127.0.0.1:{port}/none")


async def test_every_function_of_the_database_is_defined_by_a_file_of_its_name(
    database_url: str,
) -> None:
    rows = await _fetch(
        database_url,
        "SELECT proname::text AS name FROM pg_proc WHERE pronamespace = 'queen'::regnamespace",
    )
    found = sorted(row["name"] for row in rows)
    assert found == sorted(file.name for file in load_folder("functions"))


@pytest.mark.parametrize("file", load_folder("functions"), ids=lambda file: file.name)
def test_function_file_defines_one_function_and_can_run_again(file: object) -> None:
    name, text = file.name, file.text  # type: ignore[attr-defined]
    statements = re.findall(r"^CREATE (OR REPLACE )?FUNCTION queen\.(\w+)\(", text, re.M)
    assert statements == [("OR REPLACE ", name)]


def test_functions_are_created_after_those_they_call() -> None:
    files = load_folder("functions")
    seen: set[str] = set()
    for file in in_order(files):
        called = {
            other.name
            for other in files
            if other.name != file.name
            and re.search(rf"^(?!--).*queen\.{other.name}\(", file.text, re.M)
        }
        assert called <= seen, file.name
        seen.add(file.name)


def test_migrations_are_numbered_without_gaps_and_say_their_stage() -> None:
    names = [file.name for file in load_folder("migrations")]
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    assert all(re.fullmatch(r"\d{4}_(pre|post)_[a-z_]+", name) for name in names)


def test_command_says_what_it_did(empty_database_url: str) -> None:
    command = [sys.executable, "-m", "queenmq", "db", "migrate", "--database-url"]
    said = [
        subprocess.run(
            [*command, empty_database_url],
            capture_output=True,
            text=True,
            timeout=SOON_S,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert said[0].splitlines()[0] == load_folder("migrations")[0].name
    assert "nothing to do" in said[1]
