"""The same 500 leased pops in four ways: how much joining them into two calls is worth.

All sides talk to one server over the same driver. Every turn starts with all partitions free and
ends with all 500 leased; a side that did not get every message it should have is an error.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from uuid import UUID

import asyncpg

from benchmarks.broker import BenchmarkError
from benchmarks.database import BenchDatabase, keys_of, queries, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread
from queenmq.engine.load.pressure import OperationType
from queenmq.engine.requests import QUEUE_MODE, PopCandidate, ResolveAsk, Scope
from queenmq.ids import new_lease_id
from queenmq.server.http import calm_garbage_collector
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.messages import PostgresMessageStore

ABOUT = "500 leased pops on 500 partitions x 100 messages, joined and not joined"

_QUEUE = "comparison"
_PARTITIONS = 500
_MESSAGES = 100
_BATCHES = (1, 10)
_CROWD = 50
_TARGET = 25.0
#: Sides in the order of the table; ours is last.
_OURS = "two joined calls (ours)"
_SEQUENTIAL = "one call per pop, one connection"


async def run(context: Context) -> list[Row]:
    calm_garbage_collector()  # As the broker does.
    settings = Settings(db_pool_size=_CROWD)
    async with running_database() as bench, bench.connections(2) as pair:
        database = Database(bench.url, settings)
        await database.open()
        try:
            partition_ids = await _set_up(bench)
            sides = Sides(pair, database, settings.pop_candidates_max, partition_ids)
            await _make_cursors(bench, sides)
            rows = []
            for batch in _BATCHES:
                rows += _rows(batch, await _measure(context, sides, batch))
            return rows
        finally:
            await database.close()


async def _set_up(bench: BenchDatabase) -> list[UUID]:
    partition_ids = await bench.make_partitions(keys_of(_QUEUE, _PARTITIONS))
    await bench.push(partition_ids, each=_MESSAGES)
    await bench.add_function("pop_one_by_one")
    await bench.settle()
    return partition_ids


async def _make_cursors(bench: BenchDatabase, sides: Sides) -> None:
    """By one turn of each side; only then do the planner's statistics know that there are any."""
    for pop_all in sides.all().values():
        await _turn(sides, pop_all, 1)
    await bench.settle()


async def _measure(context: Context, sides: Sides, batch: int) -> dict[str, list[float]]:
    """Seconds of each side, round by round. The round before warms the plans."""
    seconds: dict[str, list[float]] = {name: [] for name in sides.all()}
    for number in range(context.rounds + 1):
        for name, pop_all in sides.all().items():
            taken = await _turn(sides, pop_all, batch)
            if number:
                seconds[name].append(taken)
        context.say(f"batch {batch}: {number} of {context.rounds} rounds")
    return seconds


async def _turn(sides: Sides, pop_all: Callable[[int], Awaitable[int]], batch: int) -> float:
    await sides.release()
    begin = time.perf_counter()
    messages = await pop_all(batch)
    taken = time.perf_counter() - begin
    if messages != _PARTITIONS * batch:
        raise BenchmarkError(f"{pop_all.__name__} got {messages} of {_PARTITIONS * batch} messages")
    return taken


def _rows(batch: int, seconds: dict[str, list[float]]) -> list[Row]:
    shape = f"500 pops, batch {batch}, {len(seconds[_OURS])} rounds"
    rows = [
        Row(what=name, shape=shape, measured=with_spread([s * 1e3 for s in taken], " ms", digits=0))
        for name, taken in seconds.items()
    ]
    gain = ratios(seconds[_SEQUENTIAL], seconds[_OURS])
    others = [taken for name, taken in seconds.items() if name != _OURS]
    lead = [min(round_) / ours for *round_, ours in zip(*others, seconds[_OURS], strict=True)]
    return [
        *rows,
        Row(
            what="ours against one call per pop",
            shape=shape,
            measured=with_spread(gain, "x", digits=1),
            target=f">= {_TARGET:.0f}x",
            is_reached=median(gain) >= _TARGET,
        ),
        Row(
            what="ours against the fastest other",
            shape=shape,
            measured=with_spread(lead, "x", digits=1),
            target="> 1x",
            is_reached=median(lead) > 1,
        ),
    ]


