"""What a day of a busy queue costs to measure: the job `analytics`, and a plain read beside it.

A group has consumed most of the messages, step by step with a history of its acks, so that the job
has latencies, consumption and backlogs to work out as well as pushes.
"""

from __future__ import annotations

from datetime import timedelta

from benchmarks.broker import BenchmarkError
from benchmarks.database import BenchDatabase, queries, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import ratios, with_spread
from benchmarks.spark_side import Done, SparkSide, running_spark

ABOUT = "Spark measures a queue, local[2]: the job analytics, and a read of the same messages"

_QUEUE = "orders"
_PARTITIONS = 1_000
#: Transactions, and messages of each of them for each partition; a group takes as many at a time.
_BATCHES, _EACH = 100, 50
_MESSAGES = _PARTITIONS * _BATCHES * _EACH
#: Of each partition, the rest is backlog.
_PASSED = _BATCHES * 9 // 10 * _EACH
#: The first message; less than the day that is measured, the time of the rounds taken off.
_AGE = timedelta(hours=22)
_BUCKET = "5m"
_JOB, _READ = "analytics job", "read"


async def run(context: Context) -> list[Row]:
    async with running_database() as database:
        await database.fill(_QUEUE, _PARTITIONS, batches=_BATCHES, each=_EACH, age=_AGE)
        async with database.connection() as connection:
            await connection.execute(queries()["consume"], _QUEUE, _EACH, _PASSED)
        await database.settle()
        context.say(f"{_MESSAGES:,} messages are there")
        async with running_spark("local[2]") as spark:
            turns: dict[str, list[Done]] = {_JOB: [], _READ: []}
            # The round before warms everything.
            for number in range(context.rounds + 1):
                for name, done in turns.items():
                    last = await _turn(spark, database, name)
                    if number:
                        done.append(last)
                context.say(f"{number} of {context.rounds} rounds")
    return _rows(turns, context.rounds)


async def _turn(spark: SparkSide, database: BenchDatabase, name: str) -> Done:
    source = {"url": database.tcp_url, "queue": _QUEUE}
    if name == _JOB:
        async with database.connection() as connection:
            await connection.execute(queries()["forget_analytics"])
        done = await spark.work("analyse", **source, bucket=_BUCKET)
        await _check(database)
    else:
        done = await spark.work("read_ours", **source)
    if done.rows != _MESSAGES:
        raise BenchmarkError(f"{name} saw {done.rows} of {_MESSAGES} messages")
    return done


async def _check(database: BenchDatabase) -> None:
    async with database.connection() as connection:
        (found,) = await connection.fetch(queries()["analysed"])
    passed = _PARTITIONS * _PASSED
    if tuple(found) != (passed, passed):
        raise BenchmarkError(
            f"of {passed} messages that were consumed {found['consumed']} were found, and"
            f" latencies of {found['measured']}"
        )


def _rows(turns: dict[str, list[Done]], rounds: int) -> list[Row]:
    shape = (
        f"{_MESSAGES:,} messages of 200 bytes, {_PARTITIONS:,} partitions,"
        f" {_PASSED * 100 // (_BATCHES * _EACH)}% consumed, {rounds} rounds"
    )
    seconds = {name: [done.seconds for done in found] for name, found in turns.items()}
    rates = {name: [done.rows / done.seconds for done in found] for name, found in turns.items()}
    return [
        Row(what=_JOB, shape=shape, measured=with_spread(seconds[_JOB], " s", digits=1)),
        *(
            Row(what=name, shape=shape, measured=with_spread(found, " messages/s", digits=0))
            for name, found in rates.items()
        ),
        Row(
            what=f"time of the {_JOB} against a {_READ} of all columns",
            shape=shape,
            measured=with_spread(ratios(seconds[_JOB], seconds[_READ]), "x"),
        ),
    ]
