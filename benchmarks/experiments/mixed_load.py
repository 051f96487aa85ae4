"""Check whether pushes and pops on the same partitions stand in each other's way.

Each side alone has all connections, both at once have half of them each. Two sides that only share
the processors keep shares of their own rates that sum up to one; what is missing they lose by
waiting for each other. Sessions that wait for a lock are looked for all the while.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg

from benchmarks import wrk
from benchmarks.broker import BenchmarkError, Broker
from benchmarks.database import queries, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, with_spread
from benchmarks.preload import preload
from benchmarks.scenario import Scenario

ABOUT = "push and autoAck pop, 10 messages a request, on the same 500 partitions"

_PARTITIONS = 500
_BATCH = 10
_SECONDS = 3
#: Messages a second to be ready for in the first round; twice the best rate so far after that.
_FIRST_RATE = 200_000
_SAMPLE_S = 0.05
_TARGET = 0.7

_PUSH = Scenario(name="push", about="", script="push", partitions=_PARTITIONS, batch=_BATCH)
_POP = Scenario(name="pop", about="", script="pop", partitions=_PARTITIONS, batch=_BATCH)


@dataclass(frozen=True)
class Round:
    """Messages a second."""

    push_alone: float
    pop_alone: float
    push: float
    pop: float

    @property
    def kept(self) -> float:
        return self.push / self.push_alone + self.pop / self.pop_alone


async def run(context: Context) -> list[Row]:
    wrk.find()
    async with running_database() as database:
        with context.broker(database) as broker:
            async with database.connection() as connection:
                sampler = LockSampler(connection)
                rounds: list[Round] = []
                # The first round warms caches, plans and pools.
                for number in range(context.rounds + 1):
                    best = max((2 * one.pop_alone for one in rounds), default=_FIRST_RATE)
                    rounds.append(await _round(broker, sampler, number, best))
                    context.say(f"{number} of {context.rounds} rounds")
    return _rows(rounds[1:], sampler)


async def _round(broker: Broker, sampler: LockSampler, number: int, rate: float) -> Round:
    """Queues of their own, so that no round works on what the one before has left."""
    push_alone = await _wrk(broker, _PUSH, f"push-{number}", wrk.CONNECTIONS)
    await _stock(broker, f"pop-{number}", rate)
    pop_alone = await _wrk(broker, _POP, f"pop-{number}", wrk.CONNECTIONS)
    queue = f"both-{number}"
    await _stock(broker, queue, rate)
    async with sampler.watching():
        push, pop = await asyncio.gather(
            _wrk(broker, _PUSH, queue, wrk.CONNECTIONS // 2),
            _wrk(broker, _POP, queue, wrk.CONNECTIONS // 2),
        )
    return Round(push_alone, pop_alone, push, pop)


async def _stock(broker: Broker, queue: str, rate: float) -> None:
    messages = int(rate * _SECONDS)
    await asyncio.to_thread(
        preload, broker.address, queue=queue, partitions=_PARTITIONS, messages=messages
    )


async def _wrk(broker: Broker, side: Scenario, queue: str, count: int) -> float:
    outcome = await asyncio.to_thread(
        wrk.run,
        broker.url,
        side.script,
        side.arguments(queue),
        seconds=_SECONDS,
        connections=count,
    )
    if outcome.failed or outcome.broken or outcome.dry:
        raise BenchmarkError(f"{side.name}: errors or empty pops: {outcome}")
    return outcome.messages_per_s


class LockSampler:
    """Looks for sessions that wait for a lock, at short intervals."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self.samples = 0
        #: How often a session waited for a row of partition_lookup; for anything else.
        self.lookup_waits: Counter[str] = Counter()
        self.other_waits: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _watch(self) -> None:
        while True:
            # Shielded, so that a cancelled look does not break its connection.
            rows = await asyncio.shield(self._connection.fetch(queries()["lock_waits"]))
            self.samples += 1
            for row in rows:
                waits = self.lookup_waits if row["is_lookup"] else self.other_waits
                waits[f"{row['wait_event']}: {row['query']}"] += 1
            await asyncio.sleep(_SAMPLE_S)


def _rows(rounds: list[Round], sampler: LockSampler) -> list[Row]:
    shape = f"{_SECONDS} s each, {wrk.CONNECTIONS} connections in all, {len(rounds)} rounds"
    sides = {
        "push alone": [one.push_alone for one in rounds],
        "pop alone": [one.pop_alone for one in rounds],
        "push beside pop": [one.push for one in rounds],
        "pop beside push": [one.pop for one in rounds],
    }
    kept = [one.kept for one in rounds]
    waits = sampler.lookup_waits
    return [
        *(
            Row(what=what, shape=shape, measured=with_spread(rates, " messages/s", digits=0))
            for what, rates in sides.items()
        ),
        Row(
            what="shares of the own rate kept, summed",
            shape=shape,
            measured=with_spread(kept, ""),
            target=f">= {_TARGET}",
            is_reached=median(kept) >= _TARGET,
        ),
        Row(
            what="sessions waiting for a row of partition_lookup",
            shape=f"{sampler.samples} samples",
            measured=_said(waits),
            target="0",
            is_reached=not waits,
        ),
        Row(
            what="sessions waiting for another lock",
            shape=f"{sampler.samples} samples",
            measured=_said(sampler.other_waits),
        ),
    ]


def _said(waits: Counter[str]) -> str:
    return (
        f"{waits.total()}{''.join(f'; {count} x {what}' for what, count in waits.most_common(3))}"
    )
