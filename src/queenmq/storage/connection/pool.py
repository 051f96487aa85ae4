"""The connections of a broker process: the next one goes to the most urgent call.

A *slot* is the right to one connection, and there are as many as the pool may have connections. A
call without a slot waits. It gains one level of urgency a second. All gain at the same pace, so
their order never changes while they wait, and a heap keeps it. No call waits for ever.

A call that ends hands its slot to the next one, together with the connection. If that was lost, the
next call opens one of its own. A server without a free connection slot makes the pool smaller for a
while: calls then share the connections that are open.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from queenmq.clock import now_ms
from queenmq.errors import StorageUnavailable
from queenmq.storage.connection.faults import NO_SLOT

#: Waiting this long is worth one level.
_LEVEL_MS = 1_000
#: The rank before all calls.
_FIRST = float("-inf")
#: A server gets this long to confirm that it has given a call up. Then the connection goes.
_MEND_S = 2.0
#: How long a close waits for calls and for the server.
_CLOSE_S = 5.0


class Pooled(Protocol):
    """The part of a connection that the pool uses."""

    def is_closed(self) -> bool: ...

    def is_in_transaction(self) -> bool: ...

    def terminate(self) -> None: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=Pooled)


class ConnectionPool(Generic[C]):
    """Connections that `connect` opens. Belongs to one event loop.

    `clean` makes a connection fit for the next call after one that was cut off, or raises.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[C]],
        clean: Callable[[C], Awaitable[None]],
        *,
        size: int,
        clock: Callable[[], float] = now_ms,
    ) -> None:
        self._connect = connect
        self._clean = clean
        self._clock = clock
        self.size = size
        #: Slots that are taken: by calls, and by connections that are mended.
        self.in_use = 0
        self._open: set[C] = set()
        #: Open connections without a slot. The one that was used last is used next.
        self._idle: list[C] = []
        self._numbers = itertools.count()
        self._heap: list[tuple[float, int, asyncio.Future[C | None]]] = []
        self._menders: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._has_ended = asyncio.Event()

    @property
    def idle(self) -> int:
        """Return how many open connections have no call."""
        return len(self._idle)

    @property
    def waiting(self) -> int:
        """Return how many calls wait for a slot."""
        return len(self._heap)

    # What calls use. Each connection that is taken needs one `give_back`.

    def try_take(self) -> C | None:
        """Return an open connection if one is free. Then no call waits, because connections that
        come free are handed on.
        """
        while self._idle and not self._is_closed:
            connection = self._idle.pop()
            if not connection.is_closed():
                self.in_use += 1
                return connection
            self._drop(connection)
        return None

    async def take(self, priority: int) -> C:
        """Return a connection for a call: the lowest priority number first, within one first come.

        Raises StorageUnavailable if none can be opened.
        """
        if (connection := self.try_take()) is not None:
            return connection
        self._must_be_open()
        rank = self._clock() + priority * _LEVEL_MS
        if self.in_use < self.size:
            self.in_use += 1
        else:
            connection = await self._wait(rank)
        while connection is None:
            opened = await self._open_one()
            connection = opened if opened is not None else await self._wait(rank)
        return connection

    async def take_open(self) -> C | None:
        """Return a connection that is open already, before all calls that wait. Waits for one while
        calls are on some. None when a call ended without leaving one.
        """
        if (connection := self.try_take()) is not None:
            return connection
        if not self.in_use or self._is_closed:
            return None
        connection = await self._wait(_FIRST)
        if connection is None:
            self._hand_on(None)
        return connection

    def give_back(self, connection: C, *, is_answered: bool) -> None:
        """Take a connection back from a call, and hand it to the next one.

        Without `is_answered` the server may be at work on the call still, so that the connection
        has to be mended before the next call may use it.
        """
        if connection.is_closed():
            self._drop(connection)
            self._hand_on(None)
        elif is_answered and not connection.is_in_transaction():
            self._hand_on(connection)
        else:
            task = asyncio.create_task(self._mend(connection), name="mend-connection")
            self._menders.add(task)
            task.add_done_callback(self._menders.discard)

    async def close(self) -> None:
        """Let calls end, then disconnect, within a bound. Calls that wait fail."""
        self._is_closed = True
        for _, _, turn in self._heap:
            if not turn.done():
                turn.set_exception(_make_closed())
        self._heap.clear()
        try:
            async with asyncio.timeout(_CLOSE_S):
                while self.in_use:
                    self._has_ended.clear()
                    await self._has_ended.wait()
                ending = [connection.close() for connection in self._idle]
                await asyncio.gather(*ending, return_exceptions=True)
        except TimeoutError:
            pass
        finally:
            # Also when the caller has no more time.
            self._idle.clear()
            for connection in list(self._open):
                self._drop(connection)

    # Inside.

    def _must_be_open(self) -> None:
        if self._is_closed:
            raise _make_closed()

    async def _open_one(self) -> C | None:
        """Open a connection for a slot. Returns None if the server has no room and the slot was
        given up, to wait for a connection of another call.
        """
        try:
            self._must_be_open()
            connection = await self._connect()
            if self._is_closed:
                connection.terminate()
                raise _make_closed()
        except BaseException as error:
            if isinstance(error, StorageUnavailable) and error.reason == NO_SLOT:
                self.in_use -= 1
                if (idle := self.try_take()) is not None:
                    return idle
                if self.in_use:
                    return None
                self.in_use += 1
            # Pass the slot on, so that the next call can try to connect.
            self._hand_on(None)
            raise
        self._open.add(connection)
        if self._heap and self.in_use < self.size:
            # There is room again for slots that were given up.
            self.in_use += 1
            self._hand_on(None)
        return connection

    async def _wait(self, rank: float) -> C | None:
        """Return with a slot, and with the connection of the call that had it if that is open."""
        turn: asyncio.Future[C | None] = asyncio.get_running_loop().create_future()
        place = (rank, next(self._numbers), turn)
        heapq.heappush(self._heap, place)
        try:
            connection = await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # The slot came together with the cancellation.
                self._hand_on(turn.result())
            elif place in self._heap:
                self._heap.remove(place)
                heapq.heapify(self._heap)
            raise
        if connection is not None and connection.is_closed():
            # It was lost between the two calls.
            self._drop(connection)
            return None
        return connection

    def _hand_on(self, connection: C | None) -> None:
        """Give a slot to the call that goes first, or to the free ones."""
        while self._heap:
            _, _, turn = heapq.heappop(self._heap)
            if not turn.done():
                turn.set_result(connection)
                return
        if connection is not None:
            self._idle.append(connection)
        self.in_use -= 1
        self._has_ended.set()

    async def _mend(self, connection: C) -> None:
        """Hand a connection on once the server has given its call up, or end it."""
        is_mended = False
        try:
            async with asyncio.timeout(_MEND_S):
                await self._clean(connection)
            is_mended = not connection.is_closed()
        except Exception:  # noqa: S110 - the call that was cut off has reported what is wrong
            pass
        finally:
            if not is_mended:
                self._drop(connection)
            self._hand_on(connection if is_mended else None)

    def _drop(self, connection: C) -> None:
        self._open.discard(connection)
        connection.terminate()


def _make_closed() -> StorageUnavailable:
    text = "the broker has disconnected from the database; try again"
    return StorageUnavailable(text, public=text, is_suspicious=False)
