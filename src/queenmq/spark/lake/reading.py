"""Reads a lake with Spark, by the list of files of one version of its table."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date, datetime
from functools import reduce
from typing import TYPE_CHECKING
from uuid import UUID

from queenmq.spark.lake.layout import (
    COLUMNS,
    FILE_COLUMNS,
    PARTITIONED_BY,
    VARIANT,
    DataFile,
    Lake,
    file_keys,
    prune_files,
)
from queenmq.spark.lake.stores.spark_files import can_use, read_by_arrow
from queenmq.spark.lake.table import MessageTable, open_table
from queenmq.spark.runtime.failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_VARIANT = (VARIANT, "variant")
#: Bits of a checksum that are summed up at a time.
_HALF = 30


def read_messages(
    spark: SparkSession,
    lake: str | Lake | MessageTable,
    *,
    queues: Collection[str] | None = None,
    since: date | None = None,
    until: date | None = None,
    version: int | datetime | None = None,
) -> DataFrame:
    """Return all messages of a lake, or those of some queues and days (both included).

    Naming queues and days passes over files that a filter would have to open. A lake that is empty
    gives no rows; where there is none, that is an error. `version` is one of before, by its number
    or the time at which it was the newest. Give a table that `open_table` opened to read the
    version whose positions were asked for.
    """
    table = lake if isinstance(lake, MessageTable) else open_table(_lake(lake), version)
    files = prune_files(table.files(), queues=queues, since=since, until=until)
    rows = read_files(spark, table.lake, files)
    if queues is not None:
        rows = rows.where(rows["queue"].isin(list(queues)))
    return rows


def archived_until(lake: str | Lake | MessageTable, queue_ids: Iterable[UUID]) -> dict[UUID, int]:
    """Return for each queue the transaction number below which all its messages are in the lake.

    0 for a queue that never was archived.
    """
    table = lake if isinstance(lake, MessageTable) else open_table(_lake(lake))
    return {queue_id: table.position(queue_id) for queue_id in queue_ids}


def _ddl(columns: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


def _lake(place: str | Lake) -> Lake:
    return place if isinstance(place, Lake) else Lake.at(place)


def read_files(spark: SparkSession, lake: Lake, files: Iterable[DataFile]) -> DataFrame:
    """Return the rows of these files. Queue and day are those of the log, as Delta's protocol has
    it.
    """
    listed = list(files)
    if not listed:
        return spark.createDataFrame([], _ddl((*COLUMNS, _VARIANT)))
    with spark_failures(f"the lake at {lake.location} cannot be read", is_asked_for=False):
        if not can_use(spark, lake):
            return read_by_arrow(spark, lake, listed)
        parts = [
            _read_paths(spark, lake, paths, has_variant=has_variant)
            for has_variant in (True, False)
            if (paths := [file.path for file in listed if file.has_variant is has_variant])
        ]
        rows = reduce(lambda one, other: one.unionByName(other), parts)
        return _add_values_of_log(spark, lake, rows, listed)


def _read_paths(
    spark: SparkSession, lake: Lake, paths: Collection[str], *, has_variant: bool
) -> DataFrame:
    """Return the columns that are in the files, and the place of each file."""
    from pyspark.sql import functions as F

    kinds = (*FILE_COLUMNS, _VARIANT) if has_variant else FILE_COLUMNS
    rows = spark.read.schema(_ddl(kinds)).parquet(*map(lake.for_spark, paths))
    if not has_variant:
        # Other writers drop it. Where we wrote it, it is shredded, so it is read as it is.
        rows = rows.withColumn(VARIANT, F.try_parse_json("payload"))
    return rows.withColumn("file_path", F.col("_metadata.file_path"))


def _add_values_of_log(
    spark: SparkSession, lake: Lake, rows: DataFrame, files: list[DataFile]
) -> DataFrame:
    """Add queue and day to each row. A row whose file is unknown fails the query."""
    from pyspark.sql import functions as F

    depth, keys = file_keys(lake, files)
    values = [(key, file.queue, file.day, True) for key, file in keys.items()]
    log = spark.createDataFrame(values, "file_key string, queue string, day date, is_known boolean")
    known = rows.withColumn("file_key", F.substring_index("file_path", "/", -depth)).join(
        F.broadcast(log), "file_key", "left"
    )
    unknown = F.raise_error(F.concat(F.lit("the log does not know "), "file_path"))
    checked = {name: F.when(F.col("is_known"), F.col(name)) for name in PARTITIONED_BY}
    return known.withColumns(
        {name: value.otherwise(unknown) for name, value in checked.items()}
    ).select(*(name for name, _ in COLUMNS), VARIANT)


def row_checksum() -> Column:
    """Return the checksum of a message. See `tally.py`."""
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
