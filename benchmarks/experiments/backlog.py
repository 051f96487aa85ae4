"""Check whether a pop gets dearer with the number of messages that wait behind the one it takes."""

from __future__ import annotations

from benchmarks.client import connections
from benchmarks.database import BenchDatabase, keys_of, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, with_spread
from benchmarks.pops import slowest_to_fastest, time_in_turn

ABOUT = "autoAck pop of one message from a queue with one partition and a backlog"

_SIZES = (1_000, 10_000, 100_000, 1_000_000)
#: The smallest backlog must not end: all rounds together pop less than half of it.
_POPS_MAX = 400
_TARGET = 1.5


async def run(context: Context) -> list[Row]:
    count = _POPS_MAX // (context.rounds + 1)
    async with running_database() as database:
        for size in _SIZES:
            await _fill(database, size)
            context.say(f"{size:,} messages are pushed")
        await database.settle()
        with context.broker(database) as broker:
            async with connections(broker.address, 1) as [client]:
                timings = await time_in_turn(
                    client, [_queue(size) for size in _SIZES], rounds=context.rounds, count=count
                )
    growth = slowest_to_fastest(timings)
    rows = [
        Row(
            what="pop",
            shape=f"backlog of {size:,}, {context.rounds} rounds of {count}",
            measured=timings[_queue(size)].text(),
        )
        for size in _SIZES
    ]
    verdict = Row(
        what="slowest backlog against fastest",
        shape=f"{_SIZES[0]:,} to {_SIZES[-1]:,} messages",
        measured=with_spread(growth, "x"),
        target=f"<= {_TARGET}x",
        is_reached=median(growth) <= _TARGET,
    )
    return [*rows, verdict]


async def _fill(database: BenchDatabase, size: int) -> None:
    await database.push(await database.make_partitions(keys_of(_queue(size), 1)), each=size)


def _queue(size: int) -> str:
    return f"backlog-{size}"
