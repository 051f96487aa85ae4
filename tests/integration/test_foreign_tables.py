"""Tables that others put into Queen's schemas: told apart, left alone, and kept out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from queenmq.errors import MoveError
from queenmq.storage.embedded import EmbeddedPostgres, read_url
from queenmq.storage.moving import mover
from queenmq.storage.schema.foreign import find_foreign, leave_search_path, own_relations
from queenmq.storage.schema.migrator import migrate
from queenmq.storage.schema.vacuum_report import vacuum_report
from tests.support.broker import running_broker
from tests.support.embedded_server import fetch_value
from tests.support.readme import blocks

_OTHER = "CREATE TABLE queen.shop_orders (id serial PRIMARY KEY)"
_MOVE_OUT = "ALTER TABLE queen.shop_orders SET SCHEMA public"
_RESET = "ALTER ROLE queen IN DATABASE queen RESET search_path"
_ALL = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('queen', 'queen_streams') AND c.relkind NOT IN ('i', 't')
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('a', 'i')
                  AND d.refclassid = 'pg_class'::regclass)
"""


async def _run(url: str, *statements: str) -> None:
    session = await asyncpg.connect(url)
    for statement in statements:
        await session.execute(statement)
    await session.close()


async def test_every_relation_of_a_migrated_database_is_known_as_ours(
    database: asyncpg.Connection,
) -> None:
    assert {row[0] for row in await database.fetch(_ALL)} == set(own_relations())
    assert await find_foreign(database) == []


async def test_foreign_relations_are_found(database: asyncpg.Connection) -> None:
    await database.execute(_OTHER)
    await database.execute('CREATE VIEW queen_streams."A view" AS SELECT 1 AS one')
    found = [(one.name, one.holds_data) for one in await find_foreign(database)]
    assert found == [("queen.shop_orders", True), ('queen_streams."A view"', False)]


async def test_relations_of_a_later_release_are_not_called_foreign(
    database: asyncpg.Connection,
) -> None:
    await database.execute("CREATE TABLE queen.later (id integer)")
    await database.execute(
        "INSERT INTO queen.schema_files (name, checksum, level)"
        " VALUES ('migrations/9999_pre_create_later', '', 99)"
    )
    assert await find_foreign(database) == []


async def test_the_vacuum_report_is_about_our_tables(
    database: asyncpg.Connection, database_url: str
) -> None:
    await database.execute(_OTHER)
    tables = {row["table"] for row in (await vacuum_report(database_url))["tables"]}
    assert "messages" in tables and "shop_orders" not in tables


async def test_a_move_is_refused_until_foreign_tables_are_out(
    database: asyncpg.Connection, database_url: str, empty_database_url: str
) -> None:
    await database.execute(_OTHER)
    with pytest.raises(MoveError, match=f"not moved: queen.shop_orders; .*: {_MOVE_OUT}$"):
        await mover.move(database_url, empty_database_url, lambda _: None)
    paused = "SELECT count(*) FROM queen.system_state WHERE value::text = 'true'"
    assert await database.fetchval(paused) == 0, "refused before any broker was paused"
    await database.execute(_MOVE_OUT)
    moved = await mover.move(database_url, empty_database_url, lambda _: None)
    assert all(one.is_match for one in moved)


async def test_the_sql_of_the_readme_is_no_obstacle_to_a_move(
    superuser_url: str, empty_database_url: str
) -> None:
    # The role has the name of the schema, as on the embedded server, and that of the target not.
    (block,) = [block for block in blocks() if block.language == "sql"]
    await _run(superuser_url, "SET search_path = queen, public", block.text)
    assert await fetch_value(superuser_url, "SELECT count(*) FROM public.shop_orders") == 1
    moved = await mover.move(superuser_url, empty_database_url, lambda _: None)
    assert {one.table: one.target.rows for one in moved}["queen.messages"] == 1


class TestSearchPath:
    """Where `CREATE TABLE` leads on the embedded server."""

    def test_tables_go_to_public(self, server: EmbeddedPostgres) -> None:
        url = server.url
        asyncio.run(_run(url, "CREATE SCHEMA queen", "CREATE TABLE shop_orders (id integer)"))
        assert asyncio.run(fetch_value(url, "SELECT 'public.shop_orders'::regclass")) is not None

    def test_a_broker_mends_the_path_of_an_older_data_directory(
        self, make_server: Callable[..., EmbeddedPostgres], data_dir: Path
    ) -> None:
        with make_server(data_dir) as older:
            asyncio.run(_run(older.url, _RESET))
            assert asyncio.run(fetch_value(older.url, "SHOW search_path")) == '"$user", public'
        with running_broker(data_dir=data_dir):
            assert asyncio.run(fetch_value(read_url(data_dir), "SHOW search_path")) == "public"

    @pytest.mark.parametrize("choice", ["ROLE queen", "DATABASE queen"])
    def test_a_chosen_path_stays(self, server: EmbeddedPostgres, choice: str) -> None:
        url = server.url
        asyncio.run(migrate(url))
        asyncio.run(_run(url, _RESET, f"ALTER {choice} SET search_path = queen, shop"))
        asyncio.run(leave_search_path(url))
        assert asyncio.run(fetch_value(url, "SHOW search_path")) == "queen, shop"

    def test_a_path_that_leads_to_foreign_tables_stays_until_they_are_out(
        self, server: EmbeddedPostgres, caplog: pytest.LogCaptureFixture
    ) -> None:
        url = server.url
        asyncio.run(migrate(url))
        asyncio.run(_run(url, _RESET, _OTHER))
        with caplog.at_level(logging.WARNING):
            asyncio.run(leave_search_path(url))
        event = "foreign_tables"
        (said,) = [one for one in caplog.records if getattr(one, "event", None) == event]
        assert said.getMessage().endswith(f"restart the broker: {_MOVE_OUT}")
        assert asyncio.run(fetch_value(url, "SHOW search_path")) == '"$user", public'
        asyncio.run(_run(url, _MOVE_OUT))
        asyncio.run(leave_search_path(url))
        assert asyncio.run(fetch_value(url, "SHOW search_path")) == "public"
