"""Hands the open connections of the driver's pool from call to call.

The driver's pool takes a task and several turns of the loop to have a connection back, so it gets
only those whose call has failed. It also knows no server that has no connection slot left: calls
then share the connections that are open.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from queenmq.errors import StorageUnavailable
from queenmq.storage.connection.driver_errors import translate_error
from queenmq.storage.connection.faults import NO_SLOT

#: A call that was given up is waited for this long before its connection goes with it.
_RELEASE_S = 2.0


class ConnectionStock:
    """The connections of one pool. Belongs to one event loop."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        #: Those between two calls.
        self._at_hand: list[PoolConnectionProxy] = []
        #: How many connections calls are on.
        self._held = 0
        #: Calls that found no slot on the server and wait for a connection of another call.
        self._waiting: deque[asyncio.Future[PoolConnectionProxy | None]] = deque()

    @property
    def idle(self) -> int:
        """Open connections without a call."""
        return self._pool.get_idle_size() + len(self._at_hand)

    async def take(self) -> PoolConnectionProxy:
        """Return a connection for a call, opened if need be. Raises StorageUnavailable."""
        if (connection := await self._pop_at_hand()) is not None:
            self._held += 1
            return connection
        while True:
            try:
                return await self._acquire()
            except StorageUnavailable as error:
                if error.reason != NO_SLOT:
                    raise
                if (opened := await self.take_open()) is not None:
                    return opened
                if not self._held:
                    # No holder is left to hand one on to the next waiter.
                    self._hand_on(None)
                    raise

    async def take_open(self) -> PoolConnectionProxy | None:
        """Return a connection that is open already. Waits for one while calls are on some, or None
        when a call ended without leaving one.
        """
        if (connection := await self._pop_at_hand()) is not None:
            self._held += 1
            return connection
        if self._pool.get_idle_size():
            # The driver prefers those that are open, but others may be quicker.
            with contextlib.suppress(StorageUnavailable):
                return await self._acquire()
        if not self._held:
            return None
        turn: asyncio.Future[PoolConnectionProxy | None]
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            connection = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and (late := turn.result()) is not None:
                self._keep(late)
            raise
        if connection is not None:
            self._held += 1
        return connection

    async def _acquire(self) -> PoolConnectionProxy:
        # Counted before it is there: others may wait for it.
        self._held += 1
        try:
            with translate_error():
                return await self._pool.acquire()
        except BaseException:
            self._held -= 1
            raise

    async def put(self, connection: PoolConnectionProxy, *, is_well: bool) -> None:
        """Take a connection back from a call."""
        self._held -= 1
        if is_well:
            self._keep(connection)
            return
        # A server that hangs does not even confirm that a call is cancelled.
        with contextlib.suppress(TimeoutError):
            await self._pool.release(connection, timeout=_RELEASE_S)
        self._hand_on(None)

    async def close(self) -> None:
        """Let calls end, then disconnect."""
        try:
            async with asyncio.timeout(5):
                while self._at_hand:
                    await self._pool.release(self._at_hand.pop())
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    def _keep(self, connection: PoolConnectionProxy) -> None:
        if not self._hand_on(connection):
            self._at_hand.append(connection)

    def _hand_on(self, connection: PoolConnectionProxy | None) -> bool:
        """Give a connection, or the chance to open one, to a call that waits; whether one did."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return True
        return False

    async def _pop_at_hand(self) -> PoolConnectionProxy | None:
        while self._at_hand:
            connection = self._at_hand.pop()
            if _is_open(connection):
                return connection
            await self._pool.release(connection)
        return None


def _is_open(connection: PoolConnectionProxy) -> bool:
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:
        # It was lost, and the driver has taken it back already.
        return False
