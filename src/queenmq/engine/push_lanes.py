"""Lanes for pushes to partitions that a transaction elsewhere holds.

A held partition would stop every push that shares a call with it. Instead its requests wait here,
in order, and try again with a longer lock wait on a few connections, until the partition is free or
a request's deadline has passed. Requests that arrive meanwhile join the lane, so nothing overtakes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.errors import PartitionBusy

if TYPE_CHECKING:
    from queenmq.engine.push_entry import PushEntry

#: Longest and shortest lock wait of one try; the more lanes share the connections, the shorter.
_TRY_MS_MAX = 1_000
_TRY_MS_MIN = 50


def next_try_ms(*, lanes: int, calls_max: int, left_ms: float, is_shared: bool) -> int:
    """How long the next try of a lane may wait for the lock.

    A try that also locks partitions of other lanes is short, because it holds those while it waits.
    """
    if is_shared:
        return _TRY_MS_MIN
    fair_ms = _TRY_MS_MAX * calls_max / max(lanes, 1)
    return int(max(_TRY_MS_MIN, min(_TRY_MS_MAX, fair_ms, left_ms)))


class PushLanes:
    """All lanes of a broker."""

    def __init__(
        self,
        store_entries: Callable[[list[PushEntry], int], Awaitable[None]],
        *,
        calls_max: int,
        rows_max: int,
    ) -> None:
        self._store_entries = store_entries
        self._calls_max = calls_max
        self._rows_max = rows_max
        self._slots = asyncio.Semaphore(calls_max)
        self._lanes: dict[UUID, deque[PushEntry]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def depth(self) -> int:
        """How many requests wait in all lanes."""
        return sum(map(len, self._lanes.values())) if self._lanes else 0

    def join(self, entry: PushEntry) -> bool:
        """Put the request into the lane of one of its partitions, if there is one."""
        if not self._lanes:
            return False
        for key in entry.keys:
            if (lane := self._lanes.get(key)) is not None:
                lane.append(entry)
                return True
        return False

    def open(self, key: UUID, entry: PushEntry) -> None:
        """Put the request into the lane of this partition, made if it is not there yet."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = deque()
            task = asyncio.create_task(self._run(key, lane), name="push-lane")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        lane.append(entry)

    async def drain(self) -> None:
        """Wait until every lane has closed."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, key: UUID, lane: deque[PushEntry]) -> None:
        try:
            while lane:
                async with self._slots:
                    batch = self._take(key, lane)
                    if batch:
                        await self._try(lane, batch)
        finally:
            del self._lanes[key]

    def _take(self, key: UUID, lane: deque[PushEntry]) -> list[PushEntry]:
        """The next requests of the lane that touch nothing else, or the next one alone."""
        batch: list[PushEntry] = []
        rows = 0
        while lane:
            entry = lane[0]
            if entry.deadline_ms <= now_ms():
                lane.popleft()
                entry.fail(_still_held(entry, key))
                continue
            is_shared = len(entry.keys) > 1
            if batch and (is_shared or rows + entry.weight > self._rows_max):
                break
            batch.append(lane.popleft())
            rows += entry.weight
            if is_shared:
                break
        return batch

    async def _try(self, lane: deque[PushEntry], batch: list[PushEntry]) -> None:
        wait_ms = next_try_ms(
            lanes=len(self._lanes),
            calls_max=self._calls_max,
            left_ms=batch[0].deadline_ms - now_ms(),
            is_shared=len(batch[0].keys) > 1,
        )
        try:
            await self._store_entries(batch, wait_ms)
        except PartitionBusy:
            lane.extendleft(entry for entry in reversed(batch) if not entry.future.done())


def _still_held(entry: PushEntry, key: UUID) -> PartitionBusy:
    held = next(ref.key for ref in entry.refs if ref.partition_id == key)
    return PartitionBusy(
        f"partition {held.partition!r} of queue {held.queue!r} is held by another transaction;"
        " nothing was stored, try again"
    )
