"""Measure what an archive costs: the job `archive`, and plain Parquet files of the same messages.

The job sorts, parses payloads into variants, commits to a Delta table, reads back, compares with
the queue by checksum, writes the manifest and marks the partitions; files that Spark just writes
are none of that. Each turn has a new lake and no marks, so that it does the whole work.
"""

from __future__ import annotations

import tempfile

from benchmarks.broker import BenchmarkError
from benchmarks.database import BenchDatabase, queries, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread
from benchmarks.spark_side import SparkSide, running_spark

ABOUT = "Spark archives a queue, local[2]: the job with all its checks, and plain Parquet files"

_QUEUE = "orders"
_PARTITIONS = 1_000
#: Transactions, and messages of each of them for each partition.
_BATCHES, _EACH = 10, 50
_MESSAGES = _PARTITIONS * _BATCHES * _EACH
_JOB, _PLAIN = "archive job", "plain Parquet"
_TARGETS = {_JOB: 60_000}


async def run(context: Context) -> list[Row]:
    async with running_database() as database:
        await database.fill(_QUEUE, _PARTITIONS, batches=_BATCHES, each=_EACH)
        await database.settle()
        async with running_spark("local[2]") as spark:
            rates: dict[str, list[float]] = {_JOB: [], _PLAIN: []}
            # The round before warms everything.
            for number in range(context.rounds + 1):
                for name in rates:
                    rate = await _turn(spark, database, name)
                    if number:
                        rates[name].append(rate)
                context.say(f"{number} of {context.rounds} rounds")
    return _rows(rates, context.rounds)


async def _turn(spark: SparkSide, database: BenchDatabase, name: str) -> float:
    async with database.connection() as connection:
        await connection.execute(queries()["forget_archive"])
        await connection.execute(queries()["checkpoint"])
    source = {"url": database.tcp_url, "queue": _QUEUE}
    with tempfile.TemporaryDirectory(prefix="queen-bench-") as home:
        if name == _JOB:
            done = await spark.work("archive", **source, lake=f"{home}/lake")
            await _check_marks(database)
        else:
            done = await spark.work("write_parquet", **source, folder=f"{home}/files")
    if done.rows != _MESSAGES:
        raise BenchmarkError(f"{name} wrote {done.rows} of {_MESSAGES} messages")
    return done.rows / done.seconds


async def _check_marks(database: BenchDatabase) -> None:
    async with database.connection() as connection:
        marked = await connection.fetchval(queries()["marked"])
    if marked != _MESSAGES:
        raise BenchmarkError(f"{marked} of {_MESSAGES} messages are marked as archived")


def _rows(rates: dict[str, list[float]], rounds: int) -> list[Row]:
    shape = f"{_MESSAGES:,} messages of 200 bytes, {_PARTITIONS:,} partitions, {rounds} rounds"
    cost = ratios(rates[_PLAIN], rates[_JOB])
    return [
        *(
            Row(
                what=name,
                shape=shape,
                measured=with_spread(found, " rows/s", digits=0),
                target=f">= {_TARGETS[name]:,} rows/s" if name in _TARGETS else "",
                is_reached=median(found) >= _TARGETS[name] if name in _TARGETS else None,
            )
            for name, found in rates.items()
        ),
        Row(
            what=f"time of the {_JOB} against {_PLAIN}",
            shape=shape,
            measured=with_spread(cost, "x"),
        ),
    ]
