"""The decision that the database is down, and that it is back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from queenmq.engine.news import News
from queenmq.errors import StorageRejected, StorageUnavailable
from queenmq.storage.connection.outage import OutageWatch, pause_s
from tests.support.waiting import wait_until_async

_SOON_S = 30.0
_GONE = StorageUnavailable("gone")


class ScriptedProbe:
    """Fails as told, and is good from then on; can be made to wait."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.count = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self) -> None:
        self.count += 1
        await self.may_answer.wait()
        if self.errors:
            raise self.errors.pop(0)


class World:
    """A watch, what it asks and what it tells."""

    def __init__(self) -> None:
        self.probe = ScriptedProbe()
        self.oldest_ms = 0.0
        self.told: list[bool] = []
        news = News()
        news.database_down.declare(lambda: self.told.append(True))
        news.database_up.declare(lambda: self.told.append(False))
        self.watch = OutageWatch(
            self.probe, oldest_call_ms=lambda: self.oldest_ms, hang_ms=1_000, news=news
        )

    async def wait(self, predicate: Callable[[], bool], what: str) -> None:
        await wait_until_async(predicate, timeout_s=_SOON_S, what=what)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.watch.stop()


def test_pauses_grow_to_a_bound() -> None:
    pauses = [pause_s(attempt, 0.5) for attempt in range(10)]
    assert pauses == sorted(pauses)
    assert pauses[0] == pytest.approx(0.05)
    assert pauses[1] == pytest.approx(0.1)
    assert pauses[-1] == pytest.approx(1.0)
    assert pause_s(10**9, 0.5) == pytest.approx(1.0)


def test_chance_moves_a_pause_both_ways_but_not_far() -> None:
    for attempt in range(10):
        middle = pause_s(attempt, 0.5)
        assert pause_s(attempt, 0.0) == pytest.approx(0.7 * middle)
        assert pause_s(attempt, 1.0) == pytest.approx(1.3 * middle)


async def test_suspicion_alone_is_no_outage(world: World) -> None:
    world.probe.may_answer.clear()
    world.watch.suspect()
    await world.wait(lambda: world.probe.count == 1, "the probe")
    assert not world.watch.is_down
    world.probe.may_answer.set()
    await world.wait(lambda: world.watch._prober is None, "the probe to end")
    assert not world.watch.is_down and world.told == [] and world.probe.count == 1


async def test_failed_probe_means_down_and_a_good_one_back(world: World) -> None:
    world.probe.errors = [_GONE, _GONE, _GONE]
    world.watch.suspect()
    await world.wait(lambda: world.told == [True, False], "the outage to pass")
    assert not world.watch.is_down
    assert world.probe.count == 4


async def test_many_suspicions_share_one_probe(world: World) -> None:
    world.probe.may_answer.clear()
    for _ in range(100):
        world.watch.suspect()
    await world.wait(lambda: world.probe.count == 1, "the probe")
    for _ in range(100):
        world.watch.suspect()
    world.probe.may_answer.set()
    await world.wait(lambda: world.watch._prober is None, "the probe to end")
    assert world.probe.count == 1


async def test_each_outage_is_told_once(world: World) -> None:
    for _ in range(2):
        world.probe.errors = [_GONE, StorageRejected("no such table")]
        world.watch.suspect()
        await world.wait(lambda: world.watch._prober is None, "the outage to pass")
    assert world.told == [True, False] * 2


async def test_probe_that_breaks_in_an_unknown_way_goes_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.probe.errors = [_GONE, RuntimeError("a defect"), EOFError()]
    with caplog.at_level(logging.ERROR):
        world.watch.suspect()
        await world.wait(lambda: world.told == [True, False], "the outage to pass")
    assert not world.watch.is_down
    assert any(getattr(record, "event", "") == "probe_broke" for record in caplog.records)


async def test_call_that_hangs_is_a_suspicion(world: World) -> None:
    world.oldest_ms = 1_001
    await world.watch.start()
    await world.wait(lambda: world.probe.count == 1, "a look at the database")
    assert not world.watch.is_down, "the call is slow, but the database answers"
    world.probe.errors = [_GONE]
    await world.wait(lambda: world.told == [True, False], "the next look, and the outage to pass")


async def test_nothing_is_looked_at_without_a_call_that_hangs(world: World) -> None:
    looks = 0

    def oldest_ms() -> float:
        nonlocal looks
        looks += 1
        return 1_000

    watch = OutageWatch(world.probe, oldest_call_ms=oldest_ms, hang_ms=1_000, news=News())
    await watch.start()
    await world.wait(lambda: looks >= 2, "two looks")
    await watch.stop()
    assert world.probe.count == 0


async def test_stopped_watch_probes_no_more(world: World) -> None:
    world.probe.errors = [_GONE] * 1_000
    await world.watch.start()
    world.watch.suspect()
    await world.wait(lambda: world.watch.is_down, "the outage")
    await world.watch.stop()
    before = world.probe.count
    # Calls that end while connections close.
    world.watch.suspect()
    assert world.watch._prober is None
    assert world.probe.count == before
