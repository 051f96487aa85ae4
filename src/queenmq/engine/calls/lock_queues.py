"""Queues for requests whose rows another transaction holds, one queue per row.

A held row would stop every request that shares a call with it. Instead its requests wait here, in
order. They retry with a longer lock wait on a few connections, until the row is free or their
deadline has passed. Requests that arrive meanwhile join the queue, so no request overtakes another.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from queenmq.clock import now_ms
from queenmq.engine.calls.batcher import Entry
from queenmq.errors import PartitionBusy, QueenError, found_defect

logger = logging.getLogger(__name__)

#: Longest and shortest lock wait of one try; the more queues share the connections, the shorter.
_TRY_MS_MAX = 1_000
_TRY_MS_MIN = 50


class LockWaiter(Entry, Protocol):
    """A request that can wait for a held row."""

    #: How often a call with it failed while no row was found held.
    diverts: int
    #: How often it got new partitions and was put back; see BatchedCalls.put_back.
    attempts: int

    @property
    def keys(self) -> set[Any]: ...

    @property
    def deadline_ms(self) -> float: ...

    @property
    def future(self) -> asyncio.Future[Any]: ...

    def fail(self, error: QueenError) -> None: ...

    def still_held(self, key: Any) -> PartitionBusy:
        """Return the error for a request that waited for this key until its deadline."""


L = TypeVar("L", bound=LockWaiter)


def next_try_ms(*, queues: int, calls_max: int, left_ms: float, is_shared: bool) -> int:
    """Return how long the next try of a queue may wait for the lock.

    A try that also locks rows of other queues is short, because it holds those while it waits.
    """
    if is_shared:
        return _TRY_MS_MIN
    fair_ms = _TRY_MS_MAX * calls_max / max(queues, 1)
    return int(max(_TRY_MS_MIN, min(_TRY_MS_MAX, fair_ms, left_ms)))


def watch_open(batch: Sequence[L]) -> Callable[[], list[L]]:
    """Return a function that lists the requests not answered and not put back since."""
    attempts = [entry.attempts for entry in batch]

    def still_open() -> list[L]:
        pairs = zip(batch, attempts, strict=True)
        return [one for one, was in pairs if not one.future.done() and one.attempts == was]

    return still_open


class LockQueues(Generic[L]):
    """The lock queues of one kind of call: one queue per held key."""

    def __init__(
        self,
        name: str,
        run: Callable[[list[L], int], Awaitable[None]],
        find_busy: Callable[[Sequence[Any]], Awaitable[set[Any]]],
        *,
        calls_max: int,
        rows_max: int,
    ) -> None:
        self._name = name
        self._run_entries = run
        self._find_busy = find_busy
        self._calls_max = calls_max
        self._rows_max = rows_max
        self._slots = asyncio.Semaphore(calls_max)
        self._queues: dict[Any, deque[L]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def depth(self) -> int:
        """Return how many requests wait in all queues."""
        return sum(map(len, self._queues.values())) if self._queues else 0

    def join(self, entry: L) -> bool:
        """Put the request into the queue of one of its keys, if there is one."""
        if not self._queues:
            return False
        for key in entry.keys:
            if (waiters := self._queues.get(key)) is not None:
                waiters.append(entry)
                return True
        return False

    def open(self, key: Any, entry: L) -> None:
        """Put the request into the queue of this key. Create the queue if needed."""
        waiters = self._queues.get(key)
        if waiters is None:
            waiters = self._queues[key] = deque()
            task = asyncio.create_task(self._run(key, waiters), name=f"{self._name}-lock-queue")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        waiters.append(entry)

    async def drain(self) -> None:
        """Wait until every queue is empty."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, key: Any, waiters: deque[L]) -> None:
        try:
            while waiters:
                async with self._slots:
                    batch = self._take(key, waiters)
                    if batch:
                        await self._try(key, waiters, batch)
        finally:
            del self._queues[key]

    def _take(self, key: Any, waiters: deque[L]) -> list[L]:
        """Return the next requests that touch nothing else, or the next one alone."""
        batch: list[L] = []
        rows = 0
        while waiters:
            entry = waiters[0]
            if entry.deadline_ms <= now_ms():
                waiters.popleft()
                entry.fail(entry.still_held(key))
                continue
            is_shared = len(entry.keys) > 1
            if batch and (is_shared or rows + entry.weight > self._rows_max):
                break
            batch.append(waiters.popleft())
            rows += entry.weight
            if is_shared:
                break
        return batch

    async def _try(self, key: Any, waiters: deque[L], batch: list[L]) -> None:
        is_shared = len(batch[0].keys) > 1
        wait_ms = next_try_ms(
            queues=len(self._queues),
            calls_max=self._calls_max,
            left_ms=batch[0].deadline_ms - now_ms(),
            is_shared=is_shared,
        )
        still_open = watch_open(batch)
        try:
            if is_shared and await self._is_busy(key):
                await asyncio.sleep(wait_ms / 1000)
            else:
                await self._run_entries(batch, wait_ms)
        except PartitionBusy:
            pass
        except QueenError as error:
            for entry in batch:
                entry.fail(error)
        except Exception as error:
            # A bug. The requests behind these still get their turn.
            logger.exception(
                "A %s call failed unexpectedly.", self._name, extra={"event": "call_broke"}
            )
            defect = found_defect(f"a {self._name} call", error, is_in_doubt=True)
            for entry in still_open():
                entry.fail(defect)
        waiters.extendleft(reversed(still_open()))

    async def _is_busy(self, key: Any) -> bool:
        """Return whether a try would hold the other rows of its request while it waits for this
        one.
        """
        return key in await self._find_busy([key])
