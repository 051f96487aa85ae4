"""Compares a batch in the lake with the live messages, before it is marked as verified.

Counts and checksums per partition are compared first. Where they differ, messages are compared one
by one. Messages that were removed from the queue meanwhile are fine. A message that is missing in
the lake, differs there, or appears twice is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queenmq.spark.jobs.archive.batches import Batch
from queenmq.spark.jobs.archive.store import ArchiveStore
from queenmq.spark.lake.layout import prune_files
from queenmq.spark.lake.manifest import Entry
from queenmq.spark.lake.reading import read_files, row_checksum, tallies
from queenmq.spark.lake.table import MessageTable
from queenmq.spark.lake.tally import Tally, find_differences
from queenmq.spark.runtime.failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Finding:
    """A partition whose messages in the lake are not those of the queue."""

    queue: str
    partition: str
    #: Live messages that are missing in the lake.
    missing: int
    #: Messages that differ in the lake.
    different: int
    #: Messages that the lake has more than once.
    repeated: int


@dataclass(frozen=True)
class Checked:
    """The content of the lake for a batch."""

    entries: list[Entry]
    findings: list[Finding]
    #: Messages that were removed from their queues after they were archived.
    removed: int


def lake_rows(
    spark: SparkSession, table: MessageTable, names: Collection[str], batch: Batch
) -> DataFrame:
    """Return the lake's rows of a batch, from the files of the table."""
    files = prune_files(table.files(), queues=names, start=batch.start, end=batch.end)
    rows = read_files(spark, table.lake, files)
    return rows.where(
        rows["queue"].isin(list(names)) & rows["xid"].between(batch.start, batch.end - 1)
    )


def check(
    spark: SparkSession,
    store: ArchiveStore,
    table: MessageTable,
    names: Collection[str],
    batch: Batch,
    live: Callable[[], DataFrame],
) -> Checked:
    """Compare the lake's rows of a batch with the live ones.

    `live` reads them again where the database's own count and checksum are not enough.
    """
    rows = lake_rows(spark, table, names, batch)
    with spark_failures(
        f"the lake at {table.lake.location} cannot be read back", is_asked_for=False
    ):
        found = tallies(rows, "queue", "partition", "partition_id").toArrow().to_pylist()
        # Queues of before may have had the same names, and transactions among those of the batch.
        ours = store.partitions_of(batch.queues, [row["partition_id"] for row in found])
        entries = [
            Entry(row["queue"], row["partition"], row["partition_id"], Tally.of(row))
            for row in found
            if row["partition_id"] in ours
        ]
        there = store.tallies(batch)
        odd = find_differences({entry.partition_id: entry.tally for entry in entries}, there)
        findings = _compare(spark, rows, live(), odd) if odd else []
    removed = sum(entry.tally.messages for entry in entries) - _sum(there)
    return Checked(entries, findings, 0 if findings else max(0, removed))


def _sum(there: Mapping[str, Tally]) -> int:
    return sum(tally.messages for tally in there.values())


def _compare(
    spark: SparkSession, rows: DataFrame, live: DataFrame, partitions: list[str]
) -> list[Finding]:
    """Compare message by message."""
    from pyspark.sql import functions as F

    chosen = spark.createDataFrame([(key,) for key in partitions], "partition_id string")
    keys = ["queue", "partition", "partition_id", "seq"]
    ours = (
        rows.join(F.broadcast(chosen), "partition_id", "semi")
        .select(*keys, row_checksum().alias("archived"))
        .groupBy(*keys)
        .agg(F.count("*").alias("times"), F.min("archived").alias("archived"))
    )
    theirs = live.join(F.broadcast(chosen), "partition_id", "semi").select(
        *keys, row_checksum().alias("live")
    )
    both = ours.join(theirs, keys, "full")
    sums = both.groupBy("queue", "partition").agg(
        F.count_if(F.col("archived").isNull()).alias("missing"),
        F.count_if(F.col("archived") != F.col("live")).alias("different"),
        F.count_if(F.col("times") > 1).alias("repeated"),
    )
    wrong = sums.where("missing > 0 OR different > 0 OR repeated > 0").orderBy("queue", "partition")
    return [Finding(**row.asDict()) for row in wrong.collect()]
