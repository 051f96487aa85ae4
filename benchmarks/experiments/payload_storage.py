"""Measure how to store payloads of several KB: compressed by PostgreSQL (pglz), or as they are.

One session pushes and reads back through Queen's own functions, and the sides take turns.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import asyncpg

from benchmarks.broker import BenchmarkError
from benchmarks.database import keys_of, queries, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread

ABOUT = "payloads of 1, 4 and 16 KB, compressed in the table and not"

_SIDES = {"compressed": queries()["store_compressed"], "plain": queries()["store_plain"]}
_SIZES_KB = (1, 4, 16)
_PARTITIONS = 20
_MESSAGES_EACH = 50


class Cost(NamedTuple):
    """For one message."""

    push_us: float
    read_us: float
    wal_bytes: float
    disk_bytes: float


async def run(context: Context) -> list[Row]:
    found: dict[tuple[int, str], list[Cost]] = defaultdict(list)
    async with running_database() as database, database.connection() as session:
        for number in range(context.rounds + 1):
            for size in _SIZES_KB:
                for side, statement in _SIDES.items():
                    await session.execute(statement)
                    queue = f"{side}-{size}-{number}"
                    ids = await database.make_partitions(keys_of(queue, _PARTITIONS))
                    cost = await _measure(session, sorted(ids), _payload(size))
                    if number:
                        found[size, side].append(cost)
            context.say(f"{number} of {context.rounds} rounds; the first one warms up")
    return [row for size in _SIZES_KB for row in _rows(size, found)]


def _payload(size_kb: int) -> str:
    """JSON of about that size, as orders have it: names that repeat, values that do not."""
    chance = random.Random(size_kb)
    lines: list[dict[str, object]] = []
    while len(json.dumps(lines)) < size_kb * 1024:
        sku, price = f"{chance.getrandbits(48):012x}", round(chance.uniform(1, 500), 2)
        lines.append(
            {"sku": sku, "quantity": chance.randint(1, 9), "price": price, "tax": "reduced"}
        )
    return json.dumps(lines)


async def _measure(session: asyncpg.Connection, ids: list[UUID], payload: str) -> Cost:
    count = len(ids) * _MESSAGES_EACH
    before = await _state(session)
    outcomes = await session.fetchval(queries()["push_evenly"], ids, _MESSAGES_EACH, payload)
    if outcomes != "q" * count:
        raise BenchmarkError("not all messages were stored")
    pushed = await _state(session)
    await session.fetchval(queries()["read_payloads"], ids)
    after = await _state(session)
    return Cost(
        push_us=(pushed.cpu_us - before.cpu_us) / count,
        read_us=(after.cpu_us - pushed.cpu_us) / count,
        wal_bytes=(pushed.wal_bytes - before.wal_bytes) / count,
        disk_bytes=(pushed.disk_bytes - before.disk_bytes) / count,
    )


class _State(NamedTuple):
    cpu_us: float
    wal_bytes: int
    disk_bytes: int


async def _state(session: asyncpg.Connection) -> _State:
    (wal,) = await session.fetch(queries()["written"])
    (disk,) = await session.fetch(queries()["message_bytes"])
    # Nanoseconds on a processor come first.
    spent_ns = int(Path(f"/proc/{disk['pid']}/schedstat").read_text().split()[0])
    return _State(spent_ns / 1000, wal["bytes"], disk["bytes"])


def _rows(size_kb: int, found: dict[tuple[int, str], list[Cost]]) -> list[Row]:
    plain, compressed = found[size_kb, "plain"], found[size_kb, "compressed"]
    rows = []
    for what in Cost._fields:
        sides = [[getattr(cost, what) for cost in costs] for costs in (plain, compressed)]
        rows.append(
            Row(
                what=f"{size_kb} KB: {what.replace('_', ' ')}, plain against compressed",
                shape=f"{_PARTITIONS * _MESSAGES_EACH} messages, {len(plain)} alternating rounds",
                measured=f"{with_spread(ratios(*sides), 'x')}; {median(sides[0]):,.0f} plain,"
                f" {median(sides[1]):,.0f} compressed",
            )
        )
    return rows
