"""Moves a database: pauses brokers, copies every table in one transaction, compares, commits.

The old database accepts no writes from the first to the last row, so both sides can be compared.
The new one gets everything or nothing: a failure before the commit leaves it empty, and the move
can be repeated. Positions of Spark readers do not survive, because another server numbers
transactions anew, as after a restore.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence

import asyncpg

from queenmq.engine.maintenance import POP_SWITCH, PUSH_SWITCH
from queenmq.errors import MoveError, QueenError
from queenmq.storage.connection.connecting import open_connection
from queenmq.storage.connection.driver_errors import translate_error
from queenmq.storage.moving.alone import moving_alone
from queenmq.storage.moving.copying import copy_table, run_both
from queenmq.storage.moving.plan import Compared, Progress, Sum, Table, order_tables
from queenmq.storage.schema import migrator
from queenmq.storage.schema.foreign import find_foreign
from queenmq.storage.sql_files import load_queries

logger = logging.getLogger(__name__)

_CONNECT_MS = 10_000
#: How long the lock of all tables may take each time, and how often it is tried.
_LOCK_MS = 10_000
_LOCK_TRIES = 6
#: Brokers poll the switches once a second.
_PAUSE_S = 2.0

Tell = Callable[[Progress], None]


@functools.cache
def _sql() -> dict[str, str]:
    return load_queries("moving")


async def check_reach(url: str) -> None:
    """Raise StorageUnavailable unless a database can be reached."""
    async with open_connection(url, timeout_ms=_CONNECT_MS):
        pass


async def look_at(url: str) -> str:
    """Check the target of a move and return its version. Raises if it cannot be used."""
    async with open_connection(url, timeout_ms=_CONNECT_MS) as target:
        with translate_error():
            (facts,) = await target.fetch(_sql()["facts"])
            if facts["encoding"] != "UTF8":
                raise MoveError(
                    f"the target database has the encoding {facts['encoding']}; create it with"
                    " ENCODING 'UTF8' TEMPLATE template0"
                )
            if facts["has_schema"] and await target.fetchval(_sql()["is_used"]):
                raise MoveError(
                    "the target database already holds queues; name an empty database, or drop its"
                    " schemas queen and queen_streams"
                )
            return str(facts["version"])


async def move(source_url: str, target_url: str, tell: Tell) -> list[Compared]:
    """Copy everything, if no other session does. Raises MoveError while one does."""
    async with moving_alone(source_url, timeout_ms=_CONNECT_MS):
        return await move_held(source_url, target_url, tell)


async def move_held(source_url: str, target_url: str, tell: Tell) -> list[Compared]:
    """Copy everything and return the comparison. Either all of it matches, or nothing was copied.

    For callers that hold `moving_alone` already.

    The old database stays paused: start brokers on the new one.
    """
    await look_at(target_url)
    tell(Progress("schema"))
    await migrator.migrate(target_url)
    async with (
        open_connection(source_url, timeout_ms=_CONNECT_MS) as source,
        open_connection(target_url, timeout_ms=_CONNECT_MS) as target,
    ):
        with translate_error():
            await _check_schemas(source, target)
            was = await _switch(source, {PUSH_SWITCH: True, POP_SWITCH: True})
            try:
                tell(Progress("pausing"))
                await asyncio.sleep(_PAUSE_S)
                compared = await _copy_all(source, target, tell)
            except BaseException:
                # Brokers continue as before, even if the command is interrupted.
                await asyncio.shield(_resume(source_url, was))
                raise
            with contextlib.suppress(asyncpg.PostgresError):
                await target.execute(_sql()["analyze"])
    tell(Progress("done", tables_done=len(compared), tables=len(compared)))
    return compared


async def compare(source_url: str, target_url: str) -> list[Compared]:
    """Compare every table of two databases, each side in one snapshot."""
    async with (
        open_connection(source_url, timeout_ms=_CONNECT_MS) as source,
        open_connection(target_url, timeout_ms=_CONNECT_MS) as target,
    ):
        with translate_error():
            async with (
                source.transaction(isolation="repeatable_read", readonly=True),
                target.transaction(isolation="repeatable_read", readonly=True),
            ):
                await _refuse_foreign(source)
                for side in (source, target):
                    await side.execute(_sql()["prepare_target"])
                tables = await _tables_of(source)
                return await _compare_all(source, target, tables, lambda _: None)


async def _check_schemas(source: asyncpg.Connection, target: asyncpg.Connection) -> None:
    files = _sql()["schema_files"]
    old, new = [{row[0] for row in await side.fetch(files)} for side in (source, target)]
    if old != new:
        differs = ", ".join(sorted(old ^ new)[:5])
        raise MoveError(
            f"both databases must be of one release, and differ in {differs}; run"
            " queen db migrate and queen db finish-upgrade on the old one first"
        )
    ids = [await side.fetchval(_sql()["database_id"]) for side in (source, target)]
    if ids[0] == ids[1]:
        raise MoveError("both URLs lead to the same database; name another one with --to")
    await _refuse_foreign(source)


async def _refuse_foreign(source: asyncpg.Connection) -> None:
    foreign = [one for one in await find_foreign(source) if one.holds_data]
    if foreign:
        names = ", ".join(one.name for one in foreign)
        raise MoveError(
            f"schema queen holds what is not Queen's and is not moved: {names}; move it out first:"
            f" {'; '.join(one.moves_out for one in foreign)}"
        )


async def _switch(source: asyncpg.Connection, switches: dict[str, bool]) -> dict[str, bool]:
    """Set switches that all brokers obey, and return what they were."""
    sql = load_queries("operations")
    rows = await source.fetch(sql["read_system_state"])
    state = {row["name"]: json.loads(row["value"]) for row in rows}
    for name, value in switches.items():
        await source.execute(sql["write_system_state"], name, json.dumps(value))
    return {name: state.get(name) is True for name in switches}


async def _resume(source_url: str, switches: dict[str, bool]) -> None:
    """Restore the switches over a new connection, because the old one may have failed."""
    try:
        async with open_connection(source_url, timeout_ms=_CONNECT_MS) as source:
            with translate_error():
                await _switch(source, switches)
    except QueenError as error:
        facts = {"event": "move_left_paused"}
        text = "The brokers are still paused (%s). Resume them with queen maintenance off."
        logger.error(text, error, extra=facts)


async def _copy_all(
    source: asyncpg.Connection, target: asyncpg.Connection, tell: Tell
) -> list[Compared]:
    """Copy and compare while nothing can change, then commit."""
    async with _held(source), target.transaction():
        for side in (source, target):
            await side.execute(_sql()["prepare_target"])
        tables = order_tables(await _tables_of(source))
        for table in reversed(tables):
            await target.execute(table.empties)
        copied = 0
        for done, table in enumerate(tables):
            told = Progress("copying", table.name, done, len(tables), copied)
            tell(told)
            copied += await copy_table(
                source, target, table, functools.partial(_tell_size, told, tell)
            )
        for row in await source.fetch(_sql()["sequences"]):
            if row["last_value"] is not None:
                await target.fetchval(_sql()["set_sequence"], row["name"], row["last_value"])
        await target.execute(_sql()["adopt"], await source.fetchval(_sql()["database_id"]))
        for row in await source.fetch(_sql()["paused_groups"]):
            await target.execute(load_queries("operations")["write_system_state"], *row)
        compared = await _compare_all(source, target, tables, tell)
        wrong = [one for one in compared if not one.is_match]
        if wrong:
            first = wrong[0]
            raise MoveError(
                f"{len(wrong)} tables differ after the copy, first {first.table} with"
                f" {first.source.rows} rows and {first.target.rows}; nothing was kept, try again"
            )
        return compared


@contextlib.asynccontextmanager
async def _held(source: asyncpg.Connection) -> AsyncIterator[None]:
    """Stop all writers and take one snapshot of everything behind them."""
    lock = await source.fetchval(_sql()["lock_tables"], _LOCK_MS)
    for _ in range(_LOCK_TRIES):
        opened = source.transaction(isolation="repeatable_read")
        await opened.start()
        try:
            # The snapshot is taken by the first statement that reads, so after the lock.
            await source.execute(lock)
            break
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            await opened.rollback()
    else:
        raise MoveError(
            "other transactions keep writing to the old database, so it cannot be held still; end"
            " them (queen db vacuum-report names long ones) and try again"
        )
    try:
        yield
    finally:
        await opened.rollback()


async def _tables_of(side: asyncpg.Connection) -> list[Table]:
    return [
        Table(*(row[name] for name in Table._fields)) for row in await side.fetch(_sql()["tables"])
    ]


def _tell_size(told: Progress, tell: Tell, size: int) -> None:
    tell(told._replace(bytes_copied=told.bytes_copied + size))


async def _compare_all(
    source: asyncpg.Connection, target: asyncpg.Connection, tables: Sequence[Table], tell: Tell
) -> list[Compared]:
    compared = []
    for done, table in enumerate(tables):
        tell(Progress("comparing", table.name, done, len(tables)))
        (here,), (there,) = await run_both(
            source.fetch(table.compares), target.fetch(table.compares)
        )
        compared.append(Compared(table.name, Sum(*here), Sum(*there)))
    return compared
