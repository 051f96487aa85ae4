"""Keeps the state of each query below a bound.

The sizes are estimates: the last sizes read from the database plus the changes of this process
since. Several brokers together may exceed the bound by what they write between two reads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.errors import TransactionRefused

#: Milliseconds between two reads for one query, at least, and as a multiple of a read's time.
_MEASURE_MS = 5_000.0
_LOOK_SHARE = 50
#: Queries that are remembered.
_QUERIES_MAX = 10_000

Measure = Callable[[Sequence[UUID]], Awaitable[dict[UUID, int]]]


class StateBudget:
    """Bounds the state of queries."""

    def __init__(self, measure: Measure, *, bytes_max: int) -> None:
        self._measure = measure
        self._bytes_max = bytes_max
        self._bytes: dict[UUID, int] = {}
        #: When to read the size again.
        self._due: dict[UUID, float] = {}

    async def check(self, query_id: UUID) -> None:
        """Raise TransactionRefused if the query has more state than it may."""
        if now_ms() >= self._due.get(query_id, 0.0):
            await self._measure_state(query_id)
        if (size := self._bytes.get(query_id, 0)) > self._bytes_max:
            raise TransactionRefused(
                f"The state of the query has {size} bytes, more than stream_state_bytes_max"
                f" ({self._bytes_max}); remove keys, use shorter windows, or raise the setting"
            )

    def grew(self, query_id: UUID, delta: int) -> None:
        """Record how many bytes a committed cycle has added to the state."""
        if query_id in self._bytes:
            self._bytes[query_id] += delta

    async def _measure_state(self, query_id: UUID) -> None:
        started = now_ms()
        # Other cycles use the old estimate meanwhile.
        self._due[query_id] = started + _MEASURE_MS
        try:
            found = await self._measure([query_id])
        except BaseException:
            self._due.pop(query_id, None)
            raise
        if len(self._bytes) >= _QUERIES_MAX:
            self._bytes.clear()
            self._due.clear()
        self._bytes[query_id] = found.get(query_id, 0)
        took = now_ms() - started
        self._due[query_id] = now_ms() + max(_MEASURE_MS, took * _LOOK_SHARE)
