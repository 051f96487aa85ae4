"""Schedules the polls of pools that nothing has woken. Pure: times come in as arguments.

A pool is polled at growing intervals. Its times are rounded down to a common grid of at most half
the interval, so that pools with the same interval share one query. While notifications arrive,
polls only cover lost ones, so the intervals are longer.
"""

from __future__ import annotations

import heapq
import itertools
import math

from queenmq.engine.pop.board.pool import Pool

_numbers = itertools.count()

#: When a look-up that took too long is tried again: first, and at most.
_RETRY_MS = 100.0
_RETRY_MOST_MS = 1_000.0


class PollSchedule:
    """The pools to poll, by time."""

    def __init__(
        self, *, min_interval_ms: float, max_interval_ms: float, listening_interval_ms: float
    ) -> None:
        self._min_ms = min_interval_ms
        self._max_ms = max_interval_ms
        self._listening_ms = max(listening_interval_ms, max_interval_ms)
        #: Whether notifications from other brokers arrive.
        self.is_listening = False
        self._heap: list[tuple[float, int, Pool]] = []

    def back_off(self, pool: Pool) -> None:
        """Poll later, because a look-up found nothing to try."""
        max_ms = self._listening_ms if self.is_listening else self._max_ms
        pool.poll_ms = min(max(2 * pool.poll_ms, self._min_ms), max_ms)

    def reset(self, pool: Pool) -> None:
        """Poll soon again, because there is news."""
        pool.poll_ms = self._min_ms

    def delay(self, pool: Pool, now_ms: float) -> None:
        """Look the pool up again later and not before, because its last look-up took too long."""
        pool.is_backing_off = True
        pool.poll_at_ms = now_ms + min(_RETRY_MS * 2 ** (pool.slowness - 1), _RETRY_MOST_MS)
        heapq.heappush(self._heap, (pool.poll_at_ms, next(_numbers), pool))

    def add(self, pool: Pool, now_ms: float, *, is_busy: bool = False) -> None:
        """Poll the pool after its interval, or when the first of its partitions is due.

        A busy pool has work and is polled only for what no event announces.
        """
        if pool.is_backing_off:
            return
        interval_ms = self._max_ms if is_busy else max(pool.poll_ms, self._min_ms)
        at_ms = _on_grid(now_ms + interval_ms, max(self._min_ms, interval_ms / 2), now_ms)
        if pool.due_at_ms is not None:
            at_ms = min(at_ms, max(pool.due_at_ms, now_ms + 1))
        if pool.poll_at_ms is None or at_ms < pool.poll_at_ms:
            pool.poll_at_ms = at_ms
            heapq.heappush(self._heap, (at_ms, next(_numbers), pool))

    def next_at_ms(self) -> float | None:
        """Return the time of the next poll."""
        while self._heap and self._heap[0][2].poll_at_ms != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: float) -> list[Pool]:
        """Return the pools that are due, earliest first."""
        due = []
        while (at_ms := self.next_at_ms()) is not None and at_ms <= now_ms:
            pool = heapq.heappop(self._heap)[2]
            pool.poll_at_ms = None
            pool.is_backing_off = False
            if pool.due_at_ms is not None and pool.due_at_ms <= now_ms:
                pool.due_at_ms = None
                pool.is_urgent = True
            due.append(pool)
        return due


def _on_grid(at_ms: float, width_ms: float, now_ms: float) -> float:
    """Return the last point of the grid up to this time, or the next if that is over."""
    point = math.floor(at_ms / width_ms) * width_ms
    return point if point > now_ms else point + width_ms
