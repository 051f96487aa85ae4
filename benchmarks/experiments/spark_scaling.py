"""What a second core is worth to Spark: the same read and aggregation on one core and on two.

Two sessions in processes of their own take turns: local[1], with all its JVM and Python and with
PostgreSQL on one core, and local[2], with all of that on two. A session of one core that leaves the
second one to the database would measure something else: with a database on the same machine, it
uses both.
"""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks.broker import BenchmarkError
from benchmarks.cores import move_server, some_cores
from benchmarks.database import BenchDatabase, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread
from benchmarks.spark_side import SparkSide, running_spark

ABOUT = "Spark reads and aggregates a queue, and its archive, on one core and on two"

_QUEUE = "orders"
_PARTITIONS = 1_000
_BATCHES, _EACH = 20, 50
#: Sides by their number of cores.
_ONE, _TWO = 1, 2
_QUEUE_WORKS = {"read": "read_ours", "read, parse and aggregate": "aggregate"}
#: The lake has few files, of different sizes: more tasks are shared more evenly.
_LAKE_TIMES = 5
_TARGET = 1.6


async def run(context: Context) -> list[Row]:
    rows = []
    one_core, both = some_cores(_ONE), some_cores(_TWO)
    async with running_database() as database:
        messages = await database.fill(_QUEUE, _PARTITIONS, batches=_BATCHES, each=_EACH)
        await database.settle()
        async with (
            running_spark("local[1]", cores=one_core) as one,
            running_spark("local[2]", cores=both) as two,
        ):
            sides = _Sides(context, database, {_ONE: one, _TWO: two})
            source = {"url": database.tcp_url, "queue": _QUEUE}
            for what, work in _QUEUE_WORKS.items():
                rates = await sides.measure(messages, work, source)
                rows += _rows(what, _shape(messages, context), rates)
            with tempfile.TemporaryDirectory(prefix="queen-bench-") as lake:
                await two.work("archive", **source, lake=lake)
                read = {"lake": lake, "times": _LAKE_TIMES}
                rates = await sides.measure(messages * _LAKE_TIMES, "aggregate_lake", read)
                shape = f"{_LAKE_TIMES} times {_shape(messages, context)}"
                rows += _rows("read, parse and aggregate the lake", shape, rates)
    return rows


def _shape(messages: int, context: Context) -> str:
    return f"{messages:,} messages of 200 bytes, {context.rounds} rounds"


class _Sides:
    """One core and two, in turns."""

    def __init__(
        self, context: Context, database: BenchDatabase, sides: dict[int, SparkSide]
    ) -> None:
        self._context = context
        self._database = database
        self._sides = sides

    async def measure(
        self, messages: int, work: str, arguments: dict[str, Any]
    ) -> dict[int, list[float]]:
        """Rows per second of each side, round by round."""
        rounds = self._context.rounds
        rates: dict[int, list[float]] = {cores: [] for cores in self._sides}
        # The round before warms everything.
        for number in range(rounds + 1):
            for cores, side in self._sides.items():
                move_server(self._database.data_dir, some_cores(cores))
                done = await side.work(work, **arguments)
                if done.rows != messages:
                    raise BenchmarkError(f"{done.rows} of {messages} messages on {cores} cores")
                if number:
                    rates[cores].append(done.rows / done.seconds)
            self._context.say(f"{work}: {number} of {rounds} rounds")
        return rates


def _rows(what: str, shape: str, rates: dict[int, list[float]]) -> list[Row]:
    gain = ratios(rates[_TWO], rates[_ONE])
    return [
        *(
            Row(
                what=f"{what}, {cores} core" + "s" * (cores > 1),
                shape=shape,
                measured=with_spread(found, " rows/s", digits=0),
            )
            for cores, found in rates.items()
        ),
        Row(
            what=f"{what}, two cores against one",
            shape=shape,
            measured=with_spread(gain, "x"),
            target=f">= {_TARGET}x",
            is_reached=median(gain) >= _TARGET,
        ),
    ]
