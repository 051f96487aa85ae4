"""The contract of services, of one loop and of many services together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import pytest

from queenmq.engine.lifecycle import Health, Loop, LoopService, ServiceGroup
from tests.support.waiting import wait_until_async

SOON_S = 10.0


class Sleeper(LoopService):
    """Sleeps until it is stopped, or ends as told."""

    def __init__(self, name: str = "sleeper", journal: list[str] | None = None) -> None:
        super().__init__(name)
        self.runs = 0
        self.error: Exception | None = None
        self.may_end = asyncio.Event()
        self._journal = journal if journal is not None else []

    async def start(self) -> None:
        self._journal.append(f"start {self.name}")
        await super().start()

    async def stop(self) -> None:
        self._journal.append(f"stop {self.name}")
        await super().stop()

    async def _run(self) -> None:
        self.runs += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error

    def set_failing(self, is_failing: bool) -> None:
        self._is_failing = is_failing


class Pair(Sleeper):
    """Has two loops."""

    def _loops(self) -> Mapping[str, Loop]:
        return {"one": self._run, "other": self._run}


async def _turn() -> None:
    """Let the tasks that are ready run."""
    await asyncio.get_running_loop().run_in_executor(None, int)


async def test_a_service_starts_once_and_stops_once() -> None:
    service = Sleeper()
    assert service.health() is Health.STOPPED
    await service.stop()
    await service.start()
    await service.start()
    await _turn()
    assert service.runs == 1 and service.health() is Health.RUNNING
    await asyncio.gather(service.stop(), service.stop())
    assert service.health() is Health.STOPPED


async def test_a_service_can_be_started_again() -> None:
    service = Sleeper()
    for runs in (1, 2):
        await service.start()
        await _turn()
        assert service.runs == runs
        await service.stop()


@pytest.mark.parametrize("error", [None, RuntimeError("a defect")], ids=["ends", "breaks"])
async def test_a_service_that_ends_by_itself_is_dead_and_logged(
    error: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    service = Sleeper()
    service.error = error
    await service.start()
    service.may_end.set()
    await wait_until_async(
        lambda: service.health() is Health.DEAD, timeout_s=SOON_S, what="the death"
    )
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert vars(record)["event"] == "service_died" and vars(record)["service"] == "sleeper"
    service.may_end.clear()
    await service.start()
    assert service.health() is Health.RUNNING
    await service.stop()


async def test_one_dead_loop_is_enough_and_only_that_one_starts_again() -> None:
    service = Pair()
    await service.start()
    await _turn()
    (one,) = (task for task in asyncio.all_tasks() if task.get_name() == "one")
    one.cancel()
    await _turn()
    assert service.health() is Health.DEAD
    await service.start()
    await _turn()
    assert service.health() is Health.RUNNING and service.runs == 3
    await service.stop()


async def test_a_group_starts_in_order_and_stops_in_reverse() -> None:
    journal: list[str] = []
    inner = ServiceGroup("inner", [Sleeper("b", journal), Sleeper("c", journal)])
    group = ServiceGroup("outer", [Sleeper("a", journal), inner, Sleeper("d", journal)])
    await group.start()
    assert journal == ["start a", "start b", "start c", "start d"]
    assert [one.name for one in group.report()] == ["a", "b", "c", "d"]
    assert {one.health for one in group.report()} == {Health.RUNNING}
    journal.clear()
    await group.stop()
    assert journal == ["stop d", "stop c", "stop b", "stop a"]
    assert group.health() is Health.STOPPED


async def test_a_stop_that_breaks_stops_the_others_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Sleeper):
        async def stop(self) -> None:
            raise RuntimeError("a defect")

    first = Sleeper("first")
    group = ServiceGroup("group", [first, Broken("broken")])
    await first.start()
    await group.stop()
    assert first.health() is Health.STOPPED
    assert [vars(record)["service"] for record in caplog.records] == ["broken"]


async def test_a_group_is_as_well_as_the_worst_of_its_services() -> None:
    well, ill = Sleeper("well"), Sleeper("ill")
    group = ServiceGroup("group", [well, ill])
    assert group.health() is Health.STOPPED
    await well.start()
    assert group.health() is Health.RUNNING
    await ill.start()
    ill.set_failing(True)
    assert group.health() is Health.FAILING
    ill.may_end.set()
    await wait_until_async(
        lambda: group.health() is Health.DEAD, timeout_s=SOON_S, what="the death"
    )
    await group.stop()
