"""Archive runs: in this process, and as a process that can be killed.

    python -m tests.support.archive <database url> <lake>

starts Spark, says `ready`, and archives all queues in small commits from the first line of its
input on, until it is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import asyncpg
from pyspark.sql import SparkSession

import queenmq.spark
from queenmq.spark.jobs.archive.job import ArchiveJob, ArchiveOptions
from queenmq.spark.jobs.job import Silent, Summary
from queenmq.spark.lake import Lake, read_messages
from queenmq.spark.source.options import read_options
from tests.support.feed import Feed
from tests.support.producers import Producers

LIVE = """
SELECT q.name AS queue, q.namespace, q.task, p.name AS partition, m.partition_id::text, m.seq,
       m.id::text AS message_id, coalesce(m.transaction_id, m.id::text) AS transaction_id,
       m.trace_id::text, m.payload::text, m.created_at, m.producer_sub, m.is_encrypted,
       m.xid::text::bigint AS xid, (m.created_at AT TIME ZONE 'UTC')::date AS day
FROM queen.messages m JOIN queen.partitions p ON p.id = m.partition_id
JOIN queen.queues q ON q.id = m.queue_id
ORDER BY q.name, p.name, m.seq
"""
_MARKS = """
SELECT q.name AS queue, p.name AS partition, k.archived_seq
FROM queen.archive_marks k JOIN queen.partitions p ON p.id = k.partition_id
JOIN queen.queues q ON q.id = p.queue_id
"""
_PUSH = "SELECT queen.push($1, $2::json, partition => $3)"
_SCOPE = ("queue", "namespace", "task")


def archive_job(url: str, lake: str, **options: Any) -> ArchiveJob:
    """A job for the queues that are named, else for all."""
    chosen = {name: options.pop(name) for name in _SCOPE if name in options}
    scope = read_options({"url": url, **(chosen or {"queuePattern": ".*"})}).scope
    return ArchiveJob(ArchiveOptions(url, Lake.at(lake), scope, **options))


def run_archive(spark: SparkSession, url: str, lake: str, **options: Any) -> Summary:
    """Archive what there is."""
    return archive_job(url, lake, **options).run(spark, Silent())


def archived(spark: SparkSession, lake: str, *columns: str) -> list[tuple[Any, ...]]:
    """Rows of a lake, in order; all columns but the variant unless some are named."""
    rows = read_messages(spark, lake).orderBy("queue", "partition", "seq")
    rows = rows.select(*columns) if columns else rows.drop("payload_variant")
    return [tuple(row) for row in rows.collect()]


def live(feed: Feed) -> list[tuple[Any, ...]]:
    """Messages of all queues, in the form of a lake's rows; times as Spark gives them in UTC."""
    return [
        tuple(value.replace(tzinfo=None) if name == "created_at" else value for name, value in row)
        for row in (record.items() for record in feed.rows(LIVE))
    ]


def marks(feed: Feed) -> dict[tuple[str, str], int]:
    """Up to where partitions are marked, by queue and partition."""
    return {(row[0], row[1]): row[2] for row in feed.rows(_MARKS)}


async def produce(url: str, seed: int, stop: threading.Event) -> None:
    """Transactions of all sizes, some of them long, some rolled back, until told to stop."""
    chance = random.Random(seed)
    session = await asyncpg.connect(url)
    try:
        while not stop.is_set():
            transaction = session.transaction()
            await transaction.start()
            # In one order, lest they wait for each other in a circle.
            places = sorted(
                (f"queue{chance.randint(0, 2)}", f"p{chance.randint(0, 5)}")
                for _ in range(chance.choice([1, 3, 40]))
            )
            for number, (queue, partition) in enumerate(places):
                payload = json.dumps({"seed": seed, "n": number})
                await session.execute(_PUSH, queue, payload, partition)
                await asyncio.sleep(chance.choice([0, 0.01]))
            await (transaction.rollback() if chance.random() < 0.2 else transaction.commit())
    finally:
        await session.close()


async def produce_over_http(urls: Sequence[str], queue: str, stop: threading.Event) -> int:
    """A producer at each broker until told to stop; how many messages were answered."""
    async with Producers(urls, queue, len(urls)) as producers:
        while not stop.is_set():
            await producers.more()
        await producers.stop()
    return sum(producers.answered)


class ArchiveProcess:
    """A driver with its JVM, as a process group of its own."""

    def __init__(self, url: str, lake: str, log: Path) -> None:
        self.log = log
        with log.open("a") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.archive", url, lake],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=Path(__file__).parents[2],
                start_new_session=True,
            )

    def begin(self) -> None:
        """Let it archive, once Spark has started."""
        output, commands = self._pipes()
        line = output.readline()
        assert line == b"ready\n", self.log.read_text()[-3000:]
        commands.write(b"go\n")
        commands.flush()

    def kill(self) -> None:
        """End it at once; safe to call after its end."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for pipe in self._pipes():
            pipe.close()

    def is_done(self) -> bool:
        return self.process.poll() is not None

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self.process.stdout and self.process.stdin
        return self.process.stdout, self.process.stdin


def main(url: str, lake: str) -> None:
    spark = queenmq.spark.session("archive", master="local[2]", quick=True)
    spark.sparkContext.setLogLevel("OFF")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    run_archive(spark, url, lake, max_messages=300, interval_s=0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
