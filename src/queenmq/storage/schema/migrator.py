"""Brings the schema up to date: numbered migrations once each, function files whenever they change.

Everything happens in one transaction under an advisory lock, so two brokers can start at once, and
a failed step leaves nothing behind. A schema of a later release is left alone: `schema_level`
decides.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import asyncpg

from queenmq.errors import MigrationError
from queenmq.storage.connection.connecting import open_connection
from queenmq.storage.connection.driver_errors import translate_error
from queenmq.storage.schema.functions import AppliedFile, SchemaFunctions, apply_file
from queenmq.storage.schema.level import (
    FIRST,
    LEVEL,
    Plan,
    SchemaState,
    level_of_migration,
    plan_finish,
    plan_start,
)
from queenmq.storage.sql_files import SqlFile, load_folder, load_queries
from queenmq.version import VERSION

logger = logging.getLogger(__name__)

#: PostgreSQL 15: the oldest release that is supported.
_VERSION_MIN = 150_000

#: Deadlocks with running brokers in a row before a start gives up.
_TRIES = 10

_Work = Callable[[asyncpg.Connection], Awaitable[list[str]]]


async def migrate(url: str, *, connect_timeout_ms: int = 5_000) -> list[str]:
    """Apply missing changes, unless a later release did. Return their names, in order.

    Everything that brokers of the previous release need stays until `finish_upgrade`.
    """
    return await _in_transaction(url, _start, connect_timeout_ms)


async def finish_upgrade(url: str, *, connect_timeout_ms: int = 5_000) -> list[str]:
    """Apply missing changes and remove those only older brokers need. Return all names."""
    return await _in_transaction(url, _finish, connect_timeout_ms)


async def _in_transaction(url: str, work: _Work, connect_timeout_ms: int) -> list[str]:
    async with open_connection(url, timeout_ms=connect_timeout_ms) as connection:
        with translate_error():
            for attempt in range(1, _TRIES + 1):
                try:
                    return await _try(connection, work)
                except asyncpg.DeadlockDetectedError:
                    # Migrations lock tables that running brokers use in an order of their own.
                    if attempt == _TRIES:
                        raise
            raise AssertionError("unreachable")


async def _try(connection: asyncpg.Connection, work: _Work) -> list[str]:
    sql = load_queries("schema/migrations")
    async with connection.transaction():
        await _check_server(connection)
        await connection.execute(sql["lock"])
        await connection.execute(sql["fix_search_path"])
        return await work(connection)


async def _check_server(connection: asyncpg.Connection) -> None:
    version = await connection.fetchval(load_queries("schema/migrations")["server_version"])
    if version < _VERSION_MIN:
        raise MigrationError(
            f"PostgreSQL {version // 10_000} is too old; use a server of version 15 or later"
        )


async def _start(connection: asyncpg.Connection) -> list[str]:
    found = await _find_state(connection)
    plan = plan_start(found, release=VERSION)
    if plan is not None:
        return await _apply(connection, found, plan)
    assert found is not None
    logger.warning(
        "Queen %s runs beside the newer Queen %s and leaves its schema alone",
        VERSION,
        found.release,
        extra={"event": "older_release", "level": LEVEL, "schema_level": found.level},
    )
    return []


async def _finish(connection: asyncpg.Connection) -> list[str]:
    found = await _find_state(connection)
    # First as any start: it drops leftovers of an earlier upgrade before it keeps anything.
    plan = plan_start(found, release=VERSION)
    done = [] if plan is None else await _apply(connection, found, plan)
    state = found if plan is None else plan.after
    return done + await _apply(connection, state, plan_finish(state, release=VERSION))


async def _find_state(connection: asyncpg.Connection) -> SchemaState | None:
    """Return the recorded state of the schema, or None if there is no schema."""
    sql = load_queries("schema/migrations")
    tables = {row["name"] for row in await connection.fetch(sql["find_bookkeeping"])}
    if "schema_files" not in tables:
        await connection.execute(sql["create_bookkeeping"])
        if "schema_migrations" not in tables:
            return None
        await connection.execute(sql["adopt_first_release"])
        return FIRST
    row = await connection.fetchrow(sql["state"])
    if row is None:
        raise MigrationError("table queen.schema_state is empty; restore it from a backup")
    return SchemaState(**row)


async def _apply(
    connection: asyncpg.Connection, found: SchemaState | None, plan: Plan
) -> list[str]:
    sql = load_queries("schema/migrations")
    rows = await connection.fetch(sql["applied"])
    applied = {row["name"]: AppliedFile(row["checksum"], row["level"]) for row in rows}
    functions = in_order(load_folder("functions"))
    schema = SchemaFunctions(connection, applied, level=LEVEL)
    done = []
    if plan.drops_leftovers:
        done += await schema.drop_leftovers()
    done += await _apply_migrations(connection, applied, post_level=plan.post_level)
    done += await schema.bring_up(functions, keeps_older=not plan.after.is_finished)
    if plan.after != found:
        await connection.execute(sql["record_state"], *plan.after)
    if done:
        logger.info("The schema is up to date.", extra={"event": "migrated", "applied": len(done)})
    return done


async def _apply_migrations(
    connection: asyncpg.Connection, applied: dict[str, AppliedFile], *, post_level: int
) -> list[str]:
    done = []
    for file in load_folder("migrations"):
        known = applied.get(f"migrations/{file.name}")
        number, stage = file.name.split("_")[:2]
        level = level_of_migration(int(number))
        if known is not None and known.checksum != file.checksum:
            raise MigrationError(
                f"migration {file.name} was changed after it was applied;"
                " restore it and add a new one"
            )
        if known is None and (stage == "pre" or level <= post_level):
            await apply_file(connection, "migrations", file, level=level)
            done.append(file.name)
    return done


def in_order(files: list[SqlFile]) -> list[SqlFile]:
    """Sort functions so that each comes after those it calls, because SQL bodies are checked when
    created.
    """
    by_name = {file.name: file for file in files}
    ordered: dict[str, SqlFile] = {}

    def visit(file: SqlFile, above: tuple[str, ...]) -> None:
        if file.name in ordered or file.name in above:
            return
        body = "\n".join(line for line in file.text.splitlines() if not line.startswith("--"))
        for name, called in by_name.items():
            if name != file.name and f"queen.{name}(" in body:
                visit(called, (*above, file.name))
        ordered[file.name] = file

    for file in files:
        visit(file, ())
    return list(ordered.values())
