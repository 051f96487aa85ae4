"""Jobs that run again and again, held by the hand."""

from __future__ import annotations

import asyncio
import logging
from uuid import UUID

import pytest

from queenmq.errors import StorageUnavailable
from queenmq.services.janitor import KeySweep, LeaseSweep, Rule, Sweep
from queenmq.services.periodic import Periodic

#: Seconds for what happens at once.
SOON_S = 10.0


class Work:
    """Counts its runs, fails as told, and lets a test wait for a run."""

    name = "fake"

    def __init__(self, *errors: Exception | None, interval_s: float = 0) -> None:
        self.interval_s = interval_s
        self.runs = 0
        self._errors = list(errors)
        self._news = asyncio.Event()

    async def run_once(self) -> None:
        self.runs += 1
        self._news.set()
        if self._errors and (error := self._errors.pop(0)) is not None:
            raise error

    async def wait_for_run(self, number: int) -> None:
        while self.runs < number:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), SOON_S)


async def test_a_service_runs_again_and_again() -> None:
    job = Work()
    periodic = Periodic(job)
    await periodic.start()
    await job.wait_for_run(3)
    await periodic.stop()


async def test_a_job_that_can_wait_misses_every_other_run_under_load() -> None:
    asked: list[int] = []
    job = Work()

    def may_run() -> bool:
        asked.append(job.runs)
        return job.runs < 2

    periodic = Periodic(job, may_run)
    await periodic.start()
    await job.wait_for_run(5)
    await periodic.stop()
    # From the third question on the answer is no, and the run after it asks no question.
    assert asked[:5] == [0, 1, 2, 3, 4]


async def test_every_service_has_a_loop_of_its_own() -> None:
    idle, busy = Work(interval_s=3_600), Work()
    services = [Periodic(idle), Periodic(busy)]
    for one in services:
        await one.start()
    await busy.wait_for_run(2)
    for one in services:
        await one.stop()
    assert idle.runs == 0


async def test_a_service_survives_its_errors_and_they_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    job = Work(StorageUnavailable("no database"), None)
    periodic = Periodic(job)
    await periodic.start()
    await job.wait_for_run(2)
    await periodic.stop()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == "fake: no database"
    assert vars(record)["event"] == "service_failed"
    assert vars(record)["service"] == "fake"


async def test_a_defect_in_a_service_is_logged_as_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    job = Work(RuntimeError("a defect"))
    periodic = Periodic(job)
    await periodic.start()
    await job.wait_for_run(1)
    await periodic.stop()
    assert any(record.levelno >= logging.ERROR for record in caplog.records), "it ended in silence"


async def test_a_stopped_service_runs_no_more() -> None:
    job = Work()
    periodic = Periodic(job)
    await periodic.start()
    await job.wait_for_run(1)
    await periodic.stop()
    runs = job.runs
    # A loop that went on would get its turn before this task does.
    for _ in range(10):
        await asyncio.get_running_loop().run_in_executor(None, int)
    assert job.runs == runs


async def test_a_run_in_progress_is_cut_off() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    class Stuck(Work):
        async def run_once(self) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    periodic = Periodic(Stuck())
    await periodic.start()
    await asyncio.wait_for(started.wait(), SOON_S)
    await asyncio.wait_for(periodic.stop(), SOON_S)
    assert ended.is_set()


async def test_stopping_twice_is_safe() -> None:
    periodic = Periodic(Work())
    await periodic.start()
    await periodic.stop()
    await periodic.stop()


async def test_stopping_before_the_start_is_safe() -> None:
    await Periodic(Work()).stop()


async def test_a_runner_can_be_started_again() -> None:
    job = Work()
    periodic = Periodic(job)
    for number in (1, 2):
        await periodic.start()
        await job.wait_for_run(number)
        await periodic.stop()


async def test_loops_are_named_after_their_service() -> None:
    periodic = Periodic(Work())
    await periodic.start()
    assert "fake" in {task.get_name() for task in asyncio.all_tasks()}
    await periodic.stop()


async def test_a_sweep_removes_page_by_page_what_each_rule_lets_go() -> None:
    sweeps: list[tuple[str, int]] = []
    pages = {"operations": [5_000, 5_000, 17], "traces": [0], "history": [5_000, 4_999]}

    def rule(name: str, keep_s: int) -> Rule:
        async def remove(*, older_than_s: int, limit: int) -> int:
            assert limit == 5_000
            sweeps.append((name, older_than_s))
            return pages[name].pop(0)

        return Rule(remove, keep_s)

    rules = [rule("operations", 3_600), rule("traces", 60), rule("history", 7_200)]
    await Sweep("janitor", rules, interval_s=300).run_once()
    assert sweeps == [
        *[("operations", 3_600)] * 3,
        ("traces", 60),
        *[("history", 7_200)] * 2,
    ], "until less than a full page is left"


async def test_keys_are_swept_only_if_the_run_before_reached_the_database() -> None:
    limits: list[int] = []
    is_down = False

    async def remove(*, older_than_s: int, limit: int) -> int:
        if is_down:
            raise StorageUnavailable("gone")
        limits.append(limit)
        return 0

    sweep = KeySweep("key-sweep", [Rule(remove, 600)], interval_s=30)
    await sweep.run_once()
    await sweep.run_once()
    is_down = True
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            await sweep.run_once()
    is_down = False
    await sweep.run_once()
    await sweep.run_once()
    assert limits == [0, 5_000, 0, 5_000]


async def test_leases_are_swept_page_by_page_until_the_last() -> None:
    asked: list[tuple[UUID, int]] = []
    lasts = [UUID(int=7), UUID(int=9), None]

    class Store:
        async def sweep_lease_partitions(self, *, after: UUID, limit: int) -> UUID | None:
            asked.append((after, limit))
            return lasts[len(asked) - 1]

    await LeaseSweep(Store()).run_once()
    assert asked == [(UUID(int=0), 5_000), (UUID(int=7), 5_000), (UUID(int=9), 5_000)]
