"""Owns the scenarios of `queen bench`: traffic by the client, and its measurements."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import itertools
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from queenmq import clock
from queenmq.ids import random_uuid

if TYPE_CHECKING:
    from queenmq.client.client import Queen

#: Times that are kept; of more, the latest.
_TIMES_MAX = 200_000
_POLL_MS = 500
#: Milliseconds between two messages of the latency scenario.
_PAUSE_MS = 10


class Scenario(enum.StrEnum):
    """One thing to measure."""

    PUSH = "push"
    POP = "pop"
    PUSH_POP = "push-pop"
    LATENCY = "latency"


class Load(msgspec.Struct, frozen=True, rename="camel"):
    """The size of a run."""

    seconds: float
    connections: int
    batch: int
    partitions: int
    bytes: int
    messages: int


class Tally:
    """The counts of a run so far."""

    def __init__(self) -> None:
        self.started_ms = clock.now_ms()
        self.messages = 0
        self.requests = 0
        self.times_ms: deque[float] = deque(maxlen=_TIMES_MAX)

    def start(self) -> None:
        """Begin to measure; what comes before is preparation."""
        self.__init__()  # type: ignore[misc]

    def note(self, *, messages: int, times_ms: Sequence[float]) -> None:
        self.requests += 1
        self.messages += messages
        self.times_ms.extend(times_ms)

    def result(self, scenario: Scenario) -> dict[str, Any]:
        """Return the figures. Times are those of a request, or from push to pop where both run."""
        seconds = (clock.now_ms() - self.started_ms) / 1000
        ordered = sorted(self.times_ms)
        return {
            "scenario": scenario.value,
            "messages": self.messages,
            "requests": self.requests,
            "seconds": round(seconds, 3),
            "messagesPerSecond": round(self.messages / seconds, 1) if seconds else 0.0,
            "milliseconds": {
                name: round(_percentile(ordered, share), 3)
                for name, share in (("p50", 50), ("p95", 95), ("p99", 99), ("max", 100))
            },
        }


def _percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent of all do not exceed."""
    if not ordered:
        return 0.0
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


class Run:
    """One scenario on its own queue, which it deletes afterwards."""

    def __init__(self, queen: Queen, load: Load, tally: Tally) -> None:
        self._queen = queen
        self._load = load
        self._tally = tally
        self._queue = f"queen-bench-{random_uuid()}"
        self._is_over = asyncio.Event()
        self._pad = "x" * max(0, load.bytes - 24)

    async def run(self, scenario: Scenario) -> dict[str, Any]:
        """Return the figures of the scenario."""
        works: dict[Scenario, Callable[[], Awaitable[None]]] = {
            Scenario.PUSH: self._push,
            Scenario.POP: self._pop,
            Scenario.PUSH_POP: self._push_pop,
            Scenario.LATENCY: self._latency,
        }
        try:
            await self._queen.create_queue(self._queue)
            await works[scenario]()
            return self._tally.result(scenario)
        finally:
            await self._queen.delete_queue(self._queue)

    async def _push(self) -> None:
        self._tally.start()
        async with self._deadline():
            await self._each(lambda number: self._produce(number, is_measured=True))

    async def _pop(self) -> None:
        left = itertools.count(self._load.messages, -self._load.batch)

        async def preload(number: int) -> None:
            while next(left) > 0:
                await self._push_once(number)
                number += self._load.connections

        await self._each(preload)
        self._tally.start()
        async with self._deadline():
            await self._each(lambda _: self._consume(is_empty_the_end=True, is_end_to_end=False))

    async def _push_pop(self) -> None:
        self._tally.start()
        async with self._deadline():
            await asyncio.gather(
                self._each(lambda number: self._produce(number, is_measured=False)),
                self._each(lambda _: self._consume(is_empty_the_end=False, is_end_to_end=True)),
            )

    async def _latency(self) -> None:
        self._tally.start()
        consumer = asyncio.ensure_future(self._consume(is_empty_the_end=False, is_end_to_end=True))
        async with self._deadline():
            for number in itertools.count():
                if self._is_over.is_set():
                    break
                await self._queen.push(
                    self._queue, [self._item()], partition=f"p{number % self._load.partitions}"
                )
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._is_over.wait(), _PAUSE_MS / 1000)
        await consumer

    async def _each(self, work: Callable[[int], Awaitable[None]]) -> None:
        """Run the same work on so many connections at once."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._load.connections):
                group.create_task(_coroutine(work(number)))

    async def _produce(self, number: int, *, is_measured: bool) -> None:
        while not self._is_over.is_set():
            began = clock.now_ms()
            await self._push_once(number)
            number += self._load.connections
            if is_measured:
                took = clock.now_ms() - began
                self._tally.note(messages=self._load.batch, times_ms=[took])

    async def _push_once(self, number: int) -> None:
        items = [self._item() for _ in range(self._load.batch)]
        partition = f"p{number % self._load.partitions}"
        await self._queen.push(self._queue, items, partition=partition)

    def _item(self) -> dict[str, Any]:
        return {"data": {"at": clock.now_ms(), "pad": self._pad}}

    async def _consume(self, *, is_empty_the_end: bool, is_end_to_end: bool) -> None:
        while not self._is_over.is_set():
            began = clock.now_ms()
            messages = await self._queen.pop(
                self._queue,
                batch=self._load.batch,
                partitions=min(self._load.batch, 256) if is_end_to_end else 1,
                wait=not is_empty_the_end,
                timeout_ms=_POLL_MS,
            )
            if not messages and is_empty_the_end:
                return
            if not messages:
                continue
            now = clock.now_ms()
            times = [now - one.data["at"] for one in messages] if is_end_to_end else [now - began]
            self._tally.note(messages=len(messages), times_ms=times)
            await self._queen.ack(messages)

    @contextlib.asynccontextmanager
    async def _deadline(self) -> AsyncIterator[None]:
        """End the scenario after its time, or when its work does."""
        timer = asyncio.get_running_loop().call_later(self._load.seconds, self._is_over.set)
        try:
            yield
        finally:
            timer.cancel()
            self._is_over.set()


async def _coroutine(work: Awaitable[None]) -> None:
    await work
