"""Producers, a stream on a cluster, an archive with retention behind it, reads over both: all of it
beside kills of the driver, executors, the archive, the broker and PostgreSQL.

QUEEN_TEST_SOAK_SECONDS says how long (60; take 600 before a release), QUEEN_TEST_SOAK_RATE how many
messages a second, and QUEEN_TEST_SOAK_SEED repeats a run. The last line has the figures.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from queenmq.errors import QueenError
from queenmq.spark.lake import Lake
from queenmq.spark.lake.table import open_table
from tests.support.archive import run_archive
from tests.support.feed import Feed
from tests.support.own_postgres import OwnPostgres
from tests.support.soak_driver import SOURCE, TARGET
from tests.support.soak_world import END_S, SEED, World, load
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.jobs, pytest.mark.slow, pytest.mark.timeout(5_400)]

_MAKE = "SELECT FROM queen.ensure_partitions(ARRAY[$1::text], ARRAY['p0'], NULL)"
#: Everything that the stream has read and the archive has verified goes after a second.
_RETAIN = """
    UPDATE queen.queues SET retention_enabled = true, completed_retention_seconds = 1,
                            archive_before_delete = true
    WHERE name = $1
"""
_WAITING = "SELECT count(*) AS n FROM queen.operation_queue WHERE is_blocking"
_LAST = """
    SELECT p.name AS partition, l.last_seq FROM queen.partition_lookup l
    JOIN queen.partitions p ON p.id = l.partition_id JOIN queen.queues q ON q.id = p.queue_id
    WHERE q.name = $1
"""
_LIVE = """
    SELECT count(*) AS n FROM queen.messages m JOIN queen.queues q ON q.id = m.queue_id
    WHERE q.name = $1
"""
_STORED = """
    SELECT p.name AS partition, (m.payload::text)::bigint AS n
    FROM queen.messages m JOIN queen.partitions p ON p.id = m.partition_id
    JOIN queen.queues q ON q.id = m.queue_id
    WHERE q.name = $1 ORDER BY p.name, m.seq
"""


def _stored(feed: Feed, queue: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for row in feed.rows(_STORED, queue):
        found[row["partition"]].append(row["n"])
    return dict(found)


def _is_taken_in(feed: Feed, expected: Counter[str]) -> bool:
    """Return whether every answered push has its number, including those answered 202."""
    if feed.rows(_WAITING)[0]["n"]:
        return False
    found = {row["partition"]: row["last_seq"] for row in feed.rows(_LAST, SOURCE)}
    return found == dict(expected)


class UnionReads:
    """Reads of lake and live messages as one, again and again, each of which has to be whole."""

    def __init__(self, spark: SparkSession, url: str, lake: Path) -> None:
        self._spark = spark
        self._options = {"url": url, "queue": SOURCE, "includeArchive": "true"}
        self._options["archivePath"] = str(lake)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.whole = self.refused = 0
        self.holes: list[Any] = []

    def __enter__(self) -> UnionReads:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(5):
            try:
                self.holes += [row for row in self.read().values() if not row["is_whole"]]
                self.whole += 1
            except (PySparkException, QueenError):
                # There is no lake yet, the server is away, or files went while they were read.
                self.refused += 1

    def read(self) -> dict[str, Any]:
        """For each partition how many messages there are, and whether they are 0, 1, 2 ..."""
        rows = self._spark.read.format("queen").options(**self._options).load()
        is_other = F.col("payload").cast("bigint") != F.col("seq") - 1
        found = (
            rows.groupBy("partition")
            .agg(
                F.count("*").alias("messages"),
                F.max("seq").alias("last"),
                F.count_distinct("seq").alias("numbers"),
                F.count_if(is_other).alias("others"),
            )
            .withColumn("is_whole", F.expr("messages = last AND messages = numbers AND others = 0"))
        )
        return {row["partition"]: row for row in found.collect()}


def test_nothing_is_lost_doubled_or_out_of_order(
    spark: SparkSession, server: OwnPostgres, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    pushed: Counter[str] = Counter()
    with Feed(server.url) as feed:
        feed.execute(_MAKE, SOURCE)
        feed.execute(_RETAIN, SOURCE)
    world = World(server, tmp_path, chance)
    try:
        with UnionReads(spark, server.url, world.lake) as union:
            seconds = asyncio.run(load(world, pushed, chance))
        what = f"seed {SEED}, kills {dict(world.kills)}"
        assert not union.holes, what
        ended = time.monotonic()
        with Feed(server.url) as feed:
            # Queued operations, and what a broker kept on disk while the server was away.
            wait_until(
                lambda: _is_taken_in(feed, pushed),
                timeout_s=END_S,
                what="everything that was answered to have its number",
            )
            world.finish()
            expected = {name: list(range(count)) for name, count in pushed.items()}
            assert _stored(feed, TARGET) == expected, what
            lake = str(world.lake)
            assert run_archive(spark, server.url, lake, queue=SOURCE).is_ok, what
            caught_up_s = time.monotonic() - ended
            wait_until(
                lambda: feed.rows(_LIVE, SOURCE)[0]["n"] < pushed.total() / 2,
                timeout_s=END_S,
                what="retention to remove what is archived and read",
            )
            found = union.read()
            assert {name: row["messages"] for name, row in found.items()} == dict(pushed), what
            assert all(row["is_whole"] for row in found.values()), what
            live = feed.rows(_LIVE, SOURCE)[0]["n"]
    finally:
        world.close()
    figures = {
        "seconds": round(seconds),
        "seed": SEED,
        "messages": pushed.total(),
        "messages/s": round(pushed.total() / seconds),
        "kills": dict(world.kills),
        "ended by themselves": dict(world.ends),
        "batches of the stream": world.batches(),
        "versions of the lake": open_table(Lake.at(lake)).version,
        "removed by retention": pushed.total() - live,
        "union reads": union.whole,
        "union reads refused": union.refused,
        "caught up after (s)": round(caught_up_s),
    }
    print(json.dumps(figures))
