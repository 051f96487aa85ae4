"""Connections to PostgreSQL. Few others import the driver: listener, migrator, lookup care.

No session state is relied on: what a call needs is set inside its function, so every call may run
on any connection of a transaction pooler. Driver errors become ours by SQLSTATE, never by text.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import asyncpg

from queenmq import errors
from queenmq.settings import Settings


class _Connection(asyncpg.Connection):
    """A connection that is handed on as it is: no call leaves session state behind to reset."""

    def get_reset_query(self) -> str:
        return ""


#: SQLSTATEs of waiting in vain or losing a deadlock: nothing was done, another try may succeed.
_BUSY = {"55P03", "40P01", "40001"}
#: SQLSTATE classes that say something about the data or the statement, not about the server.
_REJECTED_CLASSES = {"21", "22", "23", "42", "54"}


@contextmanager
def translated() -> Iterator[None]:
    """Turn what the driver raises into the errors of this package."""
    try:
        yield
    except asyncpg.PostgresError as error:
        raise _from_postgres(error) from error
    except TimeoutError as error:
        # Before OSError, of which it is one kind, because it has no text of its own.
        raise errors.StorageUnavailable("the database did not answer in time; try again") from error
    except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise errors.StorageUnavailable(
            f"the database does not answer: {error}; try again"
        ) from error


def _from_postgres(error: asyncpg.PostgresError) -> errors.QueenError:
    code = error.sqlstate or ""
    # Without the DETAIL and HINT lines that str(error) appends: answers are one sentence.
    text = str(error.args[0]) if error.args else type(error).__name__
    if code == errors.PARTITION_GONE:
        return errors.PartitionGone(text)
    if code in (errors.QUEUE_FULL, errors.ACK_REFUSED, errors.LEASE_LOST, errors.DUPLICATE_PUSH):
        return errors.TransactionRefused(text)
    if code in _BUSY:
        return errors.PartitionBusy("another transaction holds what this request needs; try again")
    if code[:2] in _REJECTED_CLASSES:
        return errors.StorageRejected(f"the database refused the request: {text}")
    return errors.StorageUnavailable(
        f"the database cannot serve the request now: {text}; try again"
    )


class PoolUse(NamedTuple):
    """Connections that are open, those of them without work, and calls that wait for one."""

    size: int
    idle: int
    waiting: int


class Database:
    """A pool of connections, and queries by text."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._url = url
        self._settings = settings
        self._pool: asyncpg.Pool | None = None
        self._waiting = 0

    def pool_use(self) -> PoolUse:
        """How busy the connections are."""
        if self._pool is None:
            return PoolUse(0, 0, 0)
        return PoolUse(self._pool.get_size(), self._pool.get_idle_size(), self._waiting)

    async def open(self) -> None:
        """Connect. Fails when the database cannot be reached."""
        settings = self._settings
        with translated():
            self._pool = await asyncpg.create_pool(
                self._url,
                # No floor: the driver would log a traceback for every try to keep it in an outage.
                min_size=0,
                max_size=settings.db_pool_size,
                connection_class=_Connection,
                command_timeout=settings.db_command_timeout_ms / 1000,
                timeout=settings.db_connect_timeout_ms / 1000,
                statement_cache_size=100 if settings.db_prepared_statements else 0,
                max_inactive_connection_lifetime=0,
                init=_keep_alive,
            )
            async with self._pool.acquire():
                # One connection now, so that a start without a database says so.
                pass

    async def close(self) -> None:
        """Let calls end, then disconnect."""
        if self._pool is not None:
            try:
                async with asyncio.timeout(5):
                    await self._pool.close()
            except TimeoutError:
                self._pool.terminate()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.pool.PoolConnectionProxy]:
        assert self._pool is not None, "the database is not open"
        with translated():
            async with self._acquire(self._pool) as connection:
                if self._settings.db_prepared_statements:
                    yield connection
                else:
                    # Without named statements the driver parses and executes in two steps, which a
                    # transaction pooler may send to two servers unless a transaction holds them
                    # together.
                    async with connection.transaction():
                        yield connection

    @asynccontextmanager
    async def _acquire(self, pool: asyncpg.Pool) -> AsyncIterator[asyncpg.pool.PoolConnectionProxy]:
        self._waiting += 1
        try:
            connection = await pool.acquire()
        finally:
            self._waiting -= 1
        try:
            yield connection
        finally:
            await pool.release(connection)

    async def fetch(self, query: str, *args: Any) -> list[asyncpg.Record]:
        """All rows."""
        async with self._connection() as connection:
            return await connection.fetch(query, *args)

    async def fetch_row(self, query: str, *args: Any) -> asyncpg.Record:
        """The one row of a query that always has one."""
        async with self._connection() as connection:
            row = await connection.fetchrow(query, *args)
        assert row is not None, query
        return row

    async def fetch_value(self, query: str, *args: Any, timeout_s: float | None = None) -> Any:
        """The first column of the first row; a timeout replaces that of the settings."""
        async with self._connection() as connection:
            return await connection.fetchval(query, *args, timeout=timeout_s)


async def _keep_alive(connection: asyncpg.Connection) -> None:
    """Notice a server that vanished without a word, also on an idle connection."""
    # The driver offers no public way to its socket.
    transport = getattr(connection, "_transport", None)
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in _keep_alive_options():
        sock.setsockopt(socket.IPPROTO_TCP, option, seconds)


def _keep_alive_options() -> Sequence[tuple[int, int]]:
    names = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
    return [(getattr(socket, name), value) for name, value in names if hasattr(socket, name)]
