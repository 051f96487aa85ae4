"""The spool's own files against SQLite: the same records, appended and drained, in turns.

Both write in groups: while one group is being synced, the appends that arrive wait. Then they go to
disk together. SQLite runs with `journal_mode=WAL` and `synchronous=FULL`: each commit is synced.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import shutil
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from benchmarks.database import queries
from benchmarks.experiment import Context, Row
from benchmarks.figures import ratios, with_spread
from queenmq.storage.spool import Spool

ABOUT = "the spool's own files against SQLite"

T = TypeVar("T")
_APPENDERS = (1, 64)
_RECORDS = 4_000
_BODY = b"r" * 250
_BATCH = 500


class Kept(Protocol):
    """A log on disk that is appended to and drained."""

    async def append(self, body: bytes) -> None: ...
    async def drain(self) -> int: ...


class OwnFiles:
    """The spool of the product."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self.append = spool.append

    async def drain(self) -> int:
        drained = 0
        while (batch := await self._spool.read(records_max=_BATCH, bytes_max=1 << 20)).bodies:
            drained += len(batch.bodies)
            await self._spool.advance(batch)
        return drained


class InSqlite:
    """A table of SQLite, with one thread and commits in groups."""

    def __init__(self, path: Path) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._committer: asyncio.Task[None] | None = None
        self._path = path

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def open(self) -> None:
        self._db = await self._run(
            lambda: sqlite3.connect(self._path / "spool.db", isolation_level=None)
        )
        for line in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"):
            await self._run(partial(self._db.execute, line))
        await self._run(lambda: self._db.execute(queries()["sqlite_spool_table"]))

    async def close(self) -> None:
        await self._run(self._db.close)
        self._thread.shutdown()

    async def append(self, body: bytes) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((body, done))
        if self._committer is None:
            self._committer = asyncio.create_task(self._commit())
        await done

    async def _commit(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            await self._run(partial(self._write, [(body,) for body, _ in group]))
            for _, done in group:
                done.set_result(None)
        self._committer = None

    def _write(self, rows: list[tuple[bytes]]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(queries()["sqlite_spool_append"], rows)
        self._db.execute("COMMIT")

    async def drain(self) -> int:
        drained = 0
        while rows := await self._run(self._read):
            drained += len(rows)
            last = rows[-1][0]
            await self._run(partial(self._db.execute, queries()["sqlite_spool_advance"], (last,)))
        return drained

    def _read(self) -> list[tuple[int, bytes]]:
        return self._db.execute(queries()["sqlite_spool_read"], (_BATCH,)).fetchall()


@contextlib.asynccontextmanager
async def _own_files(path: Path) -> AsyncIterator[Kept]:
    spool = Spool(path, bytes_max=1 << 30)
    await spool.open()
    await spool.try_lead()
    try:
        yield OwnFiles(spool)
    finally:
        await spool.close()


@contextlib.asynccontextmanager
async def _in_sqlite(path: Path) -> AsyncIterator[Kept]:
    table = InSqlite(path)
    await table.open()
    try:
        yield table
    finally:
        await table.close()


_SIDES = {"own files": _own_files, "SQLite": _in_sqlite}


async def run(context: Context) -> list[Row]:
    taken: dict[tuple[str, str], list[float]] = {}
    for number in range(context.rounds + 1):
        for appenders in _APPENDERS:
            for side in _SIDES:
                for what, value in (await _measure(side, appenders)).items():
                    taken.setdefault((what, side), []).append(value)
        context.say(f"{number} of {context.rounds} rounds; the first one warms up")
    return _rows({key: values[1:] for key, values in taken.items()})


async def _measure(side: str, appenders: int) -> dict[str, float]:
    """Return microseconds per record, of time and of CPU, for appending and for draining."""
    directory = Path(tempfile.mkdtemp(prefix="queen-bench-"))
    records = _RECORDS if appenders > 1 else _RECORDS // 10
    try:
        async with _SIDES[side](directory) as kept:
            append = await _timed(records, lambda: _append(kept, records, appenders))
            drain = await _timed(records, kept.drain)
    finally:
        shutil.rmtree(directory)
    named = f"append, {appenders} at a time"
    figures = {f"{named}: time": append[0], f"{named}: CPU": append[1]}
    if appenders > 1:
        figures |= {"drain: time": drain[0], "drain: CPU": drain[1]}
    return figures


async def _append(kept: Kept, records: int, appenders: int) -> int:
    async def one() -> None:
        for _ in range(records // appenders):
            await kept.append(_BODY)

    await asyncio.gather(*(one() for _ in range(appenders)))
    return records


async def _timed(records: int, work: Callable[[], Awaitable[int]]) -> tuple[float, float]:
    began, used = time.perf_counter(), _cpu_s()
    await work()
    return (time.perf_counter() - began) / records * 1e6, (_cpu_s() - used) / records * 1e6


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _rows(taken: dict[tuple[str, str], list[float]]) -> list[Row]:
    shape = f"{_RECORDS} records of {len(_BODY)} bytes"
    rows = []
    for what in dict.fromkeys(what for what, _ in taken):
        own, other = taken[what, "own files"], taken[what, "SQLite"]
        against = ratios(other, own)
        measured = (
            f"{with_spread(against, 'x')}; own files {with_spread(own, 'us', digits=0)}, "
            f"SQLite {with_spread(other, 'us', digits=0)}"
        )
        rows.append(Row(what=f"{what} per record, SQLite / own", shape=shape, measured=measured))
    return rows
