"""Starts of several releases on one database: what each leaves to the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from queenmq.errors import MigrationError
from queenmq.storage.schema.level import LEVEL
from queenmq.storage.schema.migrator import finish_upgrade, migrate
from tests.support.releases import NEXT_LEVEL, NEXT_RELEASE, make_next_release, run_command
from tests.support.schema_snapshot import take_snapshot
from tests.support.shared_postgres import SharedPostgres

_FUNCTION = "seq_of_message_id"
_VERSIONS = (
    "SELECT p.oid::regprocedure::text FROM pg_proc p"
    " WHERE pronamespace = 'queen'::regnamespace AND proname LIKE $1 ORDER BY 1"
)
#: Everything that a start could change.
_ALL = (
    "SELECT 'function ' || oid || xmin || ctid FROM pg_proc"
    " WHERE pronamespace = 'queen'::regnamespace"
    " UNION ALL SELECT 'class ' || oid || xmin || ctid FROM pg_class"
    " WHERE relnamespace = 'queen'::regnamespace AND relkind IN ('r', 'v', 'i')"
    " UNION ALL SELECT 'file ' || f::text FROM queen.schema_files f"
    " UNION ALL SELECT 'state ' || s::text FROM queen.schema_state s ORDER BY 1"
)


async def _become_older(database: asyncpg.Connection) -> None:
    """Make the schema that of the release before."""
    await database.execute(
        f"UPDATE queen.schema_files SET level = {LEVEL - 1};"
        f" UPDATE queen.schema_state SET level = {LEVEL - 1}, oldest_level = {LEVEL - 1}"
    )


async def _become_newer(database: asyncpg.Connection, *, oldest: int) -> None:
    """Make the schema that of a later release, which has changed and dropped functions."""
    await database.execute(
        "UPDATE queen.schema_files SET checksum = 'newer' WHERE name LIKE 'functions/%';"
        " DROP FUNCTION queen.seq_of_message_id;"
        " DELETE FROM queen.schema_files WHERE name = 'functions/seq_of_message_id'"
    )
    await database.execute(
        "UPDATE queen.schema_state SET level = $1, oldest_level = $2, release = '9.0.0'",
        LEVEL + 1,
        oldest,
    )


async def _put(database: asyncpg.Connection, definition: str) -> None:
    """Let the release before have another version of the function."""
    await database.execute(f"DROP FUNCTION queen.{_FUNCTION}(uuid, text)")
    await database.execute(
        f"CREATE FUNCTION queen.{_FUNCTION}{definition} LANGUAGE plpgsql AS 'BEGIN RETURN -1; END'"
    )
    await database.execute(
        "UPDATE queen.schema_files SET checksum = 'older' WHERE name = $1", f"functions/{_FUNCTION}"
    )


async def _versions(database: asyncpg.Connection) -> list[str]:
    return [row[0] for row in await database.fetch(_VERSIONS, f"{_FUNCTION}%")]


async def _all(database: asyncpg.Connection) -> list[Any]:
    return [row[0] for row in await database.fetch(_ALL)]


async def test_a_newer_schema_is_left_alone_and_said_so(
    database: asyncpg.Connection, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await _become_newer(database, oldest=LEVEL)
    before = await _all(database)
    assert await migrate(database_url) == []
    assert await _all(database) == before
    assert "runs beside the newer Queen 9.0.0" in caplog.text


@pytest.mark.parametrize("work", [migrate, finish_upgrade])
async def test_a_newer_schema_that_is_finished_is_refused(
    database: asyncpg.Connection, database_url: str, work: Any
) -> None:
    await _become_newer(database, oldest=LEVEL + 1)
    before = await _all(database)
    with pytest.raises(MigrationError, match=r"too old for the database.*start Queen 9\.0\.0"):
        await work(database_url)
    assert await _all(database) == before


async def test_an_older_release_does_not_finish_an_upgrade(
    database: asyncpg.Connection, database_url: str
) -> None:
    await _become_newer(database, oldest=LEVEL)
    before = await _all(database)
    with pytest.raises(MigrationError, match="finish the upgrade with that release"):
        await finish_upgrade(database_url)
    assert await _all(database) == before


@pytest.fixture
async def granted(
    database: asyncpg.Connection, database_url: str, postgres: SharedPostgres
) -> AsyncIterator[str]:
    """The name of a role that has no rights yet."""
    with postgres.role("caller", database_url):
        yield "caller"


@pytest.mark.parametrize(
    ("definition", "kept"),
    [
        pytest.param("(p_text text) RETURNS bigint", f"queen.{_FUNCTION}(text)", id="beside"),
        pytest.param(
            "(p_partition_id uuid, p_text text, p_more text) RETURNS text",
            f"queen.{_FUNCTION}(uuid,text,text)",
            id="beside with another result",
        ),
    ],
)
async def test_a_function_of_the_release_before_stays_until_the_upgrade_is_finished(
    database: asyncpg.Connection, database_url: str, granted: str, definition: str, kept: str
) -> None:
    await _put(database, definition)
    await database.execute(f"GRANT EXECUTE ON FUNCTION {kept} TO {granted}")
    await _become_older(database)
    assert await migrate(database_url) == [_FUNCTION]
    new = f"queen.{_FUNCTION}(uuid,text)"
    assert sorted(await _versions(database)) == sorted([new, kept])
    may_call = "SELECT has_function_privilege($1, $2::text, 'EXECUTE')"
    assert await database.fetchval(may_call, granted, new)
    assert not await database.fetchval(may_call, "public", new)
    assert await migrate(database_url) == []
    assert await finish_upgrade(database_url) == [kept]
    assert await _versions(database) == [new]


async def test_a_function_with_one_more_default_takes_the_calls_of_the_old_one(
    database: asyncpg.Connection, database_url: str, granted: str
) -> None:
    # As if the last argument had come with this release.
    arguments = await database.fetchval(
        "SELECT pg_get_function_arguments(oid) FROM pg_proc WHERE proname = 'push'"
        " AND pronamespace = 'queen'::regnamespace"
    )
    older = arguments.rpartition(",")[0]
    await database.execute("DROP FUNCTION queen.push")
    await database.execute(
        f"CREATE FUNCTION queen.push({older}) RETURNS uuid LANGUAGE plpgsql"
        " AS 'BEGIN RETURN NULL; END'"
    )
    await database.execute(f"GRANT EXECUTE ON FUNCTION queen.push TO {granted}")
    await database.execute(
        "UPDATE queen.schema_files SET checksum = 'older' WHERE name = 'functions/push'"
    )
    await _become_older(database)
    assert await migrate(database_url) == ["push"]
    call = "SELECT queen.push('orders', '1', partition => 'p')"
    assert await database.fetchval(call) is not None
    assert await database.fetchval(
        f"SELECT has_function_privilege('{granted}', oid, 'EXECUTE')"
        " FROM pg_proc WHERE oid = 'queen.push'::regproc"
    )
    (kept,) = [one for one in await finish_upgrade(database_url)]
    assert kept.startswith("queen.push__before_")
    assert await database.fetchval(call) is not None


@pytest.mark.parametrize(
    ("definition", "fault"),
    [
        ("(p_partition_id uuid, p_text text) RETURNS text", "returns bigint instead of text"),
        ("(p_other uuid, p_text text) RETURNS bigint", "has other argument names"),
        (
            "(p_partition_id uuid, p_text text DEFAULT '') RETURNS bigint",
            "does not take every call",
        ),
    ],
)
async def test_a_function_that_older_brokers_could_not_call_is_refused(
    database: asyncpg.Connection, database_url: str, definition: str, fault: str
) -> None:
    await _put(database, definition)
    await _become_older(database)
    before = await _all(database)
    with pytest.raises(MigrationError, match=f"{_FUNCTION} {fault}"):
        await migrate(database_url)
    assert await _all(database) == before


async def test_a_function_that_is_no_longer_needed_stays_until_the_upgrade_is_finished(
    database: asyncpg.Connection, database_url: str
) -> None:
    await database.execute(
        "CREATE FUNCTION queen.gone() RETURNS integer LANGUAGE sql AS 'SELECT 1';"
        " INSERT INTO queen.schema_files VALUES ('functions/gone', 'x', now(), 1)"
    )
    await _become_older(database)
    assert await migrate(database_url) == []
    assert await database.fetchval("SELECT queen.gone()") == 1
    assert await finish_upgrade(database_url) == ["queen.gone()"]
    with pytest.raises(asyncpg.UndefinedFunctionError):
        await database.fetchval("SELECT queen.gone()")


async def test_the_next_upgrade_finishes_the_one_before(
    database: asyncpg.Connection, database_url: str, tmp_path: Path, empty_database_url: str
) -> None:
    """Upgrades all the way give the schema of a fresh database."""
    next_release = make_next_release(tmp_path)
    await _put(database, "(p_text text) RETURNS bigint")
    await _become_older(database)
    await migrate(database_url)
    for words in (("migrate",), ("finish-upgrade",)):
        for url in (database_url, empty_database_url):
            done = run_command(next_release, "db", *words, "--database-url", url)
            assert done.returncode == 0, done.stderr
        assert await _versions(database) == [f"queen.{_FUNCTION}(uuid,text)"]
    query = "SELECT level, oldest_level, release FROM queen.schema_state"
    assert tuple(await database.fetchrow(query)) == (NEXT_LEVEL, NEXT_LEVEL, NEXT_RELEASE)
    fresh = await asyncpg.connect(empty_database_url)
    try:
        assert await take_snapshot(database) == await take_snapshot(fresh)
    finally:
        await fresh.close()
