"""Measure how fast Spark writes to a queue: our sink, JDBC appends, and pushes over HTTP.

Our sink stores each batch whole and once, in order, numbered, without repeats. JDBC appends do
nothing of that. One of their tables has the columns and indexes that messages have: that is the
side to compare with. The other one has no index, so that nobody could consume from it: what the
indexes cost. Inserts of JDBC are also measured joined into statements of many rows.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

import queenmq
from benchmarks.broker import BenchmarkError, Broker
from benchmarks.database import BenchDatabase, queries, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread
from benchmarks.spark_side import NO_JAR, SparkSide, find_jar, running_spark

ABOUT = "Spark writes 200,000 rows, local[2]: our sink, JDBC appends, and the client over HTTP"

_ROWS = 200_000
_PARTITIONS = 1_000
_HTTP_MESSAGES, _HTTP_BATCH, _HTTP_LOOPS = 40_000, 100, 4
_OURS, _HTTP = "our sink", "pushes over HTTP"
#: What each side does in its turn, by its name. It returns rows per second.
Turns = dict[str, Callable[[], Awaitable[float]]]
_JDBC = "JDBC append, no index"
_JDBC_JOINED = "JDBC append, no index, joined inserts"
_INDEXED = "JDBC append, our indexes"
_INDEXED_JOINED = "JDBC append, our indexes, joined inserts"
#: The work of a JDBC side, and whether its inserts are joined.
_APPENDS = {
    _JDBC: ("write_jdbc", False),
    _JDBC_JOINED: ("write_jdbc", True),
    _INDEXED: ("write_jdbc_indexed", False),
    _INDEXED_JOINED: ("write_jdbc_indexed", True),
}
_TARGETS = {_INDEXED: 1.3, _INDEXED_JOINED: 1.0}
_PAYLOAD = {"id": 4711, "customer": "c" * 32, "note": "x" * 130}


class _Sides:
    """The ways to write, each with the rows per second of a turn."""

    def __init__(self, spark: SparkSide, database: BenchDatabase, broker: Broker) -> None:
        self._spark = spark
        self._database = database
        self._broker = broker
        self._turns = 0

    async def ours(self) -> float:
        self._turns += 1
        queue = f"sink-{self._turns}"
        shape = {"rows": _ROWS, "partitions": _PARTITIONS}
        done = await self._spark.work(
            "write_ours", url=self._database.tcp_url, queue=queue, **shape
        )
        async with self._database.connection() as connection:
            stored = await connection.fetchval(queries()["count_messages"], queue)
        if stored != _ROWS:
            raise BenchmarkError(f"{stored} of {_ROWS} rows were stored")
        return done.rows / done.seconds

    def append(self, name: str) -> Callable[[], Awaitable[float]]:
        work, is_joined = _APPENDS[name]

        async def turn() -> float:
            shape = {"rows": _ROWS, "partitions": _PARTITIONS, "is_joined": is_joined}
            done = await self._spark.work(work, url=self._database.tcp_url, **shape)
            return done.rows / done.seconds

        return turn

    async def http(self) -> float:
        """As producers would: a few loops of one client, each with the next request at once."""
        self._turns += 1
        each = _HTTP_MESSAGES // _HTTP_BATCH // _HTTP_LOOPS
        async with queenmq.Queen(self._broker.url) as client:
            begin = time.perf_counter()
            loops = [self._push(client, f"http-{self._turns}", each) for _ in range(_HTTP_LOOPS)]
            await asyncio.gather(*loops)
            return _HTTP_MESSAGES / (time.perf_counter() - begin)

    async def _push(self, client: queenmq.Queen, queue: str, requests: int) -> None:
        for number in range(requests):
            items = [{"data": _PAYLOAD}] * _HTTP_BATCH
            await client.queue(queue).partition(f"p{number % _PARTITIONS}").push(items)


async def run(context: Context) -> list[Row]:
    jar = find_jar()
    if jar is None:
        context.say(NO_JAR)
    async with running_database() as database:
        async with database.connection() as connection:
            await connection.execute(queries()["make_targets"])
        with context.broker(database) as broker:
            async with running_spark("local[2]", jar) as spark:
                sides = _Sides(spark, database, broker)
                turns: Turns = {_OURS: sides.ours, _HTTP: sides.http}
                turns |= {name: sides.append(name) for name in _APPENDS if jar}
                rates = await _measure(context, database, turns)
    return _rows(rates, context.rounds)


async def _measure(
    context: Context, database: BenchDatabase, turns: Turns
) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {name: [] for name in turns}
    # The round before warms everything.
    for number in range(context.rounds + 1):
        for name, turn in turns.items():
            async with database.connection() as connection:
                await connection.execute(queries()["empty_targets"])
                await connection.execute(queries()["checkpoint"])
            rate = await turn()
            if number:
                rates[name].append(rate)
        context.say(f"{number} of {context.rounds} rounds")
    return rates


def _rows(rates: dict[str, list[float]], rounds: int) -> list[Row]:
    size = len(json.dumps(_PAYLOAD))
    shape = f"{_ROWS:,} rows of {size} bytes, {_PARTITIONS:,} partitions, {rounds} rounds"
    rows = [
        Row(what=name, shape=shape, measured=with_spread(found, " rows/s", digits=0))
        for name, found in rates.items()
    ]
    if _JDBC not in rates:
        rows.append(Row(what="JDBC append", shape=shape, measured=f"left out: {NO_JAR}"))
    for name in [*_APPENDS, _HTTP]:
        if name in rates:
            gain = ratios(rates[_OURS], rates[name])
            target = _TARGETS.get(name)
            rows.append(
                Row(
                    what=f"our sink against {name}",
                    shape=shape,
                    measured=with_spread(gain, "x"),
                    target=f">= {target:.1f}x" if target else "",
                    is_reached=median(gain) >= target if target else None,
                )
            )
    return rows
