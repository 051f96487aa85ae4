"""Measure how fast Spark reads a queue: our data source, the same by JDBC, and row at a time.

All read the same columns in tasks of the same ranges, to nowhere. JDBC gets its ranges for nothing:
finding them counts for the others only. Row at a time has a tenth of the messages to read, or it
would take all the time there is.
"""

from __future__ import annotations

from benchmarks.broker import BenchmarkError
from benchmarks.database import BenchDatabase, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread
from benchmarks.spark_side import NO_JAR, SparkSide, find_jar, running_spark

ABOUT = "Spark reads a queue, local[2]: our source, JDBC and a source of rows"

_PARTITIONS = 1_000
#: Messages of a transaction for each partition, and transactions of each queue.
_EACH = 50
_BATCHES = {"orders": 20, "few": 2}
_OURS, _ROWS, _JDBC = "our source", "row at a time", "JDBC"
#: Work and queue.
_SIDES = {
    _OURS: ("read_ours", "orders"),
    _ROWS: ("read_rows", "few"),
    _JDBC: ("read_jdbc", "orders"),
}
_TARGETS = {_JDBC: 1.0, _ROWS: 2.0}


async def run(context: Context) -> list[Row]:
    jar = find_jar()
    if jar is None:
        context.say(NO_JAR)
    sides = [name for name in _SIDES if jar or name != _JDBC]
    async with running_database() as database:
        for queue, batches in _BATCHES.items():
            await database.fill(queue, _PARTITIONS, batches=batches, each=_EACH)
        await database.settle()
        async with running_spark("local[2]", jar) as spark:
            rates: dict[str, list[float]] = {name: [] for name in sides}
            # The round before warms everything.
            for number in range(context.rounds + 1):
                for name in sides:
                    rate = await _turn(spark, database, name)
                    if number:
                        rates[name].append(rate)
                context.say(f"{number} of {context.rounds} rounds")
    return _rows(rates, context.rounds)


def _messages(name: str) -> int:
    return _BATCHES[_SIDES[name][1]] * _EACH * _PARTITIONS


async def _turn(spark: SparkSide, database: BenchDatabase, name: str) -> float:
    work, queue = _SIDES[name]
    done = await spark.work(work, url=database.tcp_url, queue=queue)
    messages = _messages(name)
    if done.rows != messages:
        raise BenchmarkError(f"{name} read {done.rows} of {messages} messages")
    return done.rows / done.seconds


def _shape(name: str, rounds: int) -> str:
    return f"{_messages(name):,} messages of 200 bytes, {rounds} rounds"


def _rows(rates: dict[str, list[float]], rounds: int) -> list[Row]:
    rows = [
        Row(
            what=name,
            shape=_shape(name, rounds),
            measured=with_spread(found, " rows/s", digits=0),
        )
        for name, found in rates.items()
    ]
    for name, target in _TARGETS.items():
        if name in rates:
            gain = ratios(rates[_OURS], rates[name])
            rows.append(
                Row(
                    what=f"our source against {name}",
                    shape=_shape(name, rounds),
                    measured=with_spread(gain, "x"),
                    target=f">= {target:.1f}x",
                    is_reached=median(gain) >= target,
                )
            )
        else:
            rows.append(Row(what=name, shape=_shape(name, rounds), measured=f"left out: {NO_JAR}"))
    return rows
