"""Measure what many partitions cost, and what is left of that when half of them are removed.

QUEEN_BENCH_PARTITIONS says how many; a million unless set.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from benchmarks.client import Connection, check, connections
from benchmarks.database import BenchDatabase, queries, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import percentile

ABOUT = "partitions with a cursor each; half of them removed because they are empty and idle"

_COUNT = int(os.environ.get("QUEEN_BENCH_PARTITIONS", "1000000"))
_CHUNK = 10_000
_QUEUE = "many"
_CONNECTIONS = 4
_MESSAGES = 2_000
#: A push that makes a partition waits for a call of the removal, some 20 ms, and for its own.
_TARGET_CALL_MS = 100.0


@dataclass(frozen=True)
class _Picture:
    """The database and a broker at one time."""

    name: str
    bytes: int
    start_s: float
    rss_mb: float
    push_s: float
    push_p99_ms: float
    pop_s: float


async def run(context: Context) -> list[Row]:
    async with running_database() as database:
        made_s = await _make(context, database)
        whole = await _picture(context, database, f"{_COUNT:,} partitions")
        async with database.connection() as session:
            await session.execute(queries()["let_rest"], _QUEUE)
        await database.settle()
        removed, calls_ms, pushes_ms, took_s = await _remove(context, database)
        await database.settle()
        half = await _picture(context, database, f"{removed:,} of them removed")
    worst = max(calls_ms)
    return [
        Row(what="making them", shape=f"{_COUNT:,}", measured=f"{_COUNT / made_s:,.0f}/s"),
        *_rows(whole),
        Row(what="removing", shape=f"{removed:,}", measured=f"{removed / took_s:,.0f}/s"),
        Row(
            what="a call that removes 200",
            shape=f"{len(calls_ms):,} calls",
            measured=f"p50 {percentile(calls_ms, 50):.1f} ms, p99 {percentile(calls_ms, 99):.1f}",
            target=f"p99 < {_TARGET_CALL_MS:.0f} ms",
            is_reached=percentile(calls_ms, 99) < _TARGET_CALL_MS,
        ),
        Row(
            what="pushes beside it",
            shape=f"{len(pushes_ms):,} pushes, one in ten makes a partition",
            measured=f"p50 {percentile(pushes_ms, 50):.1f} ms, p99 {percentile(pushes_ms, 99):.1f},"
            f" longest call {worst:.0f}",
        ),
        *_rows(half),
    ]


async def _make(context: Context, database: BenchDatabase) -> float:
    began = time.perf_counter()
    async with database.connection() as session:
        for first in range(0, _COUNT, _CHUNK):
            last = min(first + _CHUNK, _COUNT) - 1
            await session.execute(queries()["make_many"], _QUEUE, first, last)
            if first % (100 * _CHUNK) == 0:
                context.say(f"{last + 1:,} partitions are made")
    took = time.perf_counter() - began
    await database.settle()
    return took


async def _picture(context: Context, database: BenchDatabase, name: str) -> _Picture:
    began = time.perf_counter()
    with context.broker(database) as broker:
        start_s = time.perf_counter() - began
        async with connections(broker.address, _CONNECTIONS) as clients:
            began = time.perf_counter()
            taken = await _push(clients, _MESSAGES)
            push_s = _MESSAGES / (time.perf_counter() - began)
            began = time.perf_counter()
            await asyncio.gather(*(_pop(client, _MESSAGES // _CONNECTIONS) for client in clients))
            pop_s = _MESSAGES / (time.perf_counter() - began)
        rss_mb = broker.usage().broker_rss_bytes / 1e6
    async with database.connection() as session:
        size = await session.fetchval(queries()["partition_bytes"])
    context.say(f"{name}: measured")
    return _Picture(name, size, start_s, rss_mb, push_s, percentile(taken, 99), pop_s)


def _rows(seen: _Picture) -> list[Row]:
    values = (
        ("disk of partitions, lookup and cursors", f"{seen.bytes / 1e6:,.0f} MB"),
        ("start of a broker", f"{seen.start_s:.1f} s"),
        ("memory of a broker", f"{seen.rss_mb:.0f} MB"),
        ("push of 1", f"{seen.push_s:,.0f}/s, p99 {seen.push_p99_ms:.1f} ms"),
        ("pop of 1 from any partition", f"{seen.pop_s:,.0f}/s"),
    )
    return [Row(what=what, shape=seen.name, measured=text) for what, text in values]


async def _push(clients: Sequence[Connection], count: int, *, new: float = 0.0) -> list[float]:
    """Push to partitions by chance and return the milliseconds; a share makes new ones."""
    chance = random.Random(1)
    taken: list[float] = []

    async def push(client: Connection) -> None:
        for number in range(count // len(clients)):
            # Odd ones stay when the others go.
            place = f"p{chance.randrange(_COUNT // 2) * 2 + 1}"
            if chance.random() < new:
                place = f"new-{number}-{chance.random()}"
            body = f'{{"items":[{{"queue":"{_QUEUE}","partition":"{place}","payload":1}}]}}'
            begin = time.perf_counter()
            check(await client.post("/api/v1/push", body.encode()), 201)
            taken.append((time.perf_counter() - begin) * 1e3)

    await asyncio.gather(*map(push, clients))
    return taken


async def _pop(client: Connection, count: int) -> None:
    path = f"/api/v1/pop/queue/{_QUEUE}?consumerGroup=g&autoAck=true&wait=true&timeout=10000"
    for _ in range(count):
        check(await client.get(path), 200)


async def _remove(
    context: Context, database: BenchDatabase
) -> tuple[int, list[float], list[float], float]:
    """Remove what is idle beside pushes: how many went, the times of both, and how long it took."""
    calls_ms: list[float] = []
    pushes_ms: list[float] = []
    removed = 0
    began = time.perf_counter()
    with context.broker(database) as broker:
        async with database.connection() as session, connections(broker.address, 2) as clients:
            after: UUID | None = UUID(int=0)
            pushing = asyncio.create_task(_push(clients, 1_000, new=0.1))
            while after is not None:
                begin = time.perf_counter()
                row = await session.fetchrow(queries()["remove_idle"], _QUEUE, after)
                assert row is not None
                if row["removed"]:
                    calls_ms.append((time.perf_counter() - begin) * 1e3)
                removed, after = removed + row["removed"], row["next_after"]
            took_s = time.perf_counter() - began
            pushes_ms += await pushing
    return removed, calls_ms, pushes_ms, took_s
