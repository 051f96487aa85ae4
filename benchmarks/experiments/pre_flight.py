"""What it takes to find work for 200 waiting pops among 10,000 partitions, 1 % of them with work.

Three steps: the look-up for everybody at once, the question whether one of them has anything
pending, and the choice in memory of who tries which partition.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.broker import BenchmarkError
from benchmarks.database import BenchDatabase, keys_of, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, percentile
from queenmq.engine.pop.board.decision import Room, decide
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.board.pool_index import PoolIndex
from queenmq.engine.pop.intention import Intention, StateTimes
from queenmq.engine.requests import QUEUE_MODE, PopRequest, ResolveAsk, Scope, Subscription
from queenmq.ids import random_uuid
from queenmq.server.http import calm_garbage_collector
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.messages import PostgresMessageStore

ABOUT = "find work for 200 waiting pops among 10,000 partitions, 1 % of them with work"

_INTENTIONS = 200
_PARTITIONS = 10_000
_WORK_EVERY = 100
#: As the broker asks.
_RESOLVE_LIMIT = 1_000
#: The whole of it is to be measured, however long it takes.
_LIMIT_MS = 60_000
#: A percentile and the milliseconds below which it should be.
_RESOLVE_TARGET = (99, 30.0)
_PENDING_TARGET = (50, 1.0)
_CHOICE_TARGET = (99, 5.0)
#: Samples of one round, and the seconds after which a round ends with fewer.
_SAMPLES = 60
_ROUND_S = 4.0


Target = tuple[int, float]
Look = Callable[[PostgresMessageStore, "Shape", str], Awaitable[None]]


@dataclass(frozen=True)
class Shape:
    """How the 200 (queue, group) pairs come about."""

    name: str
    queues: int
    groups: int

    @property
    def text(self) -> str:
        each = f"{_PARTITIONS // self.queues:,} partitions"
        return f"{self.queues} queues x {each}, {self.groups} group{'s' if self.groups > 1 else ''}"

    def queue(self, number: int) -> str:
        return f"{self.name}-{number}"

    def asks(self, horizon: str | None) -> list[ResolveAsk]:
        return [
            ResolveAsk(Scope(queue=self.queue(queue)), f"group-{group}", horizon, ())
            for group in range(self.groups)
            for queue in range(self.queues)
        ]


_SHAPES = (Shape("wide", queues=200, groups=1), Shape("deep", queues=10, groups=20))


async def run(context: Context) -> list[Row]:
    calm_garbage_collector()  # As the broker does.
    async with running_database() as bench:
        database = Database(bench.url, Settings())
        await database.open()
        try:
            store = PostgresMessageStore(database)
            horizons = {}
            for shape in _SHAPES:
                horizons[shape] = await _set_up(bench, store, shape)
                context.say(f"set up: {shape.text}")
            await bench.settle()
            return [*await _look_ups(context, store, horizons), *await _choices(context)]
        finally:
            await database.close()


async def _set_up(bench: BenchDatabase, store: PostgresMessageStore, shape: Shape) -> str:
    """All groups have consumed all partitions; then one in a hundred gets a new message.

    Returns the horizon before that.
    """
    each = _PARTITIONS // shape.queues
    keys = [key for number in range(shape.queues) for key in keys_of(shape.queue(number), each)]
    partition_ids = await bench.make_partitions(keys)
    await bench.push(partition_ids, each=1)
    now = Subscription(None)
    asks = shape.asks(None)
    await store.subscribe_groups([(ask.scope, ask.consumer_group, now) for ask in asks])
    [seen] = await store.pop_sm_resolve(asks[:1], limit=1, limit_ms=_LIMIT_MS)
    await bench.push(partition_ids[::_WORK_EVERY], each=1)
    if seen is None:
        raise BenchmarkError("the first look-up was cut short")
    return seen.horizon


async def _look_ups(
    context: Context, store: PostgresMessageStore, horizons: Mapping[Shape, str]
) -> list[Row]:
    """The shapes take turns. The first round, which is not counted, warms the plans."""
    looks: tuple[tuple[str, Look, Target | None], ...] = (
        (f"pre-flight for {_INTENTIONS} pairs", _resolve, _RESOLVE_TARGET),
        (f"the very first one of {_INTENTIONS} pairs, which reads all", _resolve_all, None),
        ("pending check of one pair", _has_pending, _PENDING_TARGET),
    )
    rounds: dict[tuple[str, Shape], list[list[float]]] = {}
    for number in range(context.rounds + 1):
        for (what, look, _), shape in itertools.product(looks, _SHAPES):
            taken = await _time(functools.partial(look, store, shape, horizons[shape]))
            rounds.setdefault((what, shape), []).append(taken)
        context.say(f"look-ups: {number} of {context.rounds} rounds")
    return [
        _row(what, shape.text, rounds[what, shape][1:], target)
        for (what, _, target), shape in itertools.product(looks, _SHAPES)
    ]


async def _choices(context: Context) -> list[Row]:
    rows = []
    for text, pools in ((f"{_INTENTIONS} pools", _INTENTIONS), ("one pool", 1)):
        taken = [list(_time_choices(pools)) for _ in range(context.rounds)]
        shape = f"{_INTENTIONS} pops, {_PARTITIONS:,} ready partitions, {text}"
        rows.append(_row("the choice in memory, CPU time", shape, taken, _CHOICE_TARGET))
    return rows


async def _resolve(store: PostgresMessageStore, shape: Shape, horizon: str | None) -> None:
    """The look-up, as the broker makes it for everybody who waits: what is new since the last."""
    asks = shape.asks(horizon)
    found = await store.pop_sm_resolve(asks, limit=_RESOLVE_LIMIT, limit_ms=_LIMIT_MS)
    partitions = sum(len(one.partition_ids) for one in found if one is not None)
    if partitions != _PARTITIONS // _WORK_EVERY * shape.groups:
        raise BenchmarkError(f"{shape.text}: the look-up found {partitions} partitions")


async def _resolve_all(store: PostgresMessageStore, shape: Shape, _: str) -> None:
    await _resolve(store, shape, None)


async def _has_pending(store: PostgresMessageStore, shape: Shape, horizon: str) -> None:
    """Whether there is anything for one pair."""
    [found] = await store.has_pending_messages(shape.asks(horizon)[:1], limit_ms=_LIMIT_MS)
    # The first partition of the first queue has work in both shapes.
    if not found:
        raise BenchmarkError(f"{shape.text}: nothing is pending")


def _time_choices(pools: int) -> Iterator[float]:
    """In time of the processor: nothing is waited for, so all else would be the machine's noise."""
    room = Room(requests=_INTENTIONS, candidates=_INTENTIONS, messages=_INTENTIONS)
    waiting = _pools(pools)
    for _ in range(_SAMPLES):
        begin = time.thread_time()
        plan = decide(waiting, set(), room=room)
        yield (time.thread_time() - begin) * 1e3
        if len(plan.assignments) != _INTENTIONS:
            raise BenchmarkError(f"{len(plan.assignments)} of {_INTENTIONS} pops got a partition")


