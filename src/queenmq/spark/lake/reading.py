"""Reads a lake with Spark, by the list of files of one version of its table."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date
from typing import TYPE_CHECKING
from uuid import UUID

from queenmq.spark.lake.layout import SPARK_SCHEMA, DataFile, Lake, pruned
from queenmq.spark.lake.table import MessageTable, open_table
from queenmq.spark.runtime.failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Bits of a checksum that are summed up at a time.
_HALF = 30


def read_messages(
    spark: SparkSession,
    lake: str | Lake | MessageTable,
    *,
    queues: Collection[str] | None = None,
    since: date | None = None,
    until: date | None = None,
) -> DataFrame:
    """All messages of a lake, or those of some queues and days (both included).

    Naming queues and days passes over files that a filter would have to open. A lake that is empty
    gives no rows; where there is none, that is an error. Give a table that `open_table` opened to
    read the version whose positions were asked for.
    """
    table = lake if isinstance(lake, MessageTable) else open_table(_lake(lake))
    files = pruned(table.files(), queues=queues, since=since, until=until)
    rows = read_files(spark, table.lake, files)
    if queues is not None:
        rows = rows.where(rows["queue"].isin(list(queues)))
    return rows


def archived_until(lake: str | Lake | MessageTable, queue_ids: Iterable[UUID]) -> dict[UUID, int]:
    """For each queue: its messages of all transactions below this number are in the lake.

    0 for a queue that never was archived.
    """
    table = lake if isinstance(lake, MessageTable) else open_table(_lake(lake))
    return {queue_id: table.position(queue_id) for queue_id in queue_ids}


def _lake(place: str | Lake) -> Lake:
    return place if isinstance(place, Lake) else Lake.at(place)


def read_files(spark: SparkSession, lake: Lake, files: Iterable[DataFile]) -> DataFrame:
    """The rows of these files."""
    return read_paths(spark, lake, [file.path for file in files])


def read_paths(spark: SparkSession, lake: Lake, paths: Collection[str]) -> DataFrame:
    """The rows of files or folders below the table."""
    if not paths:
        return spark.createDataFrame([], SPARK_SCHEMA)
    with spark_failures(f"the lake at {lake.location} cannot be read"):
        return spark.read.schema(SPARK_SCHEMA).parquet(*map(lake.for_spark, paths))


def row_checksum() -> Column:
    """The checksum of a message; see `tally.py`."""
    from pyspark.sql import functions as F

    def text(name: str) -> Column:
        return F.coalesce(F.col(name), F.lit(""))

    fields = (
        F.col("partition_id"),
        F.col("seq"),
        F.col("message_id"),
        F.col("transaction_id"),
        text("trace_id"),
        F.unix_micros("created_at"),
        text("producer_sub"),
        F.col("is_encrypted").cast("int"),
        F.col("payload"),
    )
    digest = F.md5(F.concat_ws("/", *(field.cast("string") for field in fields)))
    return F.conv(F.substring(digest, 1, 15), 16, 10).cast("bigint")


def tallies(rows: DataFrame, *keys: str) -> DataFrame:
    """Count, seq range and checksum of rows by these columns."""
    from pyspark.sql import functions as F

    # Sums of 60 bits do not fit into a long, and decimals take twice the time: so two halves.
    checked = rows.withColumn("row_checksum", row_checksum())
    high = F.sum(F.shiftright("row_checksum", _HALF)).cast("decimal(20,0)")
    low = F.sum(F.col("row_checksum").bitwiseAND(2**_HALF - 1))
    return checked.groupBy(*keys).agg(
        F.count("*").alias("messages"),
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
        (high * F.lit(2**_HALF) + low).cast("string").alias("checksum"),
    )
