"""Applies function files to a schema, and keeps those that older brokers still call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import asyncpg

from queenmq.errors import MigrationError
from queenmq.storage.schema.function_change import Change, FunctionVersion, judge
from queenmq.storage.sql_files import SqlFile, load_queries

#: Files that the bookkeeping knows, and how it names functions that are to go with the upgrade.
FUNCTIONS = "functions"
_LEFTOVERS = "leftovers"


class AppliedFile(NamedTuple):
    """The record of a file: its checksum, and the level that applied it."""

    checksum: str
    level: int


class SchemaFunctions:
    """The functions of one database, within one transaction."""

    def __init__(
        self, connection: asyncpg.Connection, applied: dict[str, AppliedFile], *, level: int
    ) -> None:
        self._connection = connection
        self._applied = applied
        self._level = level
        self._sql = load_queries("schema/migrations")

    async def bring_up(self, files: list[SqlFile], *, keeps_older: bool) -> list[str]:
        """Apply the files that have changed. Return their names.

        With `keeps_older` what the release before calls stays until `drop_leftovers`.
        """
        wanted = {file.name for file in files}
        for name in sorted(_names(self._applied, FUNCTIONS) - wanted):
            is_kept = keeps_older and self._is_of_older(name)
            for version in await self._versions(name):
                await (self._keep(version.signature) if is_kept else self._drop(version.signature))
            await self._forget(f"{FUNCTIONS}/{name}")
        done = []
        for file in files:
            known = self._applied.get(f"{FUNCTIONS}/{file.name}")
            if known is None or known.checksum != file.checksum:
                await self._replace(file, keeps_older=keeps_older and self._is_of_older(file.name))
                done.append(file.name)
        return done

    async def drop_leftovers(self) -> list[str]:
        """Drop functions kept for the previous release. Return their signatures."""
        leftovers = sorted(_names(self._applied, _LEFTOVERS))
        for signature in leftovers:
            await self._drop(signature)
            await self._forget(f"{_LEFTOVERS}/{signature}")
        return leftovers

    def _is_of_older(self, name: str) -> bool:
        known = self._applied.get(f"{FUNCTIONS}/{name}")
        return known is not None and known.level < self._level

    async def _replace(self, file: SqlFile, *, keeps_older: bool) -> None:
        """Create the function of a file, in place if that can be."""
        older = await self._versions(file.name)
        if older and await self._is_replaced_in_place(file, older):
            return
        aside = {version: await self._set_aside(file.name, version) for version in older}
        await self._create(file)
        (newer,) = await self._versions(file.name)
        await self._close(newer, aside.values())
        for version, signature in aside.items():
            if not keeps_older:
                await self._drop(signature)
            elif judge(file.name, version, newer) is Change.INSTEAD:
                await self._keep(signature)
            else:
                await self._rename(signature, file.name)
                await self._keep(version.signature)

    async def _is_replaced_in_place(self, file: SqlFile, older: list[FunctionVersion]) -> bool:
        """Try to replace the function in place, because calls in flight and triggers use it."""
        attempt = self._connection.transaction()
        await attempt.start()
        is_replaced = False
        try:
            await self._create(file)
            is_replaced = len(older) == len(await self._versions(file.name)) == 1
        except MigrationError as error:
            if not isinstance(error.__cause__, asyncpg.InvalidFunctionDefinitionError):
                raise
        finally:
            await (attempt.commit() if is_replaced else attempt.rollback())
        return is_replaced

    async def _close(self, newer: FunctionVersion, older: Iterable[str]) -> None:
        """Grant a new function to its owner and to callers of the previous versions."""
        is_known = False
        grants: list[str] = []
        for signature in older:
            is_known = True
            query = self._sql["copy_grants"]
            grants += [row[0] for row in await self._fetch(query, signature, newer.signature)]
        closing = await self._fetch(self._sql["close_function"], newer.signature, is_known)
        for statement in [*(row[0] for row in closing), *grants]:
            await self._connection.execute(statement)

    async def _create(self, file: SqlFile) -> None:
        await apply_file(self._connection, FUNCTIONS, file, level=self._level)

    async def _versions(self, name: str) -> list[FunctionVersion]:
        """Return the functions of a name, without those that are kept for the release before."""
        found = await read_versions(self._connection, name)
        return [one for one in found if f"{_LEFTOVERS}/{one.signature}" not in self._applied]

    async def _set_aside(self, name: str, version: FunctionVersion) -> str:
        """Rename the function to free its name. Return its new signature."""
        number = len(_names(self._applied, _LEFTOVERS))
        return await self._rename(version.signature, f"{name}__before_{self._level}_{number}")

    async def _rename(self, signature: str, name: str) -> str:
        await self._connection.execute(f"ALTER FUNCTION {signature} RENAME TO {name}")
        return f"queen.{name}({signature.partition('(')[2]}"

    async def _keep(self, signature: str) -> None:
        name = f"{_LEFTOVERS}/{signature}"
        await self._connection.execute(self._sql["record"], name, "", self._level)
        self._applied[name] = AppliedFile("", self._level)

    async def _drop(self, signature: str) -> None:
        await self._connection.execute(f"DROP FUNCTION {signature}")

    async def _forget(self, name: str) -> None:
        await self._connection.execute(self._sql["forget"], name)
        self._applied.pop(name)

    async def _fetch(self, query: str, *values: object) -> list[asyncpg.Record]:
        return list(await self._connection.fetch(query, *values))


async def read_versions(connection: asyncpg.Connection, name: str) -> list[FunctionVersion]:
    """Return the functions of a name that the database has."""
    rows = await connection.fetch(load_queries("schema/migrations")["function_versions"], name)
    return [
        FunctionVersion(
            signature=row["signature"],
            types=tuple(row["types"]),
            names=tuple(row["names"]),
            default_count=row["default_count"],
            result=row["result"],
        )
        for row in rows
    ]


async def apply_file(
    connection: asyncpg.Connection, folder: str, file: SqlFile, *, level: int
) -> None:
    """Run a file and record it."""
    try:
        await connection.execute(file.text)
    except asyncpg.DeadlockDetectedError:
        # Not the file's fault. The migrator retries.
        raise
    except asyncpg.PostgresError as error:
        raise MigrationError(f"{folder}/{file.name}.sql failed: {error}") from error
    name = f"{folder}/{file.name}"
    await connection.execute(
        load_queries("schema/migrations")["record"], name, file.checksum, level
    )


def _names(applied: Iterable[str], folder: str) -> set[str]:
    return {name.removeprefix(f"{folder}/") for name in applied if name.startswith(f"{folder}/")}
