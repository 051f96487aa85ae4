"""The world of the soak: what is killed and started again, and producers that push all along."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from pathlib import Path

import httpx

from tests.support.broker import SOON_S, BrokerProcess
from tests.support.own_postgres import OwnPostgres
from tests.support.soak_driver import SOURCE, SoakArchive, SoakDriver
from tests.support.waiting import wait_until

SECONDS = int(os.environ.get("QUEEN_TEST_SOAK_SECONDS", "60"))
RATE = int(os.environ.get("QUEEN_TEST_SOAK_RATE", "2000"))
SEED = int(os.environ.get("QUEEN_TEST_SOAK_SEED", "1"))
PARTITIONS = 200
#: Partitions of one request, and pushes at a time: none of which share a partition.
_ITEMS, _PRODUCERS = 25, 8
#: Of the last run, which has to write what is left.
END_S = 900
#: What takes longest to come back is killed least.
_VICTIMS = ("executor", "executor", "executor", "broker", "server", "driver", "archive")


class World:
    """All that is killed, and started again."""

    def __init__(self, server: OwnPostgres, home: Path, chance: random.Random) -> None:
        self._server = server
        self._checkpoint = home / "checkpoint"
        self.lake = home / "lake"
        self._chance = chance
        self.kills: Counter[str] = Counter()
        #: Each kind has its turn, in an order of the seed.
        self._deck: list[str] = []
        self.broker = self._started_broker()
        self._start_driver()
        self._start_archive()

    def _start_driver(self) -> None:
        self._commits_before = self.commits()
        self.driver = SoakDriver(self._server.url, self._checkpoint)

    def _start_archive(self) -> None:
        self._versions_before = self._versions()
        self.archive = SoakArchive(self._server.url, self.lake)

    def _versions(self) -> int:
        """Return how many versions the lake has."""
        return len(list(self.lake.glob("messages/_delta_log/*.json")))

    def commits(self) -> int:
        """How many batches Spark has noted."""
        return len(list(self._checkpoint.glob("commits/[0-9]*")))

    def _started_broker(self) -> BrokerProcess:
        return BrokerProcess(
            ["--log-level", "error", "--database-url", self._server.url],
            environ={"QUEEN_RETENTION_INTERVAL_S": "2"},
        )

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
        elif what == "archive":
            if self._versions() == self._versions_before:
                # It has done nothing yet, and would never do if it were killed again and again.
                return
            self.archive.kill()
        elif self.commits() == self._commits_before:
            return
        else:
            self.driver.kill()
        self.kills[what] += 1

    def restart_ended(self) -> None:
        """Start again what was killed, or has ended because of what was."""
        if self.driver.is_done():
            self.driver.kill()
            self._start_driver()
        if self.archive.is_done():
            self.archive.kill()
            self._start_archive()

    def finish(self) -> None:
        """Let a last driver write what is left, and end the archive."""
        self.driver.kill()
        self.archive.kill()
        last = SoakDriver(self._server.url, self._checkpoint, is_once=True)
        try:
            wait_until(last.is_done, timeout_s=END_S, what="the stream to end")
            assert last.process.returncode == 0, last.last_words()
        finally:
            last.kill()

    def close(self) -> None:
        self.driver.kill()
        self.archive.kill()
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


async def load(world: World, pushed: Counter[str], chance: random.Random) -> None:
    until = time.monotonic() + SECONDS
    names = [f"p{n}" for n in range(PARTITIONS)]
    tasks = [
        asyncio.create_task(_produce(world, names[n::_PRODUCERS], until, pushed))
        for n in range(_PRODUCERS)
    ]
    while time.monotonic() < until:
        await asyncio.sleep(chance.uniform(2, 8))
        await asyncio.to_thread(world.kill_one)
        await asyncio.to_thread(world.restart_ended)
    await asyncio.gather(*tasks)
