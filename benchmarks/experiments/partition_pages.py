"""Check whether the dashboard's lists of partitions stay quick in a queue that has very many."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import asyncpg
import msgspec

from benchmarks.broker import Broker
from benchmarks.client import Connection, check, connections
from benchmarks.database import BenchDatabase, keys_of, queries, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, with_spread
from benchmarks.work import STATEMENTS

ABOUT = "what the dashboard asks about a queue of 100,000 partitions and its two groups"

_SIZE = 100_000
_QUEUE = "pages"
#: A group with a cursor in each partition, and one that has visited every second.
_GROUPS = {"everywhere": 1, "halfway": 2}
_LIMIT = 50
_ASKS = 5
_TARGET_MS = 300.0
_PARTITIONS = f"/api/v1/resources/queues/{_QUEUE}/partitions"
#: What a list shows, and the query behind it.
_OF_QUEUE = {
    "by name": "sort=name",
    "deepest": "sort=depth",
    "last pushed to": "sort=newest",
    "blocked": "sort=name&blocked=true",
    "search that all match": "sort=name&search=p",
    "search that few match": "sort=name&search=999",
    "search that none match": "sort=name&search=nothing",
    "deepest, with a search": "sort=depth&search=9",
    "last pushed to, blocked": "sort=newest&blocked=true",
}
_OF_GROUP = {
    "most behind": "sort=lag",
    "by name": "sort=name",
    "last consumed": "sort=recent",
    "under lease": "sort=name&leased=true",
    "search that all match": "sort=lag&search=p",
    "search that few match": "sort=lag&search=999",
    "by name, with a search": "sort=name&search=9",
}
#: Requests of the same pages that are no lists of partitions. They sum up all of them.
_SUMS = {
    "one partition": f"{_PARTITIONS}/p0",
    "counters and options of the queue": f"/api/v1/resources/queues/{_QUEUE}?partitions=false",
    "all queues": "/api/v1/resources/queues",
    "all groups": "/api/v1/consumer-groups",
}


class _List(NamedTuple):
    what: str
    path: str


class _Side(NamedTuple):
    """The client that asks, and the processes whose CPU is measured meanwhile."""

    client: Connection
    session: asyncpg.Connection
    broker: Broker


class _Asked(NamedTuple):
    """One request, asked some times."""

    taken_ms: list[float]
    rows: int
    #: Pages of PostgreSQL, of 8 KiB, of the ask that touched the fewest: the broker has other work.
    blocks: int
    #: Of broker and database, for one ask. Neighbours on the machine change it less than the time.
    cpu_ms: float


async def run(context: Context) -> list[Row]:
    async with running_database(preload=STATEMENTS) as database:
        await _make(database)
        context.say(f"{_SIZE:,} partitions and {len(_GROUPS)} groups are made")
        async with database.connection() as session:
            with context.broker(database) as broker:
                async with connections(broker.address, 1) as [client]:
                    side = _Side(client, session, broker)
                    rows = [row for one in _lists() for row in await _pages(side, one)]
                    for what, path in _SUMS.items():
                        rows.append(_row(what, await _ask(side, path), target=False))
    return rows


async def _make(database: BenchDatabase) -> None:
    ids = await database.make_partitions(keys_of(_QUEUE, _SIZE))
    # Partitions of different depths: one, two, three or four messages.
    for step in (1, 2, 3):
        await database.push(ids[::step], each=1)
    async with database.connection() as session:
        await session.execute(queries()["count_statements"])
        await session.execute(queries()["block_poison"], _QUEUE)
        for group, step in _GROUPS.items():
            await session.execute(queries()["make_group"], _QUEUE, group, step)
    await database.settle()


def _lists() -> Iterator[_List]:
    for what, query in _OF_QUEUE.items():
        yield _List(f"queue: {what}", f"{_PARTITIONS}?{query}")
    for group in _GROUPS:
        for what, query in _OF_GROUP.items():
            path = f"/api/v1/consumer-groups/{group}/queues/{_QUEUE}/partitions?{query}"
            yield _List(f"group {group}: {what}", path)


async def _pages(side: _Side, one: _List) -> list[Row]:
    """The first, a middle and the last page of a list."""
    answer = check(await side.client.get(f"{one.path}&limit=1"), 200)
    pages = max(1, -(-msgspec.json.decode(answer.body)["total"] // _LIMIT))
    numbers = {"first": 0, "middle": pages // 2, "last": pages - 1}
    rows = []
    for name, number in numbers.items():
        if name == "first" or number > 0:
            path = f"{one.path}&limit={_LIMIT}&offset={number * _LIMIT}"
            rows.append(_row(f"{one.what}, {name} page", await _ask(side, path)))
    return rows


async def _ask(side: _Side, path: str) -> _Asked:
    """Ask once for the caches and the plans, then measure."""
    body = check(await side.client.get(path), 200).body
    taken, blocks = [], []
    used_s = side.broker.usage().cpu_s
    for _ in range(_ASKS):
        before = await side.session.fetchval(queries()["blocks"])
        begin = time.perf_counter()
        check(await side.client.get(path), 200)
        taken.append((time.perf_counter() - begin) * 1e3)
        blocks.append(await side.session.fetchval(queries()["blocks"]) - before)
    cpu_ms = (side.broker.usage().cpu_s - used_s) * 1e3 / _ASKS
    return _Asked(taken, _count(msgspec.json.decode(body)), min(blocks), cpu_ms)


def _count(answer: object) -> int:
    """Rows of the list in an answer, which may be the answer itself."""
    if isinstance(answer, dict):
        lists = [value for value in answer.values() if isinstance(value, list)]
        return max(map(len, lists), default=1)
    return len(answer) if isinstance(answer, list) else 1


def _row(what: str, asked: _Asked, *, target: bool = True) -> Row:
    return Row(
        what=what,
        shape=f"{asked.rows} rows, {asked.blocks:,} blocks, {asked.cpu_ms:.0f} ms of CPU",
        measured=with_spread(asked.taken_ms, " ms", digits=1),
        target=f"< {_TARGET_MS:.0f} ms" if target else "",
        is_reached=median(asked.taken_ms) < _TARGET_MS if target else None,
    )
