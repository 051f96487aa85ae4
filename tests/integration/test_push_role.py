"""The documented role for pushing by SQL: it can push, and do nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.support.plain_sql import documented_sql
from tests.support.shared_postgres import SharedPostgres

_FUNCTIONS = (
    "SELECT oid::regprocedure::text, has_function_privilege('orders_app', oid, 'EXECUTE'),"
    " has_function_privilege('public', oid, 'EXECUTE')"
    " FROM pg_proc WHERE pronamespace = 'queen'::regnamespace"
)
_TABLE_RIGHTS = (
    "SELECT c.oid::regclass::text, p.name FROM pg_class c"
    " CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[])"
    " AS p (name) WHERE c.relnamespace = 'queen'::regnamespace AND c.relkind IN ('r', 'v', 'p')"
    " AND has_table_privilege('orders_app', c.oid, p.name)"
)
#: Ways to get at more, and what they are refused.
_ATTEMPTS = [
    "SELECT * FROM queen.messages",
    "SELECT * FROM queen.queues",
    "INSERT INTO queen.queues (name) VALUES ('mine')",
    "UPDATE queen.partition_lookup SET last_seq = 0",
    "DELETE FROM queen.messages",
    "TRUNCATE queen.messages",
    "SELECT queen.delete_queue('orders')",
    "SELECT queen.clear_queue('orders', NULL)",
    "SELECT * FROM queen.ensure_partitions(ARRAY['mine'], ARRAY['p'], NULL)",
    "SELECT * FROM queen.list_messages('orders', NULL, NULL, NULL, NULL, NULL, NULL, 9, 0, 9)",
    "CREATE TABLE queen.mine (n integer)",
    "CREATE FUNCTION queen.mine() RETURNS integer LANGUAGE sql RETURN 1",
    "ALTER FUNCTION queen.push SECURITY INVOKER",
    "DROP SCHEMA queen CASCADE",
]


@pytest.fixture
async def app(
    database: asyncpg.Connection, database_url: str, postgres: SharedPostgres
) -> AsyncIterator[asyncpg.Connection]:
    """A session of the documented role."""
    with postgres.role("orders_app", database_url) as url:
        for statement in documented_sql("operations.md", "A role that may only push").split(";"):
            if statement.strip() and "CREATE ROLE" not in statement:
                await database.execute(statement)
        session = await asyncpg.connect(url)
        try:
            yield session
        finally:
            await session.close(timeout=5)


async def _payloads(database: asyncpg.Connection) -> list[str]:
    query = "SELECT payload::text FROM queen.messages ORDER BY partition_id, seq"
    return [row[0] for row in await database.fetch(query)]


async def test_the_role_pushes_within_its_own_transaction(
    app: asyncpg.Connection, database: asyncpg.Connection
) -> None:
    push = "SELECT queen.push('orders', $1, partition => 'customer-42', transaction_id => $2)"
    transaction = app.transaction()
    await transaction.start()
    await app.fetchval(push, "1", "rolled back")
    await transaction.rollback()
    async with app.transaction():
        first = await app.fetchval(push, "2", "tx-2")
        assert await _payloads(database) == []
    assert await app.fetchval(push, "3", "tx-2") == first
    assert await _payloads(database) == ["2"]


async def test_the_role_may_call_nothing_but_push(
    app: asyncpg.Connection, database: asyncpg.Connection
) -> None:
    rows = await database.fetch(_FUNCTIONS)
    assert [name for name, may_role, _ in rows if may_role] == [
        "queen.push(text,json,text,text,uuid)"
    ]
    assert [name for name, _, may_public in rows if may_public] == []
    assert [tuple(row) for row in await database.fetch(_TABLE_RIGHTS)] == []


@pytest.mark.parametrize("attempt", _ATTEMPTS)
async def test_the_role_can_do_nothing_else(
    app: asyncpg.Connection, database: asyncpg.Connection, attempt: str
) -> None:
    await app.fetchval("SELECT queen.push('orders', '1')")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await app.execute(attempt)
    assert await _payloads(database) == ["1"]


async def test_the_role_cannot_slip_in_code_of_its_own(
    app: asyncpg.Connection, database: asyncpg.Connection, postgres: SharedPostgres
) -> None:
    name = await database.fetchval("SELECT current_database()")
    postgres.execute("CREATE SCHEMA trap AUTHORIZATION orders_app", database=name)
    # What push and the functions below it use without naming a schema: all of it, but in a trap.
    for statement in (
        "CREATE FUNCTION trap.spring() RETURNS void LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE EXCEPTION 'sprung as %', current_user; END $$",
        *(
            f"CREATE FUNCTION trap.{name}({takes}) RETURNS {gives} LANGUAGE plpgsql"
            " AS $$ BEGIN PERFORM trap.spring(); END $$"
            for name, takes, gives in (
                ("length", "text", "integer"),
                ("octet_length", "text", "integer"),
                ("clock_timestamp", "", "timestamptz"),
                ("pg_notify", "text, text", "void"),
                ("set_config", "text, text, boolean", "text"),
                ("same", "text, text", "boolean"),
            )
        ),
        "CREATE OPERATOR trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = trap.same)",
        "CREATE TEMP TABLE messages (n integer)",
        "CREATE TYPE pg_temp.uuid AS (n integer)",
        "SET search_path = trap, pg_temp, pg_catalog, queen",
        "SET queen.tracks_lookup = 'on'",
    ):
        await app.execute(statement)
    await app.execute("SELECT queen.push('orders', '1', transaction_id => 'tx-1')")
    assert await _payloads(database) == ["1"]
    query = "SELECT last_seq FROM queen.partition_lookup"
    assert await database.fetchval(query) == 1


async def test_few_functions_act_for_their_owner_and_none_finds_code_of_others(
    database: asyncpg.Connection,
) -> None:
    query = (
        "SELECT proname::text, proconfig FROM pg_proc"
        " WHERE pronamespace = 'queen'::regnamespace AND prosecdef"
    )
    found = dict(await database.fetch(query))
    # A role may push, read as Spark does, say what its jobs did, or store what Spark has staged
    # and shrink what that took, without more rights.
    assert set(found) == {
        "push",
        "mark_position",
        "find_deleted_queues",
        "start_pipeline_run",
        "note_pipeline_run",
        "new_partition_number",
        "shrink_staging",
    }
    assert all(found[name] == ["search_path=pg_catalog, pg_temp"] for name in found)