def _pools(count: int) -> list[Pool]:
    """Everybody waits, everything is ready, nothing is decided yet."""
    index, times = PoolIndex(), StateTimes({})
    for number in range(_INTENTIONS):
        scope = Scope(queue=f"queue-{number % count}")
        request = PopRequest(scope=scope, consumer_group=QUEUE_MODE, batch=1)
        pool = index.get_or_add(scope, QUEUE_MODE)
        pool.add(Intention(request, tick=0, answer=None, now_ms=0, times=times))
        for _ in range(_PARTITIONS // _INTENTIONS):
            pool.mark_ready(random_uuid())
    return list(index)


async def _time(look: Callable[[], Awaitable[None]]) -> list[float]:
    """Milliseconds of each look of one round."""
    end = time.perf_counter() + _ROUND_S
    taken: list[float] = []
    while len(taken) < _SAMPLES and (not taken or time.perf_counter() < end):
        begin = time.perf_counter()
        await look()
        taken.append((time.perf_counter() - begin) * 1e3)
    return taken


def _row(what: str, shape: str, rounds: Sequence[Sequence[float]], target: Target | None) -> Row:
    """A percentile needs many samples, so it is that of all rounds; its spread is the medians'."""
    taken = [one for round_ in rounds for one in round_]
    p50, p99 = percentile(taken, 50), percentile(taken, 99)
    medians = [median(one) for one in rounds]
    spread = f"medians {min(medians):.2f} to {max(medians):.2f}"
    return Row(
        what=what,
        shape=f"{shape}, {len(taken)} samples",
        measured=f"p50 {p50:.2f} ms, p99 {p99:.2f} ms ({spread})",
        target="" if target is None else f"p{target[0]} < {target[1]:.0f} ms",
        is_reached=None if target is None else percentile(taken, target[0]) < target[1],
    )
