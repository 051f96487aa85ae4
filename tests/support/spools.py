"""Owns spools in tests: opening and emptying them, and processes that use one and may be killed.

Run as a module, this file is such a process: `append`, `drain`, `die`, `retry` or `fill`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

from queenmq.errors import SpoolFailed
from queenmq.storage.spool import Spool
from queenmq.storage.spool.aside import Aside
from queenmq.storage.spool.state import State

ROOT = Path(__file__).parents[2]
BYTES_MAX = 64 * 1024 * 1024
#: Small, so that a test passes many of them.
SEGMENT_BYTES = 4096
#: Appends that a child has under way at a time.
WINDOW = 8


@contextlib.asynccontextmanager
async def opened(
    path: Path, *, bytes_max: int = BYTES_MAX, segment_bytes: int = SEGMENT_BYTES
) -> AsyncIterator[Spool]:
    """Give an open spool, and close it."""
    spool = Spool(path, bytes_max=bytes_max, segment_bytes=segment_bytes)
    await spool.open()
    try:
        yield spool
    finally:
        await spool.close()


async def drain_all(spool: Spool, *, records_max: int = 7) -> list[bytes]:
    """Lead, read and advance until nothing is left."""
    assert await spool.try_lead()
    bodies: list[bytes] = []
    while spool.pending:
        batch = await spool.read(records_max=records_max, bytes_max=100_000)
        bodies += batch.bodies
        await spool.advance(batch)
    assert spool.pending_bytes == 0
    return bodies


def segment_files(path: Path) -> list[Path]:
    """The segments of a spool, oldest first."""
    return sorted(path.glob("*.log"))


@contextlib.contextmanager
def child(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run this file with arguments; killed at the end, if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.spools", *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def lines(process: subprocess.Popen[str]) -> Iterator[str]:
    """Yield the reports of a child until it ends, without a line torn by its death."""
    assert process.stdout is not None
    return (line[:-1] for line in process.stdout if line.endswith("\n"))


def _report(text: str) -> None:
    os.write(1, f"{text}\n".encode())


async def _append(path: Path, name: str, count: int) -> None:
    """Append numbered records, several at a time, and report each one that was answered."""
    async with opened(path) as spool:
        under_way: dict[int, asyncio.Task[None]] = {}
        for number in range(count):
            task = asyncio.create_task(spool.append(f"{name} {number}".encode()))
            under_way[number] = task
            if len(under_way) == WINDOW:
                oldest = min(under_way)
                await under_way.pop(oldest)
                _report(f"{name} {oldest}")
        for number, task in under_way.items():
            await task
            _report(f"{name} {number}")


async def _drain(path: Path) -> None:
    """Report records and then advance past them, a few at a time, until there are none."""
    async with opened(path) as spool:
        assert await spool.try_lead()
        while spool.pending:
            batch = await spool.read(records_max=3, bytes_max=100_000)
            for body in batch.bodies:
                _report(body.decode())
            await spool.advance(batch)


async def _die(path: Path, point: str, after: int) -> None:
    """Die inside an append: after some bytes of the write, around the sync, or in the state."""
    async with opened(path) as spool:
        _die_at(point, after)
        await spool.append(b"unanswered " + bytes(100))
        _report("answered")


def _die_at(point: str, after: int) -> None:
    def die(*_: object) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    real_write, real_sync, real_words = os.pwrite, os.fdatasync, State._words

    def write_some(descriptor: int, data: bytes, offset: int) -> int:
        real_write(descriptor, data[:after], offset)
        return die()

    def die_after_sync(descriptor: int) -> None:
        real_sync(descriptor)
        die()

    def some_words(state: State) -> Iterable[int]:
        yield from real_words(state)[:after]
        die()

    if point == "write":
        os.pwrite = write_some  # type: ignore[assignment]
    elif point == "sync":
        os.fdatasync = die
    elif point == "answer":
        os.fdatasync = die_after_sync
    elif point == "forget":
        Aside.replace = die  # type: ignore[method-assign,assignment]
    elif point == "state":
        State._words = some_words  # type: ignore[assignment,method-assign]


async def _retry(path: Path) -> None:
    """Put back what was set aside, and die before that is noted."""
    async with opened(path) as spool:
        _die_at("forget", 0)
        await spool.retry_aside(lambda body: True)
        _report("done")


async def _fill(path: Path) -> None:
    """Append until files may not grow further, then again when they may."""
    async with opened(path, segment_bytes=1024 * 1024) as spool:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
        number = 0
        with contextlib.suppress(SpoolFailed):
            while True:
                await spool.append(f"{number} ".encode() + bytes(299))
                _report(str(number))
                number += 1
        _report("full")
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await spool.append(f"{number + 1} ".encode())
        _report(str(number + 1))


def _main(command: str, path: str, *rest: str) -> None:
    place = Path(path)
    if command == "append":
        asyncio.run(_append(place, rest[0], int(rest[1])))
    elif command == "drain":
        asyncio.run(_drain(place))
    elif command == "die":
        asyncio.run(_die(place, rest[0], int(rest[1])))
    elif command == "retry":
        asyncio.run(_retry(place))
    elif command == "fill":
        asyncio.run(_fill(place))


if __name__ == "__main__":
    _main(*sys.argv[1:])
