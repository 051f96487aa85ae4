"""CPU of broker and PostgreSQL per message: queues with 100,000 partitions against queues with 100.

Both hold the same number of messages, and the requests of wrk are the same.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks import scenario, wrk
from benchmarks.broker import BenchmarkError, Broker
from benchmarks.database import BenchDatabase, keys_of, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread

ABOUT = "push, pop, and pop with ack of ten messages on queues with many and with few partitions"

_KINDS = ("push-10", "pop-10", "pop-ack")
#: Partitions, and messages that each of them holds for the pops.
_FEW, _MANY = (100, 10_000), (100_000, 10)
#: Of one turn. A million messages last for four of them or five.
_SECONDS = 2
_TARGET = 1.2
#: Stands once in every message that `fill` makes.
_MARK = "customer"

Costs = dict[tuple[str, int], list[float]]


async def run(context: Context) -> list[Row]:
    costs: Costs = {}
    async with running_database() as database:
        for kind in _KINDS:
            for partitions, messages in (_FEW, _MANY):
                await _prepare(database, kind, partitions, messages)
        await database.settle()
        with context.broker(database) as broker:
            # The first round warms up and is left out.
            for number in range(context.rounds + 1):
                order = (_FEW, _MANY) if number % 2 else (_MANY, _FEW)
                for kind in _KINDS:
                    for partitions, _ in order:
                        costs.setdefault((kind, partitions), []).append(
                            _measure(broker, kind, partitions)
                        )
                context.say(f"{number} of {context.rounds} rounds")
    return [_row(costs, kind) for kind in _KINDS]


def _queue(kind: str, partitions: int) -> str:
    return f"{kind}-{partitions}"


async def _prepare(database: BenchDatabase, kind: str, partitions: int, messages: int) -> None:
    queue = _queue(kind, partitions)
    if kind.startswith("push"):
        await database.make_partitions(keys_of(queue, partitions))
    else:
        await database.fill(queue, partitions, batches=1, each=messages)


def _measure(broker: Broker, kind: str, partitions: int) -> float:
    """Return the CPU of a message in microseconds."""
    one = replace(scenario.load(kind), partitions=partitions)
    arguments = [
        f"mark={_MARK}" if argument.startswith("mark=") else argument
        for argument in one.arguments(_queue(kind, partitions))
    ]
    before = broker.usage().cpu_s
    seen = wrk.run(broker.url, one.script, arguments, seconds=_SECONDS)
    used_s = broker.usage().cpu_s - before
    # A few pops find all partitions leased to others; many mean that the queue is empty.
    if seen.failed or seen.broken or seen.dry > seen.requests / 20:
        raise BenchmarkError(f"{kind}: {seen.failed} failed, {seen.broken} broken, {seen.dry} dry")
    return used_s / seen.messages * 1e6


def _row(costs: Costs, kind: str) -> Row:
    few, many = costs[kind, _FEW[0]][1:], costs[kind, _MANY[0]][1:]
    cost = ratios(many, few)
    return Row(
        what=f"{kind}: CPU per message",
        shape=f"{_MANY[0]:,} and {_FEW[0]} partitions, {len(few)} rounds",
        measured=f"{with_spread(cost, 'x')}; {median(many):.1f} us and {median(few):.1f} us",
        target=f"<= {_TARGET}x",
        is_reached=median(cost) <= _TARGET,
    )
