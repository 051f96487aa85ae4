"""The world of the soak: what is killed and started again, and producers that push all along."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Iterable
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
        #: What ended by itself, because of what was killed.
        self.ends: Counter[str] = Counter()
        #: Each kind has its turn, in an order of the seed.
        self._deck: list[str] = []
        self.broker = self._started_broker()
        self._start_driver()
        self._start_archive()

    def _start_driver(self) -> None:
        self._batches_before = self.batches()
        self.driver = SoakDriver(self._server.url, self._checkpoint)

    def _start_archive(self) -> None:
        self._versions_before = self._versions()
        self.archive = SoakArchive(self._server.url, self.lake)

    def _versions(self) -> int:
        """Return how many versions the lake has."""
        return _highest(self.lake.glob("messages/_delta_log/*.json"))

    def batches(self) -> int:
        """Return how many batches Spark has noted."""
        return _highest(self._checkpoint.glob("commits/[0-9]*"))

    def _started_broker(self) -> BrokerProcess:
        return BrokerProcess(
            ["--log-level", "error", "--database-url", self._server.url],
            environ={"QUEEN_RETENTION_INTERVAL_S": "2"},
        )

    def kill_one(self) -> None:
        """Kill the next of the deck that is ready for it, and let it start again.

        What is not ready keeps its turn, and no new round begins before it had it. So everything is
        killed equally often, and what takes long to come back has the time to do some work.
        """
        if not self._deck:
            self._deck = self._chance.sample(_VICTIMS, len(_VICTIMS))
        what = next((each for each in self._deck if self._is_ready(each)), None)
        if what is None:
            return
        self._deck.remove(what)
        self.kills[what] += 1
        if what == "executor":
            self.driver.kill_executor(self._chance.randrange(2))
        elif what == "broker":
            self.broker.kill()
            self.broker = self._started_broker()
        elif what == "server":
            self._server.kill()
            self._server.start()
        elif what == "archive":
            self._archive_killed()
        else:
            self._driver_killed()

    def _is_ready(self, what: str) -> bool:
        """Return whether it has done something since its start, so that it can be killed again."""
        if what == "executor":
            return bool(self.driver.executors())
        if what == "archive":
            return self._versions() > self._versions_before
        return what != "driver" or self.batches() > self._batches_before

    def restart_ended(self) -> None:
        """Start again what has ended because of what was killed."""
        if self.driver.is_done():
            self.ends["driver"] += 1
            self._driver_killed()
        if self.archive.is_done():
            self.ends["archive"] += 1
            self._archive_killed()

    def _driver_killed(self) -> None:
        self.driver.kill()
        self._start_driver()

    def _archive_killed(self) -> None:
        self.archive.kill()
        self._start_archive()

    def has_killed_all(self) -> bool:
        """Return whether each kind had its turn."""
        return set(self.kills) == set(_VICTIMS)

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


def _highest(files: Iterable[Path]) -> int:
    """Return the highest number that names a file, plus one; Spark and Delta remove old files."""
    return max((int(file.stem) + 1 for file in files), default=0)


async def _produce(world: World, own: list[str], over: asyncio.Event, pushed: Counter[str]) -> None:
    """Push 0, 1, 2 ... to some partitions, each until it is answered: a repeat adds nothing.

    A producer makes up for the time that a kill has cost it, so that the rate holds on average.
    """
    pace_s, due = PARTITIONS / RATE, time.monotonic()
    async with httpx.AsyncClient(timeout=SOON_S, verify=False) as http:
        while not over.is_set():
            due += pace_s
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
            await asyncio.sleep(max(0.0, due - time.monotonic()))


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


async def load(world: World, pushed: Counter[str], chance: random.Random) -> float:
    """Push and kill for the time of the soak, and until each kind was killed; return how long."""
    began, over = time.monotonic(), asyncio.Event()
    names = [f"p{n}" for n in range(PARTITIONS)]
    tasks = [
        asyncio.create_task(_produce(world, names[n::_PRODUCERS], over, pushed))
        for n in range(_PRODUCERS)
    ]
    while (seconds := time.monotonic() - began) < SECONDS or not world.has_killed_all():
        assert seconds < SECONDS + END_S, f"not everything was killed: {dict(world.kills)}"
        await asyncio.sleep(chance.uniform(2, 8))
        await asyncio.to_thread(world.kill_one)
        await asyncio.to_thread(world.restart_ended)
    over.set()
    await asyncio.gather(*tasks)
    return time.monotonic() - began
