"""Drives a batcher: makes the calls, keeps the slots busy and drains on a stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic

from queenmq.clock import now_ms
from queenmq.engine.calls.batcher import Batcher, E
from queenmq.engine.calls.gathering import ENOUGH, Gathering
from queenmq.errors import QueenError, found_defect

logger = logging.getLogger(__name__)


class Dispatcher(Generic[E]):
    """One kind of call. `run` answers every entry of its batch and raises nothing.

    With `gathering`, small calls are held back while another one is under way.
    """

    def __init__(
        self,
        name: str,
        batcher: Batcher[E],
        run: Callable[[list[E]], Awaitable[None]],
        fail: Callable[[list[E], QueenError], None],
        *,
        gathering: Gathering | None = None,
    ) -> None:
        self._name = name
        self._batcher = batcher
        self._run = run
        self._fail = fail
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_pumping = False
        self._gathering = gathering
        self._timer: asyncio.TimerHandle | None = None

    @property
    def depth(self) -> int:
        """Return how many requests wait for a call."""
        return len(self._batcher)

    @property
    def first(self) -> E | None:
        """Return the request that has waited longest for a call."""
        return self._batcher.first

    @property
    def outstanding(self) -> int:
        """Return how many requests wait or are in calls."""
        return self._batcher.outstanding

    def set_calls_max(self, calls_max: int) -> None:
        """Allow this many calls in flight from now on."""
        self._batcher.calls_max = calls_max

    def waiting_keys(self, *, keys_max: int) -> set[Hashable]:
        """Return the keys of requests that wait for a call, without those of calls in flight."""
        return self._batcher.waiting_keys(keys_max=keys_max)

    def take_waiting(self) -> list[E]:
        """Remove and return everything that waits for a call."""
        return self._batcher.take_waiting()

    def add(self, entry: E) -> None:
        """Queue a request. It leaves with the next call, once the running callbacks are done."""
        self._batcher.add(entry)
        self._pump_soon()

    def put_back(self, entries: Iterable[E]) -> None:
        """Queue requests again, ahead of all others."""
        self._batcher.put_back(entries)
        self._pump_soon()

    def _pump_soon(self) -> None:
        # Not at once: requests that arrive in the same turn of the loop belong in the same call.
        if not self._is_pumping:
            self._is_pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pumping = False
        while not self._is_held() and (batch := self._batcher.take()):
            task = asyncio.create_task(self._call(batch), name=f"{self._name}-call")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _is_held(self) -> bool:
        """Return whether the next call gathers more requests first. A timer bounds that."""
        batcher = self._batcher
        if self._gathering is None or not batcher.can_call:
            return False
        now = now_ms()
        until_ms = self._gathering.hold_until(
            now,
            under_way=batcher.outstanding - len(batcher),
            requests=len(batcher),
            rows=batcher.weigh(requests_max=ENOUGH),
        )
        if until_ms is not None and self._timer is None:
            delay_s = (until_ms - now) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._end_hold)
        return until_ms is not None

    def _end_hold(self) -> None:
        self._timer = None
        self._pump()

    async def _call(self, batch: list[E]) -> None:
        try:
            await self._run(batch)
        except Exception as error:
            # run() always answers its callers. Getting here is a bug, so log it as an error.
            logger.exception(
                "A %s call failed unexpectedly.", self._name, extra={"event": "call_broke"}
            )
            self._fail(batch, found_defect(f"a {self._name} call", error, is_in_doubt=True))
        finally:
            self._batcher.finish(batch)
            self._pump()

    async def drain(self) -> None:
        """Wait until no request waits and no call is in flight."""
        self._pump()
        while self._tasks:
            await asyncio.wait(self._tasks)
