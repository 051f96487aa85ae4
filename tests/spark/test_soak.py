"""Producers, brokers, PostgreSQL and a stream on a cluster, all of which are killed for a while.

QUEEN_TEST_SOAK_SECONDS says how long (60; take 600 before a release), QUEEN_TEST_SOAK_RATE how many
messages a second, and QUEEN_TEST_SOAK_SEED repeats a run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import Counter, defaultdict
from pathlib import Path

import asyncpg
import httpx
import pytest
from pyspark.sql import SparkSession

from tests.support.archive import archived, live, run_archive
from tests.support.broker import SOON_S, BrokerProcess
from tests.support.feed import Feed
from tests.support.own_postgres import OwnPostgres
from tests.support.soak_driver import SOURCE, TARGET, SoakDriver
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.jobs, pytest.mark.slow, pytest.mark.timeout(3_600)]

SECONDS = int(os.environ.get("QUEEN_TEST_SOAK_SECONDS", "60"))
RATE = int(os.environ.get("QUEEN_TEST_SOAK_RATE", "2000"))
SEED = int(os.environ.get("QUEEN_TEST_SOAK_SEED", "1"))
PARTITIONS = 200
#: Partitions of one request, and pushes at a time: none of which share a partition.
_ITEMS, _PRODUCERS = 25, 8
#: Of the last run, which has to write what is left.
_END_S = 900
#: What takes longest to come back is killed least.
_VICTIMS = ("executor", "executor", "executor", "broker", "server", "driver")
_MAKE = "SELECT FROM queen.ensure_partitions(ARRAY[$1::text], ARRAY['p0'], NULL)"
_STORED = """
    SELECT p.name AS partition, (m.payload::text)::bigint AS n
    FROM queen.messages m JOIN queen.partitions p ON p.id = m.partition_id
    JOIN queen.queues q ON q.id = m.queue_id
    WHERE q.name = $1 ORDER BY p.name, m.seq
"""


class World:
    """All that is killed, and started again."""

    def __init__(self, server: OwnPostgres, checkpoint: Path, chance: random.Random) -> None:
        self._server = server
        self._checkpoint = checkpoint
        self._chance = chance
        self.kills: Counter[str] = Counter()
        #: Each kind has its turn, in an order of the seed.
        self._deck: list[str] = []
        self.broker = self._started_broker()
        self._start_driver()

    def _start_driver(self) -> None:
        self._commits_before = self._commits()
        self.driver = SoakDriver(self._server.url, self._checkpoint)

    def _commits(self) -> int:
        """How many batches Spark has noted."""
        return len(list(self._checkpoint.glob("commits/[0-9]*")))

    def _started_broker(self) -> BrokerProcess:
        return BrokerProcess(["--log-level", "error", "--database-url", self._server.url])

    def kill_one(self) -> None:
        """Kill something, and let it start again."""
        if not self._deck:
            self._deck = self._chance.sample(_VICTIMS, len(_VICTIMS))
        what = self._deck.pop()
        if what == "executor":
            if not self.driver.kill_executor(self._chance.randrange(2)):
                return
        elif what == "broker":
            self.broker.kill()
            self.broker = self._started_broker()
        elif what == "server":
            self._server.kill()
            self._server.start()
        elif self._commits() == self._commits_before:
            # It has done nothing yet, and would never do if it were killed again and again.
            return
        else:
            self.driver.kill()
        self.kills[what] += 1
        if self.driver.is_done():
            self.driver.kill()
            self._start_driver()

    def finish(self) -> None:
        """Let a last driver write what is left."""
        self.driver.kill()
        last = SoakDriver(self._server.url, self._checkpoint, is_once=True)
        try:
            wait_until(last.is_done, timeout_s=_END_S, what="the stream to end")
            assert last.process.returncode == 0, last.last_words()
        finally:
            last.kill()

    def close(self) -> None:
        self.driver.kill()
        if self.broker.process.poll() is None:
            self.broker.kill()


async def _produce(world: World, own: list[str], until: float, pushed: Counter[str]) -> None:
    """Push 0, 1, 2 ... to some partitions, each until it is answered: a repeat adds nothing."""
    pace_s = PARTITIONS / RATE
    async with httpx.AsyncClient(timeout=SOON_S, verify=False) as http:
        while (began := time.monotonic()) < until:
            for at in range(0, len(own), _ITEMS):
                names = own[at : at + _ITEMS]
                items = [
                    {
                        "queue": SOURCE,
                        "partition": name,
                        "payload": pushed[name],
                        "transactionId": f"{name}-{pushed[name]}",
                    }
                    for name in names
                ]
                await _push(http, world, items)
                pushed.update(names)
            await asyncio.sleep(max(0.0, pace_s - (time.monotonic() - began)))


async def _push(http: httpx.AsyncClient, world: World, items: list[dict[str, object]]) -> None:
    while True:
        try:
            answer = await http.post(f"{world.broker.url}/api/v1/push", json={"items": items})
        except httpx.TransportError:
            await asyncio.sleep(0.1)
            continue
        if answer.status_code in (201, 202):
            return
        assert answer.status_code in (429, 503), answer.text
        await asyncio.sleep(0.1)


async def _load(world: World, pushed: Counter[str], chance: random.Random) -> None:
    until = time.monotonic() + SECONDS
    names = [f"p{n}" for n in range(PARTITIONS)]
    tasks = [
        asyncio.create_task(_produce(world, names[n::_PRODUCERS], until, pushed))
        for n in range(_PRODUCERS)
    ]
    while time.monotonic() < until:
        await asyncio.sleep(chance.uniform(2, 8))
        await asyncio.to_thread(world.kill_one)
    await asyncio.gather(*tasks)


async def _drained(url: str) -> bool:
    """Whether all that was answered 202 is stored."""
    connection = await asyncpg.connect(url)
    try:
        return not await connection.fetchval(
            "SELECT count(*) FROM queen.operation_queue WHERE is_blocking"
        )
    finally:
        await connection.close()


def _stored(feed: Feed, queue: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for row in feed.rows(_STORED, queue):
        found[row["partition"]].append(row["n"])
    return dict(found)


def test_nothing_is_lost_doubled_or_out_of_order(
    spark: SparkSession, server: OwnPostgres, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    pushed: Counter[str] = Counter()
    with Feed(server.url) as feed:
        feed.execute(_MAKE, SOURCE)
    world = World(server, tmp_path / "checkpoint", chance)
    try:
        asyncio.run(_load(world, pushed, chance))
        expected = {name: list(range(count)) for name, count in pushed.items()}
        with Feed(server.url) as feed:
            # Queued operations, and what a broker kept on disk while the server was away.
            wait_until(
                lambda: asyncio.run(_drained(server.url)) and _stored(feed, SOURCE) == expected,
                timeout_s=_END_S,
                what="everything that was answered to be stored, in order",
            )
            world.finish()
            assert _stored(feed, TARGET) == expected, f"seed {SEED}, kills {world.kills}"
            lake = str(tmp_path / "lake")
            assert run_archive(spark, server.url, lake).is_ok
            assert archived(spark, lake) == live(feed)
    finally:
        world.close()
    print(json.dumps({"messages": pushed.total(), "kills": world.kills, "seed": SEED}))
