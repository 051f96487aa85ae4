"""What a second core is worth to Spark: the same read and aggregation on local[1] and local[2].

Two sessions in processes of their own take turns. PostgreSQL runs on the same cores, so that one
Spark core has all of another one for its statements and two have to share. Work over the lake that
the queue was archived to has no such neighbour.
"""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks.broker import BenchmarkError
from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread
from benchmarks.spark_side import SparkSide, running_spark

ABOUT = "Spark reads and aggregates a queue, and its archive, on one core and on two"

_QUEUE = "orders"
_PARTITIONS = 1_000
_BATCHES, _EACH = 20, 50
_ONE, _TWO = "local[1]", "local[2]"
_QUEUE_WORKS = {"read": "read_ours", "read, parse and aggregate": "aggregate"}
#: The lake has few files, of different sizes: more tasks are shared more evenly.
_LAKE_TIMES = 3
_TARGET = 1.6


async def run(context: Context) -> list[Row]:
    rows = []
    async with running_database() as database:
        messages = await database.fill(_QUEUE, _PARTITIONS, batches=_BATCHES, each=_EACH)
        await database.settle()
        async with running_spark(_ONE) as one, running_spark(_TWO) as two:
            sides = {_ONE: one, _TWO: two}
            source = {"url": database.tcp_url, "queue": _QUEUE}
            for what, work in _QUEUE_WORKS.items():
                rates = await _measure(context, sides, messages, work, source)
                rows += _rows(what, _shape(messages, context), rates)
            with tempfile.TemporaryDirectory(prefix="queen-bench-") as lake:
                await two.work("archive", **source, lake=lake)
                read = {"lake": lake, "times": _LAKE_TIMES}
                rates = await _measure(
                    context, sides, messages * _LAKE_TIMES, "aggregate_lake", read
                )
                shape = f"{_LAKE_TIMES} times {_shape(messages, context)}"
                rows += _rows("read, parse and aggregate the lake", shape, rates)
    return rows


def _shape(messages: int, context: Context) -> str:
    return f"{messages:,} messages of 200 bytes, {context.rounds} rounds"


async def _measure(
    context: Context,
    sides: dict[str, SparkSide],
    messages: int,
    work: str,
    arguments: dict[str, Any],
) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {name: [] for name in sides}
    # The round before warms everything.
    for number in range(context.rounds + 1):
        for name, side in sides.items():
            done = await side.work(work, **arguments)
            if done.rows != messages:
                raise BenchmarkError(f"{name} saw {done.rows} of {messages} messages")
            if number:
                rates[name].append(done.rows / done.seconds)
        context.say(f"{work}: {number} of {context.rounds} rounds")
    return rates


def _rows(what: str, shape: str, rates: dict[str, list[float]]) -> list[Row]:
    gain = ratios(rates[_TWO], rates[_ONE])
    return [
        *(
            Row(
                what=f"{what}, {name}",
                shape=shape,
                measured=with_spread(found, " rows/s", digits=0),
            )
            for name, found in rates.items()
        ),
        Row(
            what=f"{what}, two cores against one",
            shape=shape,
            measured=with_spread(gain, "x"),
            target=f">= {_TARGET}x",
            is_reached=median(gain) >= _TARGET,
        ),
    ]