class Sides:
    """The ways to pop once from every partition. Each answers with the messages it got."""

    def __init__(
        self,
        pair: Sequence[asyncpg.Connection],
        crowd: Database,
        candidates_max: int,
        partition_ids: Sequence[UUID],
    ) -> None:
        self._pair = pair
        self._crowd = crowd
        self._store = PostgresMessageStore(crowd)
        self._candidates_max = candidates_max
        self._partition_ids = partition_ids
        self._random = random.Random(1)

    def all(self) -> dict[str, Callable[[int], Awaitable[int]]]:
        return {
            _SEQUENTIAL: self._one_after_the_other,
            "a loop inside one call": self._loop,
            "resolve, lease, fetch per pop, 50 connections": self._machines,
            "lease, fetch per pop, 50 connections": self._machines_that_know,
            _OURS: self._joined,
        }

    async def release(self) -> None:
        """Free all partitions."""
        await self._pair[0].execute(queries()["release_leases"])

    async def _one_after_the_other(self, batch: int) -> int:
        found = 0
        for partition_id in self._partition_ids:
            columns = _columns([_candidate(1, partition_id, batch)])
            found += _count(await self._pair[0].fetch(queries()["pop"], *columns))
        return found

    async def _loop(self, batch: int) -> int:
        _, *columns = _columns(list(self._candidates(self._partition_ids, batch)))
        return _count(await self._pair[0].fetch(queries()["pop_one_by_one"], *columns))

    async def _joined(self, batch: int) -> int:
        """As the broker does: every connection has its share, no call has too many candidates."""
        count = len(self._pair)
        shares = [self._partition_ids[first::count] for first in range(count)]
        return sum(await asyncio.gather(*map(self._share, self._pair, shares, [batch] * count)))

    async def _share(
        self, connection: asyncpg.Connection, share: Sequence[UUID], batch: int
    ) -> int:
        found = 0
        for first in range(0, len(share), self._candidates_max):
            part = share[first : first + self._candidates_max]
            columns = _columns(list(self._candidates(part, batch)))
            found += _count(await connection.fetch(queries()["pop"], *columns))
        return found

    async def _machines(self, batch: int) -> int:
        return await self._crowded([None] * len(self._partition_ids), batch)

    async def _machines_that_know(self, batch: int) -> int:
        return await self._crowded(self._partition_ids, batch)

    async def _crowded(self, wanted: Sequence[UUID | None], batch: int) -> int:
        """Every connection serves the next pop as soon as it is free."""
        rest = iter(wanted)

        async def serve() -> int:
            return sum([await self._machine(partition_id, batch) for partition_id in rest])

        return sum(await asyncio.gather(*(serve() for _ in range(_CROWD))))

    async def _machine(self, partition_id: UUID | None, batch: int) -> int:
        """One pop by itself: find a partition, lease it, read it; again if another was faster."""
        while True:
            chosen = partition_id or await self._resolve()
            columns = _columns([_candidate(1, chosen, batch)])
            grants = [tuple(row[0]) for row in await self._fetch(queries()["lease"], *columns)]
            granted = [grant for grant in grants if grant[3] == "granted"]
            if granted:
                return _count(await self._fetch(queries()["fetch"], granted))

    async def _fetch(self, query: str, *arguments: object) -> list[asyncpg.Record]:
        return await self._crowd.fetch(query, *arguments, priority=OperationType.POP)

    async def _resolve(self) -> UUID:
        """Not simply the first one found: all connections would then try the same partition."""
        ask = ResolveAsk(Scope(queue=_QUEUE), QUEUE_MODE, None, ())
        [found] = await self._store.pop_sm_resolve([ask], limit=_CROWD, limit_ms=2_000)
        if found is None:
            raise BenchmarkError("a look-up was cut short")
        chosen: UUID = self._random.choice(found.partition_ids)
        return chosen

    def _candidates(self, partition_ids: Sequence[UUID], batch: int) -> Iterator[PopCandidate]:
        for number, partition_id in enumerate(partition_ids, 1):
            yield _candidate(number, partition_id, batch)


def _candidate(number: int, partition_id: UUID, batch: int) -> PopCandidate:
    return PopCandidate(number, partition_id, QUEUE_MODE, batch, False, new_lease_id(partition_id))


def _columns(candidates: Sequence[PopCandidate]) -> list[list[object]]:
    columns = zip(*candidates, strict=True)
    # Without the last one, times of leases: these pops take those of their queue.
    return [list(column) for column in columns][: PopCandidate._fields.index("lease_seconds")]


def _count(rows: Sequence[asyncpg.Record]) -> int:
    return sum(row["message_count"] or 0 for row in rows)
