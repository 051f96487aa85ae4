"""Brings the schema up to date: numbered migrations once each, function files whenever they change.

Everything happens in one transaction under an advisory lock, so two brokers that start at once do
not disturb each other and a failed step leaves nothing behind.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import asyncpg

from queenmq.errors import MigrationError
from queenmq.storage.driver_errors import translated
from queenmq.storage.sql_files import SqlFile, load_folder, load_queries

logger = logging.getLogger(__name__)

#: PostgreSQL 15: the oldest release that is supported.
_VERSION_MIN = 150_000


async def migrate(url: str, *, connect_timeout_ms: int = 5_000) -> list[str]:
    """Apply what is missing; the names of what was applied, in order."""
    with translated():
        connection = await asyncpg.connect(
            url, timeout=connect_timeout_ms / 1000, statement_cache_size=0
        )
        try:
            async with connection.transaction():
                return await _migrate(connection)
        finally:
            await connection.close()


async def _migrate(connection: asyncpg.Connection) -> list[str]:
    sql = load_queries("migrations")
    version = await connection.fetchval(sql["server_version"])
    if version < _VERSION_MIN:
        raise MigrationError(
            f"PostgreSQL {version // 10_000} is too old; use a server of version 15 or later"
        )
    await connection.execute(sql["lock"])
    await connection.execute(sql["bootstrap"])
    applied = {row["name"]: row["checksum"] for row in await connection.fetch(sql["applied"])}
    done = []
    for file in load_folder("migrations"):
        known = applied.get(f"migrations/{file.name}")
        if known is None:
            await _apply(connection, "migrations", file)
            done.append(file.name)
        elif known != file.checksum:
            raise MigrationError(
                f"migration {file.name} was changed after it was applied;"
                " restore it and add a new one"
            )
    functions = in_order(load_folder("functions"))
    for name in sorted(_names(applied, "functions") - {file.name for file in functions}):
        await _run(connection, await _drops(connection, name))
        await connection.execute(sql["forget"], f"functions/{name}")
    for file in functions:
        if applied.get(f"functions/{file.name}") != file.checksum:
            await _replace_function(connection, file)
            done.append(file.name)
    if done:
        logger.info("schema is up to date", extra={"event": "migrated", "applied": len(done)})
    return done


def _names(applied: Iterable[str], folder: str) -> set[str]:
    return {name.removeprefix(f"{folder}/") for name in applied if name.startswith(f"{folder}/")}


async def _replace_function(connection: asyncpg.Connection, file: SqlFile) -> None:
    """Leave exactly the function that the file defines.

    In place if that can be: calls in flight and triggers hold on to the old one. A function with
    other arguments or another result is dropped first; callers see the new one on commit.
    """
    older = await _drops(connection, file.name)
    attempt = connection.transaction()
    await attempt.start()
    try:
        await _apply(connection, "functions", file)
        is_replaced = len(await _drops(connection, file.name)) == 1
    except MigrationError as error:
        if not isinstance(error.__cause__, asyncpg.InvalidFunctionDefinitionError):
            raise
        is_replaced = False
    if is_replaced:
        await attempt.commit()
    else:
        await attempt.rollback()
        await _run(connection, older)
        await _apply(connection, "functions", file)


async def _drops(connection: asyncpg.Connection, name: str) -> list[str]:
    """The statements that drop every version of a function."""
    rows = await connection.fetch(load_queries("migrations")["drop_function"], name)
    return [row[0] for row in rows]


async def _run(connection: asyncpg.Connection, statements: list[str]) -> None:
    for statement in statements:
        await connection.execute(statement)


async def _apply(connection: asyncpg.Connection, folder: str, file: SqlFile) -> None:
    try:
        await connection.execute(file.text)
    except asyncpg.PostgresError as error:
        raise MigrationError(f"{folder}/{file.name}.sql failed: {error}") from error
    await connection.execute(
        load_queries("migrations")["record"], f"{folder}/{file.name}", file.checksum
    )


def in_order(files: list[SqlFile]) -> list[SqlFile]:
    """Functions so that each comes after those it calls: SQL bodies are checked when created."""
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
