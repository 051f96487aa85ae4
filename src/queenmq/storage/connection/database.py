"""Calls to PostgreSQL by priority, over a pool of connections.

No session state is relied on: what a call needs is set inside its function, so every call may run
on any connection of a transaction pooler.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

import asyncpg

from queenmq import errors
from queenmq.clock import now_ms
from queenmq.engine.lifecycle import Health, Service, ServiceGroup
from queenmq.engine.load.pressure import OperationType, SlotUse
from queenmq.engine.news import News
from queenmq.settings import Settings
from queenmq.storage.connection.connecting import Connector, ServerConnection
from queenmq.storage.connection.driver_errors import translate_error
from queenmq.storage.connection.fault_watch import FaultWatch
from queenmq.storage.connection.faults import NO_SLOT, READ_ONLY
from queenmq.storage.connection.outage import OutageWatch
from queenmq.storage.connection.pool import ConnectionPool
from queenmq.storage.connection.primary_watch import PrimaryWatch
from queenmq.storage.sql_files import load_queries

#: A probe whose write takes longer has failed.
_PROBE_S = 2.0
#: Turns of the loop until everything that has arrived is read: one to look, one to run.
_READING_TURNS = 2
_NOTHING = contextlib.nullcontext()


class PoolUse(NamedTuple):
    """Connections there may be, open ones without work, those in use, calls that wait for one."""

    size: int
    idle: int
    in_use: int
    waiting: int


class Database:
    """A pool of connections, and queries by text. Its services watch the server behind them."""

    name = "database"

    def __init__(self, url: str, settings: Settings, news: News | None = None) -> None:
        self._settings = settings
        #: Opens every connection of this process.
        self.connector = Connector(url, timeout_ms=settings.db_connect_timeout_ms)
        self._pool = self._make_pool()
        self._is_open = False
        #: When each call in flight began, and each connection that is being opened.
        self._calls: dict[int, float] = {}
        self._numbers = itertools.count()
        #: Faults: the server answers, but these calls fail.
        self.faults = FaultWatch()
        #: Work left over from the start, to do before the first call.
        self._prepare: Callable[[], Awaitable[None]] | None = None
        #: The last failure of each kind of call that has not succeeded since, and when it was.
        self.failures: dict[OperationType, tuple[float, errors.StorageUnavailable]] = {}
        #: Whether the database is down; calls then fail at once.
        self.watch = OutageWatch(
            self.probe,
            oldest_call_ms=self._oldest_call_ms,
            hang_ms=settings.db_hang_ms,
            news=news or News(),
        )
        watches: list[Service] = [self.watch]
        if self.connector.has_choice:
            watches.append(PrimaryWatch(self.connector))
        self._watches = ServiceGroup("database", watches)

    def slot_use(self) -> SlotUse:
        """Return how busy the connections are, whether open yet or not."""
        pool = self._pool
        return SlotUse(pool.size, pool.in_use, pool.waiting)

    def pool_use(self) -> PoolUse:
        """Return the same, with the open connections."""
        pool = self._pool
        return PoolUse(pool.size, pool.idle, pool.in_use, pool.waiting)

    async def open(self, *, is_lazy: bool = False) -> None:
        """Make ready, and connect unless the first call is to do that. Raises StorageUnavailable
        when the database cannot be reached.
        """
        if not self._is_open:
            self._pool = self._make_pool()
            if not is_lazy:
                connection = await self._pool.take(OperationType.SYSTEM_EVENT)
                self._pool.give_back(connection, is_answered=True)
            self._is_open = True
        await self._watches.start()

    async def start(self) -> None:
        """Make ready. The first call connects."""
        await self.open(is_lazy=True)

    async def stop(self) -> None:
        """Let calls end, then disconnect."""
        await self.close()

    def health(self) -> Health:
        return self._watches.health()

    def await_server(
        self, error: errors.StorageUnavailable, prepare: Callable[[], Awaitable[None]]
    ) -> None:
        """Count the database as down until it is there and `prepare` has succeeded on it."""
        self._prepare = prepare
        self.watch.begin_down(error)

    def _make_pool(self) -> ConnectionPool[ServerConnection]:
        return ConnectionPool(self._connect, _clean, size=self._settings.db_pool_size)

    async def _connect(self) -> ServerConnection:
        # Fail the waiting calls at once, so that they need not find out one by one.
        self._must_be_up()
        settings = self._settings
        number = next(self._numbers)
        self._calls[number] = now_ms()
        try:
            return await self.connector.connect(
                command_timeout=settings.db_command_timeout_ms / 1000,
                statement_cache_size=100 if settings.db_prepared_statements else 0,
            )
        finally:
            del self._calls[number]

    async def close(self) -> None:
        """Let calls end, then disconnect."""
        await self._watches.stop()
        await self.connector.close()
        self._is_open = False
        await self._pool.close()

    async def probe(self) -> None:
        """Raise unless the database can be written to."""
        if self._prepare is not None:
            await self._prepare()
            self._prepare = None
        try:
            await self._probe_anew()
        except errors.AccessRefused as error:
            await self._probe_pooled(error)
        except errors.StorageUnavailable as error:
            if error.reason != NO_SLOT:
                raise
            await self._probe_pooled(error)

    async def _probe_anew(self) -> None:
        """Probe over a new connection, to the host that is the primary now."""
        if self.connector.has_choice:
            await self.connector.find()
        connection = await self.connector.connect(statement_cache_size=0)
        try:
            with translate_error():
                async with asyncio.timeout(_PROBE_S):
                    await connection.execute(load_queries("operations")["probe"])
        finally:
            connection.terminate()

    async def _probe_pooled(self, refusal: errors.StorageUnavailable) -> None:
        """Probe over an open connection. That no other is free says nothing about the database."""
        try:
            async with asyncio.timeout(_PROBE_S):
                connection = await self._pool.take_open()
        except TimeoutError:
            connection = None
        if connection is None:
            raise refusal
        is_answered = False
        try:
            with translate_error():
                await connection.execute(load_queries("operations")["probe"], timeout=_PROBE_S)
            is_answered = True
        finally:
            self._pool.give_back(connection, is_answered=is_answered)

    def cut_off(self) -> None:
        """End the calls in flight, because the database is down and their callers need not wait.

        Idle connections end too, because they may lead to a server that is no longer the primary.
        """
        self.connector.drop_all()

    def _oldest_call_ms(self) -> float:
        return now_ms() - min(self._calls.values()) if self._calls else 0.0

    @asynccontextmanager
    async def _connection(self, priority: OperationType) -> AsyncIterator[ServerConnection]:
        self._must_be_up()
        number = next(self._numbers)
        try:
            connection = self._pool.try_take()
            if connection is None:
                connection = await self._pool.take(priority)
            self._calls[number] = now_ms()
            is_answered = False
            try:
                with translate_error(is_sent=True):
                    try:
                        async with self._held_together(connection):
                            yield connection
                        is_answered = True
                    except asyncpg.PostgresError:
                        # The server is done with the call, and waits for the next one.
                        is_answered = True
                        raise
                if self.failures:
                    self.failures.pop(priority, None)
            finally:
                self._pool.give_back(connection, is_answered=is_answered)
            await self._read_what_arrived()
        except errors.CallTimedOut:
            raise
        except errors.StorageUnavailable as error:
            self.failures[priority] = (now_ms(), error)
            if error.reason == READ_ONLY:
                # The server is no longer the primary, on all of its connections.
                self.connector.drop_all()
            if error.is_suspicious:
                self.watch.suspect()
            if isinstance(error, errors.StorageFault):
                self.faults.note(error)
            raise
        finally:
            self._calls.pop(number, None)

    async def _read_what_arrived(self) -> None:
        if self._pool.in_use:
            # Others are at work. What has arrived meanwhile is read before the next call leaves,
            # and leaves with it: half as many calls of twice the size are less work.
            for _ in range(_READING_TURNS):
                await asyncio.sleep(0)

    def _must_be_up(self) -> None:
        if self.watch.is_down:
            public, reason = "the database is down; try again", "unavailable"
            if isinstance(why := self.watch.error, errors.StorageUnavailable):
                public, reason = why.public, why.reason
            raise errors.StorageUnavailable(
                "the database is down; try again",
                public=public,
                reason=reason,
                is_suspicious=False,
            )

    def _held_together(self, connection: ServerConnection) -> AbstractAsyncContextManager[Any]:
        """Return a transaction where statements are unnamed. The driver then parses and executes in
        two steps, which a transaction pooler may send to two servers otherwise.
        """
        if self._settings.db_prepared_statements:
            return _NOTHING
        return connection.transaction()

    async def time_commit(self) -> float:
        """Return the milliseconds of the smallest call that commits something."""
        query = load_queries("operations")["commit_nothing"]
        async with self._connection(OperationType.SYSTEM_EVENT) as connection:
            began_ms = now_ms()
            await connection.fetchval(query)
            return now_ms() - began_ms

    async def fetch(
        self, query: str, *args: Any, priority: OperationType, timeout_s: float | None = None
    ) -> list[asyncpg.Record]:
        """Return all rows; a timeout replaces that of the settings."""
        async with self._connection(priority) as connection:
            return await connection.fetch(query, *args, timeout=timeout_s)

    async def fetch_within(
        self, query: str, *args: Any, priority: OperationType, limit_ms: int | None
    ) -> list[asyncpg.Record]:
        """Return all rows. Cancels the statement and raises CallTimedOut when it takes longer."""
        if limit_ms is None or limit_ms >= self._settings.db_command_timeout_ms:
            return await self.fetch(query, *args, priority=priority)
        async with self._connection(priority) as connection:
            try:
                return await connection.fetch(query, *args, timeout=limit_ms / 1000)
            except TimeoutError:
                raise errors.CallTimedOut(limit_ms) from None

    async def fetch_row(self, query: str, *args: Any, priority: OperationType) -> asyncpg.Record:
        """Return the one row of a query that always has one."""
        async with self._connection(priority) as connection:
            row = await connection.fetchrow(query, *args)
        assert row is not None, query
        return row

    async def fetch_value(
        self, query: str, *args: Any, priority: OperationType, timeout_s: float | None = None
    ) -> Any:
        """Return the first column of the first row; a timeout replaces that of the settings."""
        async with self._connection(priority) as connection:
            return await connection.fetchval(query, *args, timeout=timeout_s)


async def _clean(connection: ServerConnection) -> None:
    """Make a connection fit for the next call after one that was cut off."""
    # The driver sends nothing before the server has confirmed that it has given the call up.
    await connection.execute(load_queries("admin")["ping"])
    await connection.reset()
