"""Merged calls that wait only briefly for row locks of other sessions.

A call that meets a held row fails as a whole. Then the broker asks once which rows are held,
including those of waiting requests. The requests that need them move to lock queues, and all others
go on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic

from queenmq.clock import now_ms
from queenmq.engine.calls.batcher import Batcher
from queenmq.engine.calls.dispatcher import Dispatcher
from queenmq.engine.calls.gathering import Gathering
from queenmq.engine.calls.in_flight import EndedCall
from queenmq.engine.calls.lock_queues import L, LockQueues, watch_open
from queenmq.engine.calls.meter import CallMeter
from queenmq.engine.calls.pace import CallPace
from queenmq.errors import PartitionBusy, QueenError
from queenmq.metrics.registry import Registry

#: A request whose calls fail this often, although no row of it is found held, also moves:
#: the search only sees row locks.
_DIVERTS_MAX = 2
#: Keys of waiting requests that are checked together with those of the failed call.
_LOOK_MAX = 1_000


class BatchedCalls(Generic[L]):
    """One kind of call, with lock queues for the requests that another session holds up.

    `run` makes one call with this lock wait and answers its requests. It raises PartitionBusy only.
    Requests without an answer then have not been carried out. A request waits `wait_ms` at most.
    `find_busy` returns those of the keys whose row another transaction holds. `run_held` and
    `find_held` are their counterparts for lock queues, for held rows that need not be waited for.
    With a `pace`, the number of calls in flight follows it; `calls_max` is for lock queues then.
    With a `gathering`, small calls wait for more requests.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[list[L], int], Awaitable[None]],
        find_busy: Callable[[Sequence[Any]], Awaitable[set[Any]]],
        *,
        calls_max: int,
        rows_max: int,
        lock_timeout_ms: int,
        run_held: Callable[[list[L], int], Awaitable[None]] | None = None,
        find_held: Callable[[Sequence[Any]], Awaitable[set[Any]]] | None = None,
        wait_ms: int,
        pace: CallPace | None = None,
        gathering: Gathering | None = None,
        registry: Registry | None = None,
    ) -> None:
        self._pace = pace
        self._meter = CallMeter(registry or Registry(), name)
        self._wait_ms = wait_ms
        self._run_entries = run
        self._find_busy = find_busy
        self._lock_timeout_ms = lock_timeout_ms
        self._lock_queues: LockQueues[L] = LockQueues(
            name,
            run_held or run,
            find_held or find_busy,
            calls_max=calls_max,
            rows_max=rows_max,
        )
        self._dispatcher: Dispatcher[L] = Dispatcher(
            name,
            Batcher(calls_max=calls_max, weight_max=rows_max),
            self._run,
            fail_all,
            gathering=gathering,
        )

    @property
    def depth(self) -> int:
        """Return how many requests wait for a call or a held row."""
        return self._dispatcher.depth + self._lock_queues.depth

    @property
    def first(self) -> L | None:
        """Return the request that has waited longest for a call.

        Requests in lock queues wait for other sessions and do not count.
        """
        return self._dispatcher.first

    def add(self, entry: L) -> None:
        """Queue a request. Requests for one key are sent in this order."""
        if not self._lock_queues.join(entry):
            self._dispatcher.add(entry)

    def put_back(self, entries: Iterable[L]) -> None:
        """Retry these requests before all others."""
        self._dispatcher.put_back(entries)

    def take_waiting(self) -> list[L]:
        """Remove and return all requests that wait for a call."""
        return self._dispatcher.take_waiting()

    async def drain(self) -> None:
        """Wait until every request has its answer."""
        while True:
            await self._dispatcher.drain()
            await self._lock_queues.drain()
            # A request of a lock queue that got new partitions is back with the dispatcher.
            if not self._dispatcher.outstanding:
                return

    async def _run(self, batch: list[L]) -> None:
        entries = [entry for entry in batch if not self._lock_queues.join(entry)]
        if not entries:
            return
        left = watch_open(entries)
        rows = sum(entry.weight for entry in entries)
        began_ms = now_ms()
        self._meter.note_wait(began_ms - (entries[0].deadline_ms - self._wait_ms))
        self._meter.note_rows(rows)
        try:
            await self._run_entries(entries, self._lock_timeout_ms)
        except PartitionBusy:
            await self._divert(left())
        took_ms = now_ms() - began_ms
        self._meter.note(len(entries), took_ms)
        if self._pace is not None:
            call = EndedCall(took_ms, len(entries), rows)
            self._pace.note(call, outstanding=self._dispatcher.outstanding)
            self._dispatcher.set_calls_max(self._pace.limit)

    async def _divert(self, entries: list[L]) -> None:
        """Move the requests of held rows to lock queues.

        All others go again, ahead of later ones.
        """
        try:
            keys = self._dispatcher.waiting_keys(keys_max=_LOOK_MAX)
            keys |= {key for entry in entries for key in entry.keys}
            busy = await self._find_busy(sorted(keys))
        except QueenError as error:
            fail_all(entries, error)
            return
        free = []
        for entry in entries:
            held = entry.keys & busy
            if not held:
                entry.diverts += 1
                # It was alone in its call, so its row must be the held one.
                if len(entries) > 1 and entry.diverts < _DIVERTS_MAX:
                    free.append(entry)
                    continue
            self._lock_queues.open(min(held or entry.keys), entry)
        self._dispatcher.put_back([*free, *self._divert_waiting(busy)])

    def _divert_waiting(self, busy: set[Any]) -> list[L]:
        """Move waiting requests of held rows to lock queues. Return the others, in order."""
        free = []
        for entry in self._dispatcher.take_waiting():
            if held := entry.keys & busy:
                self._lock_queues.open(min(held), entry)
            else:
                free.append(entry)
        return free


def fail_all(entries: Iterable[L], error: QueenError) -> None:
    """Answer all of these with the error."""
    for entry in entries:
        entry.fail(error)
