"""kill -9 of workers, brokers and PostgreSQL in the middle of stream cycles: each window once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.support.broker import SOON_S, Api, BrokerProcess, running_broker, unique
from tests.support.faulty_proxy import FaultyProxy, faulty_proxy
from tests.support.own_postgres import OwnPostgres
from tests.support.stream_reference import Event, Windows, fixed_windows
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow

T0 = 1_767_225_600_000
_DAY = 86_400_000
_SINK = (
    "SELECT m.payload::text FROM queen.messages m JOIN queen.queues q ON q.id = m.queue_id"
    " WHERE q.name = $1"
)


class World:
    """A database, a broker behind a proxy, and workers on one query."""

    def __init__(self, server: OwnPostgres, proxy: FaultyProxy, broker: BrokerProcess) -> None:
        self.server = server
        self.proxy = proxy
        self.broker = broker
        self.source, self.sink, self.query = unique("source"), unique("sink"), unique("query")
        self.workers: list[subprocess.Popen[bytes]] = []
        self.found: list[Any] = []

    def start_worker(self) -> None:
        """Start one more worker."""
        command = [sys.executable, "-m", "tests.support.stream_worker"]
        names = [self.proxy.url, self.source, self.sink, self.query]
        self.workers.append(
            subprocess.Popen([*command, *names], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        )

    async def kill_worker(self, rng: random.Random) -> None:
        """Kill one and start another in its place."""
        worker = self.workers.pop(rng.randrange(len(self.workers)))
        worker.kill()
        await asyncio.to_thread(worker.communicate)
        self.start_worker()

    async def kill_broker(self, stack: contextlib.ExitStack) -> None:
        """Kill the broker; another one takes its place behind the proxy."""
        await asyncio.to_thread(self.broker.kill)
        self.proxy.cut_all()
        await self.start_broker(stack)

    async def start_broker(self, stack: contextlib.ExitStack) -> None:
        broker = running_broker(database_url=self.server.url)
        self.broker = await asyncio.to_thread(stack.enter_context, broker)
        self.proxy.retarget(self.broker.url)

    async def kill_database(self) -> None:
        """Kill PostgreSQL with all its processes, and start it again."""
        await asyncio.to_thread(self.server.kill)
        await asyncio.to_thread(self.server.start)

    async def push(self, seed: int, *, partitions: int, count: int) -> Windows:
        """Fill the source; the windows that its events make."""
        rng = random.Random(seed)
        events: list[Event] = []
        api = Api(self.broker.url)
        await api.configure(self.source, leaseTime=2, retryLimit=1000)
        for number in range(partitions):
            time = T0
            mine = []
            for _ in range(count):
                time += rng.randrange(3_000)
                mine.append(Event(time, f"user-{rng.randrange(3)}/{number}", rng.randrange(100)))
            events += mine
            mine.append(Event(T0 + _DAY, "end", 0))
            payloads = [{"t": e.at_ms, "user": e.key, "v": e.value} for e in mine]
            await api.push(self.source, *payloads, partition=f"p{number}")
        await api.close()
        return fixed_windows(events, size_ms=5_000)

    async def collect(self) -> int:
        """Look at what the sink holds; how many windows that are."""
        with contextlib.suppress(OSError, asyncpg.PostgresError):
            session = await asyncpg.connect(self.server.url)
            try:
                rows = await session.fetch(_SINK, self.sink)
            finally:
                await session.close(timeout=5)
            self.found = [json.loads(row[0]) for row in rows]
        return len(self.found)


@contextlib.asynccontextmanager
async def made_world(server: OwnPostgres, stack: contextlib.ExitStack) -> AsyncIterator[World]:
    """A world with two workers; all of them are gone at the end."""
    broker = await asyncio.to_thread(stack.enter_context, running_broker(database_url=server.url))
    async with faulty_proxy(broker.url) as proxy:
        world = World(server, proxy, broker)
        try:
            yield world
        finally:
            for worker in world.workers:
                worker.kill()
                await asyncio.to_thread(worker.communicate)


async def _run(
    server: OwnPostgres, *, seed: int, kills: list[str], partitions: int, count: int
) -> None:
    rng = random.Random(seed)
    with contextlib.ExitStack() as stack:
        async with made_world(server, stack) as world:
            expected = await world.push(seed, partitions=partitions, count=count)
            for _ in range(2):
                world.start_worker()
            for number, kill in enumerate(kills):
                # A little further each time, and at any point of a cycle.
                goal = len(expected) * (number + rng.random()) / (len(kills) + 1)

                async def is_there(goal: float = goal) -> bool:
                    return await world.collect() >= goal

                await wait_until_async(is_there, timeout_s=2 * SOON_S, what=f"{goal} windows")
                if kill == "worker":
                    await world.kill_worker(rng)
                elif kill == "broker":
                    await world.kill_broker(stack)
                else:
                    await world.kill_database()

            async def is_done() -> bool:
                return await world.collect() >= len(expected)

            await wait_until_async(is_done, timeout_s=3 * SOON_S, what="all windows")
            found = {(w["user"], w["start"]): (w["count"], w["sum"]) for w in world.found}
            assert len(found) == len(world.found), "a window came twice"
            assert found == expected


async def test_each_window_comes_once_whatever_is_killed(server: OwnPostgres) -> None:
    await _run(server, seed=1, kills=["worker", "broker", "database"], partitions=3, count=60)


@pytest.mark.jobs
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(4))
async def test_each_window_comes_once_after_many_kills(server: OwnPostgres, seed: int) -> None:
    rng = random.Random(seed)
    kills = [rng.choice(("worker", "worker", "broker", "database")) for _ in range(15)]
    await _run(server, seed=seed, kills=kills, partitions=8, count=300)
