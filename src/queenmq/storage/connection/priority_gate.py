"""Gives the next database connection to the most urgent call. No call waits for ever.

A waiting call gains one level of urgency a second. All gain at the same pace, so their order never
changes while they wait, and a heap keeps it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

from queenmq.clock import now_ms

#: Waiting this long is worth one level.
_LEVEL_MS = 1_000


class PriorityGate:
    """A number of permits. The lowest priority number goes first, within one first come."""

    def __init__(self, slots: int, *, clock: Callable[[], float] = now_ms) -> None:
        self._slots = slots
        self._clock = clock
        self._in_use = 0
        self._numbers = itertools.count()
        self._heap: list[tuple[float, int, asyncio.Future[None]]] = []

    @property
    def slots(self) -> int:
        return self._slots

    @property
    def in_use(self) -> int:
        return self._in_use

    @property
    def waiting(self) -> int:
        return len(self._heap)

    def try_enter(self) -> bool:
        """Take a permit if one is free. Then no call waits, because permits that come free are
        handed on.
        """
        if self._in_use >= self._slots:
            return False
        self._in_use += 1
        return True

    async def enter(self, priority: int) -> None:
        """Take a permit, waiting for it if need be. Each needs one `leave`."""
        if self.try_enter():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (self._clock() + priority * _LEVEL_MS, next(self._numbers), future)
        heapq.heappush(self._heap, place)
        try:
            await future
        except BaseException:
            if future.done() and not future.cancelled():
                # The permit came together with the cancellation.
                self.leave()
            elif place in self._heap:
                self._heap.remove(place)
                heapq.heapify(self._heap)
            raise

    def leave(self) -> None:
        """Give a permit back: to the one who goes first, or to the free ones."""
        while self._heap:
            _, _, future = heapq.heappop(self._heap)
            if not future.done():
                future.set_result(None)
                return
        self._in_use -= 1
