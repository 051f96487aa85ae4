"""A spool shared by processes, some of which are killed at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import subprocess
from pathlib import Path

import pytest

from tests.support.spools import child, drain_all, lines, opened
from tests.support.waiting import wait_until_async

#: Rounds of a killing test. Each one starts a process, so they take about a fifth of a second.
ROUNDS = 12


def by_name(bodies: list[bytes]) -> dict[str, list[int]]:
    """The numbers of each writer, in the order of the spool."""
    found: dict[str, list[int]] = {}
    for body in bodies:
        name, number = body.decode().split()
        found.setdefault(name, []).append(int(number))
    return found


async def test_records_of_many_processes_come_through_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    count = 1500
    bodies: list[bytes] = []
    async with opened(path) as spool:
        with contextlib.ExitStack() as stack:
            writers = [stack.enter_context(child("append", path, n, count)) for n in "abc"]
            while _is_any_running(writers) or spool.pending:
                await wait_until_async(
                    lambda: spool.pending or not _is_any_running(writers),
                    timeout_s=60,
                    what="a record or the end of the writers",
                )
                bodies += await drain_all(spool, records_max=50)
            assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert by_name(bodies) == {name: list(range(count)) for name in "abc"}


def _is_any_running(writers: list[subprocess.Popen[str]]) -> bool:
    return any(writer.poll() is None for writer in writers)


@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "alone"])
async def test_what_a_killed_writer_was_answered_for_is_there(
    tmp_path: Path, is_shared: bool
) -> None:
    path = tmp_path / "spool"
    moments = random.Random(1)
    async with contextlib.AsyncExitStack() as stack:
        if is_shared:
            # Somebody has the spool open all the time, so nothing is put in order by opening it.
            await stack.enter_async_context(opened(path))
        answered = {str(name): _killed_writer(path, name, moments) for name in range(ROUNDS)}
    async with opened(path) as spool:
        await spool.append(b"end 0")
        pending = spool.pending
        bodies = await drain_all(spool)
    assert len(bodies) == pending
    found = by_name(bodies)
    assert found.pop("end") == [0]
    for name, numbers in answered.items():
        # Without a gap and once; a few more than the answered ones may be there.
        assert found[name] == list(range(len(found[name])))
        assert numbers == found[name][: len(numbers)]


def _killed_writer(path: Path, name: int, moments: random.Random) -> list[int]:
    """Kill a writer after some reports; return the numbers it was answered for."""
    with child("append", path, name, 1_000_000) as process:
        reports = lines(process)
        seen = list(itertools.islice(reports, moments.randrange(1, 200)))
        process.kill()
        # What it wrote into the pipe before it died was answered too.
        return [int(report.split()[1]) for report in [*seen, *reports]]


#: Where a process dies inside an append, and after how many bytes or words.
DEATHS = [("write", after) for after in (0, 1, 7, 8, 60, 118, 119)]
DEATHS += [("sync", 0), ("answer", 0)]
DEATHS += [("state", after) for after in (0, 4, 13)]


@pytest.mark.parametrize(("point", "after"), DEATHS)
async def test_a_death_inside_an_append_does_not_damage_later_ones(
    tmp_path: Path, point: str, after: int
) -> None:
    path = tmp_path / "spool"
    async with opened(path) as spool:
        await spool.append(b"before")
        _dies(path, point, after)
        assert spool.pending == 1
        await spool.append(b"after")
        assert spool.pending == 2
        assert await drain_all(spool, records_max=1) == [b"before", b"after"]
        assert spool.stats().aside_records == 0


@pytest.mark.parametrize(("point", "after"), DEATHS[::2])
async def test_a_death_of_the_only_process_leaves_whole_records(
    tmp_path: Path, point: str, after: int
) -> None:
    path = tmp_path / "spool"
    async with opened(path) as spool:
        await spool.append(b"before")
    _dies(path, point, after)
    async with opened(path) as spool:
        await spool.append(b"after")
        pending = spool.pending
        bodies = await drain_all(spool)
    # Never answered: whole or not at all.
    assert bodies in ([b"before", b"after"], [b"before", b"unanswered " + bytes(100), b"after"])
    assert len(bodies) == pending


def _dies(path: Path, point: str, after: int) -> None:
    with child("die", path, point, after) as process:
        assert list(lines(process)) == []
        assert process.wait() == -9


async def test_a_killed_drain_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    bodies = [b"record %d" % number for number in range(600)]
    async with opened(path) as spool:
        for body in bodies:
            await spool.append(body)
    moments = random.Random(2)
    drained: list[str] = []
    for _ in range(ROUNDS):
        with child("drain", path) as process:
            reports = lines(process)
            seen = list(itertools.islice(reports, moments.randrange(1, 60)))
            process.kill()
            seen += reports
        # It begins again at a batch that was not advanced past, never behind.
        first = int(seen[0].split()[1])
        assert first <= len(set(drained))
        assert seen == [f"record {first + number}" for number in range(len(seen))]
        drained += seen
    async with opened(path) as spool:
        drained += [body.decode() for body in await drain_all(spool)]
    assert list(dict.fromkeys(drained)) == [body.decode() for body in bodies]


async def test_a_dead_leader_can_be_followed(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with opened(path) as spool:
        # More than a pipe holds, so the leader cannot come to its end before it is killed.
        bodies = [b"record %05d" % number for number in range(10_000)]
        await asyncio.gather(*map(spool.append, bodies))
        with child("drain", path) as process:
            first = next(lines(process))
            assert first == "record 00000"
            assert not await spool.try_lead()
        assert await spool.try_lead()
        left = await drain_all(spool, records_max=1000)
        assert left == bodies[-len(left) :]
