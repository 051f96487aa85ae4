"""Check whether a pop that names no partition gets dearer with the number of partitions."""

from __future__ import annotations

import math

from benchmarks.client import Connection, connections
from benchmarks.database import BenchDatabase, keys_of, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread
from benchmarks.pops import Timings, drain, time_in_turn

ABOUT = "autoAck pop of one message from any partition, one partition in a hundred has work"

_SIZES = (10, 1_000, 10_000, 100_000)
_POPS = 200
#: An empty pop has to look everywhere before it may say so, so fewer of them will do.
_EMPTY_POPS = 10
_TARGET = 2.0


async def run(context: Context) -> list[Row]:
    async with running_database() as database:
        for size in _SIZES:
            await _fill(database, size, messages=_POPS * (context.rounds + 1))
            context.say(f"{size:,} partitions are made")
        await database.settle()
        with context.broker(database) as broker:
            async with connections(broker.address, 1) as [client]:
                return await _measure(context, client)


async def _fill(database: BenchDatabase, size: int, *, messages: int) -> None:
    partition_ids = await database.make_partitions(keys_of(_queue(size), size))
    with_work = partition_ids[:: min(100, size)]
    # Twice as many as will be popped: running out is measured apart.
    await database.push(with_work, each=2 * math.ceil(messages / len(with_work)))


async def _measure(context: Context, client: Connection) -> list[Row]:
    queues = [_queue(size) for size in _SIZES]
    busy = await time_in_turn(client, queues, rounds=context.rounds, count=_POPS)
    context.say("pops with work are done")
    for queue in queues:
        await drain(client, queue)
    empty = await time_in_turn(client, queues, rounds=context.rounds, count=_EMPTY_POPS, status=204)
    least, most = (busy[_queue(size)].rounds for size in (_SIZES[0], _SIZES[-1]))
    growth = ratios(most, least)
    return [
        *_rows("a pop that finds work", busy, f"{context.rounds} rounds of {_POPS}"),
        *_rows("a pop when nothing is left", empty, f"{context.rounds} rounds of {_EMPTY_POPS}"),
        Row(
            what="most partitions against fewest",
            shape=f"{_SIZES[-1]:,} and {_SIZES[0]:,} partitions",
            measured=with_spread(growth, "x"),
            target=f"<= {_TARGET:.0f}x",
            is_reached=median(growth) <= _TARGET,
        ),
    ]


def _rows(what: str, timings: dict[str, Timings], rounds: str) -> list[Row]:
    return [
        Row(
            what=what,
            shape=f"{size:,} partitions, {rounds}",
            measured=timings[_queue(size)].text(),
        )
        for size in _SIZES
    ]


def _queue(size: int) -> str:
    return f"partitions-{size}"
