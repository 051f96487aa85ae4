"""Source, window, sink, archive and replay of many messages on a small cluster, as a process.

    python -m tests.support.scale_driver <database url> <folder> <messages>

Executors are processes, and tasks are speculated. A line `<phase> begins` comes before each phase,
and `<phase> {...}` with its figures after it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.spark_processes import CLUSTER, SPECULATION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE, WINDOWS, AGAIN = "scale", "scale-windows", "scale-again"
PARTITIONS, KEYS = 200, 20
#: Messages of a write, and of one second of event time.
CHUNK, PER_SECOND = 250_000, 1_000
WINDOW_S = 60
#: Ends all windows: later than any message.
LAST_S = 10**9
PHASES = ("write", "window", "archive", "replay")


class Scale:
    """One session, and a phase for each job."""

    def __init__(self, spark: SparkSession, url: str, home: Path, messages: int) -> None:
        self._spark = spark
        self._url = url
        self._home = home
        self._messages = messages

    def write(self) -> None:
        """Messages 0, 1, 2 ..., in order within each partition, and one that ends all windows."""
        for start in range(0, self._messages, CHUNK):
            self._write(start, min(start + CHUNK, self._messages), "id")
        self._write(LAST_S * PER_SECOND, LAST_S * PER_SECOND + 1, "id")

    def _write(self, start: int, end: int, name: str) -> None:
        from queenmq.spark import by_partition

        rows = self._spark.range(start, end, 1, 4).selectExpr(
            f"concat('p', {name} % {PARTITIONS}) AS partition",
            f"to_json(named_struct('n', {name}, 'at', {name} DIV {PER_SECOND})) AS payload",
            "id",
        )
        writer = by_partition(rows, "id").write.format("queen").mode("append")
        writer.options(url=self._url, queue=SOURCE, writeId=f"scale-{start}").save()

    def window(self) -> None:
        """Counts and sums of windows, from queue to queue."""
        from pyspark.sql import functions as F

        from queenmq.spark import by_partition

        rows = (
            self._spark.readStream.format("queen")
            .options(url=self._url, queue=SOURCE, startingOffsets="earliest")
            .option("maxMessagesPerTrigger", str(CHUNK))
            .load()
        )
        fields = rows.selectExpr("from_json(payload, 'n BIGINT, at BIGINT') AS f").selectExpr(
            "f.n", f"CAST(f.n % {KEYS} AS STRING) AS key", "timestamp_seconds(f.at) AS at"
        )
        results = (
            fields.withWatermark("at", "1 second")
            .groupBy(F.window("at", f"{WINDOW_S} seconds"), "key")
            .agg(F.count("*").alias("messages"), F.sum("n").alias("total"))
            .selectExpr(
                "key AS partition",
                "window.start AS window_start",
                "to_json(named_struct('start', unix_seconds(window.start), 'messages', messages,"
                " 'total', total)) AS payload",
            )
        )
        writer = by_partition(results).writeStream.format("queen").outputMode("append")
        writer = writer.options(url=self._url, queue=WINDOWS, sortWithin="window_start")
        checkpoint = str(self._home / "checkpoint")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()

    def archive(self) -> None:
        from queenmq.spark.jobs.job import Silent
        from tests.support.archive import archive_job

        job = archive_job(self._url, str(self._home / "lake"), queue=SOURCE)
        assert job.run(self._spark, Silent()).is_ok

    def replay(self) -> None:
        from queenmq.spark.jobs.job import Silent
        from queenmq.spark.jobs.replay.job import Replay
        from queenmq.spark.jobs.replay.options import ReplayOptions
        from queenmq.spark.lake import Lake

        options = ReplayOptions(
            url=self._url, lake=Lake.at(str(self._home / "lake")), queues=(SOURCE,), partitions=(),
            since=None, until=None, where=None, target_queue=AGAIN, partition_expression=None,
            has_fresh_ids=False, rate=None, batch_rows=CHUNK, name="scale",
        )  # fmt: skip
        assert Replay(options).run(self._spark, Silent()).is_ok


def main(url: str, home: str, messages: str) -> None:
    import queenmq.spark

    spark = queenmq.spark.session("scale", master=CLUSTER, config=SPECULATION)
    spark.sparkContext.setLogLevel("ERROR")
    scale = Scale(spark, url, Path(home), int(messages))
    for name in PHASES:
        phase: Callable[[], None] = getattr(scale, name)
        print(f"{name} begins", flush=True)
        began = time.monotonic()
        phase()
        seconds = time.monotonic() - began
        figures = {"seconds": round(seconds, 1), "messages/s": round(int(messages) / seconds)}
        print(name, json.dumps(figures), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
