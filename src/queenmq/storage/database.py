"""Connections to PostgreSQL. Few others import the driver: listener, migrator, lookup care.

No session state is relied on: what a call needs is set inside its function, so every call may run
on any connection of a transaction pooler.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

import asyncpg

from queenmq import errors
from queenmq.clock import now_ms
from queenmq.engine.load import OperationType, SlotUse
from queenmq.settings import Settings
from queenmq.storage.driver_errors import translated
from queenmq.storage.fault_watch import FaultWatch
from queenmq.storage.outage import OutageWatch
from queenmq.storage.priority_gate import PriorityGate
from queenmq.storage.sql_files import load_queries

#: A probe that takes longer has failed.
_PROBE_S = 2.0
#: A call that was given up is waited for this long before its connection goes with it.
_RELEASE_S = 2.0
#: Turns of the loop until everything that has arrived is read: one to look, one to run.
_READING_TURNS = 2
_NOTHING = contextlib.nullcontext()


class _Connection(asyncpg.Connection):
    """A connection that is handed on as it is: no call leaves session state behind to reset."""

    def get_reset_query(self) -> str:
        return ""


class PoolUse(NamedTuple):
    """Connections there may be, open ones without work, those in use, calls that wait for one."""

    size: int
    idle: int
    in_use: int
    waiting: int


class Database:
    """A pool of connections, and queries by text."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._url = url
        self._settings = settings
        self._pool: asyncpg.Pool | None = None
        # As many permits as connections, so nobody waits in the driver, which knows no urgency.
        self._gate = PriorityGate(settings.db_pool_size)
        #: When each call in flight began.
        self._calls: dict[int, float] = {}
        self._numbers = itertools.count()
        #: The connections that calls are on.
        self._busy: dict[int, asyncpg.pool.PoolConnectionProxy] = {}
        #: Those between two calls. The driver's pool takes a task and several turns of the loop to
        #: have one back, so it gets only those whose call has failed.
        self._at_hand: list[asyncpg.pool.PoolConnectionProxy] = []
        #: What it answers but cannot do.
        self.faults = FaultWatch()
        #: Whether the database is down; calls then fail at once.
        self.watch = OutageWatch(
            self.probe, oldest_call_ms=self._oldest_call_ms, hang_ms=settings.db_hang_ms
        )

    def slot_use(self) -> SlotUse:
        """How busy the connections are, whether open yet or not."""
        gate = self._gate
        return SlotUse(gate.slots, gate.in_use, gate.waiting)

    def pool_use(self) -> PoolUse:
        """The same, with what the driver knows."""
        size, in_use, waiting = self.slot_use()
        idle = self._pool.get_idle_size() if self._pool is not None else 0
        return PoolUse(size, idle + len(self._at_hand), in_use, waiting)

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
        self.watch.start()

    async def close(self) -> None:
        """Let calls end, then disconnect."""
        await self.watch.stop()
        if self._pool is not None:
            try:
                async with asyncio.timeout(5):
                    while self._at_hand:
                        await self._pool.release(self._at_hand.pop())
                    await self._pool.close()
            except TimeoutError:
                self._pool.terminate()

    async def probe(self) -> None:
        """Raise unless the database can be written to, over a new connection."""
        with translated():
            async with asyncio.timeout(_PROBE_S):
                connection = await asyncpg.connect(self._url, statement_cache_size=0)
                try:
                    await connection.execute(load_queries("operations")["probe"])
                finally:
                    connection.terminate()

    def cut_off(self) -> None:
        """The database is down: end the calls in flight, whose callers can do better than wait."""
        for connection in list(self._busy.values()):
            connection.terminate()

    def _oldest_call_ms(self) -> float:
        return now_ms() - min(self._calls.values()) if self._calls else 0.0

    @asynccontextmanager
    async def _connection(
        self, priority: OperationType
    ) -> AsyncIterator[asyncpg.pool.PoolConnectionProxy]:
        assert self._pool is not None, "the database is not open"
        self._must_be_up()
        if not self._gate.try_enter():
            await self._gate.enter(priority.priority)
        number = next(self._numbers)
        self._calls[number] = now_ms()
        try:
            # Again, because it may have gone while we waited.
            self._must_be_up()
            connection = await self._take(self._pool)
            self._busy[number] = connection
            is_well = False
            try:
                with translated(is_sent=True):
                    async with self._held_together(connection):
                        yield connection
                is_well = True
            finally:
                del self._busy[number]
                await self._put(self._pool, connection, is_well=is_well)
        except errors.StorageUnavailable as error:
            if error.is_suspicious:
                self.watch.suspect()
            if isinstance(error, errors.StorageFault):
                self.faults.note(error)
            raise
        finally:
            del self._calls[number]
            self._gate.leave()

    async def _take(self, pool: asyncpg.Pool) -> asyncpg.pool.PoolConnectionProxy:
        while self._at_hand:
            connection = self._at_hand.pop()
            if _is_open(connection):
                return connection
            await pool.release(connection)
        with translated():
            return await pool.acquire()

    async def _put(
        self, pool: asyncpg.Pool, connection: asyncpg.pool.PoolConnectionProxy, *, is_well: bool
    ) -> None:
        if not is_well:
            # A server that hangs does not even confirm that a call is cancelled.
            with contextlib.suppress(TimeoutError):
                await pool.release(connection, timeout=_RELEASE_S)
            return
        self._at_hand.append(connection)
        if self._gate.in_use > 1:
            # Others are at work. What has arrived meanwhile is read before the next call leaves,
            # and leaves with it: half as many calls of twice the size are less work.
            for _ in range(_READING_TURNS):
                await asyncio.sleep(0)

    def _must_be_up(self) -> None:
        if self.watch.is_down:
            raise errors.StorageUnavailable("the database is down; try again", is_suspicious=False)

    def _held_together(
        self, connection: asyncpg.pool.PoolConnectionProxy
    ) -> AbstractAsyncContextManager[Any]:
        """Without named statements the driver parses and executes in two steps, which a transaction
        pooler may send to two servers unless a transaction holds them together.
        """
        if self._settings.db_prepared_statements:
            return _NOTHING
        return connection.transaction()

    async def fetch(
        self, query: str, *args: Any, priority: OperationType, timeout_s: float | None = None
    ) -> list[asyncpg.Record]:
        """All rows; a timeout replaces that of the settings."""
        async with self._connection(priority) as connection:
            return await connection.fetch(query, *args, timeout=timeout_s)

    async def fetch_row(self, query: str, *args: Any, priority: OperationType) -> asyncpg.Record:
        """The one row of a query that always has one."""
        async with self._connection(priority) as connection:
            row = await connection.fetchrow(query, *args)
        assert row is not None, query
        return row

    async def fetch_value(
        self, query: str, *args: Any, priority: OperationType, timeout_s: float | None = None
    ) -> Any:
        """The first column of the first row; a timeout replaces that of the settings."""
        async with self._connection(priority) as connection:
            return await connection.fetchval(query, *args, timeout=timeout_s)


def _is_open(connection: asyncpg.pool.PoolConnectionProxy) -> bool:
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:
        # It was lost, and the driver has taken it back already.
        return False


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
