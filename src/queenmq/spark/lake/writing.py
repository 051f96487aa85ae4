"""Writes rows as files of a lake with Spark, into a folder of their own.

They are no part of the table before a commit names them. Which files there are, and what is in
them, is read back from the folder: that holds on every file system that Spark can use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

from queenmq.spark.lake.layout import (
    COLUMNS,
    FOLDERS,
    VARIANT,
    DataFile,
    Lake,
    path_in_table,
)
from queenmq.spark.lake.reading import read_paths
from queenmq.spark.runtime.failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: A file is cut there; more than memory likes to sort is never needed.
FILE_ROWS = 1_000_000
_MICROSECONDS_A_DAY = 86_400_000_000
#: Spark writes times in a form that nobody else does, unless it is told otherwise.
_SETTINGS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
#: Longer names, with everything escaped, might not fit into the name of a folder.
_NAME_BYTES = 80


def as_rows_of_lake(messages: DataFrame) -> DataFrame:
    """Messages of the source, with the columns of a lake."""
    from pyspark.sql import functions as F

    days = F.floor(F.unix_micros("created_at") / F.lit(_MICROSECONDS_A_DAY)).cast("int")
    return messages.withColumns(
        {"day": F.date_from_unix_date(days), VARIANT: F.try_parse_json(F.col("payload"))}
    ).select(*(name for name, _ in COLUMNS), VARIANT)


def write_files(spark: SparkSession, lake: Lake, rows: DataFrame) -> list[DataFile]:
    """Write rows of a lake into a new folder; the files that are there then."""
    folder = f"data-{uuid4().hex}"
    laid_out = rows.withColumns(dict(zip(FOLDERS, _folder_names(), strict=True)))
    ordered = laid_out.hint("rebalance", *FOLDERS).sortWithinPartitions(
        *FOLDERS, "partition_id", "seq"
    )
    with (
        spark_failures(f"messages cannot be written to the lake at {lake.location}"),
        _settings(spark, _SETTINGS),
    ):
        ordered.write.partitionBy(*FOLDERS).options(
            compression="zstd", maxRecordsPerFile=str(FILE_ROWS)
        ).parquet(lake.for_spark(folder))
        return _files(spark, lake, folder)


def _folder_names() -> tuple[Column, Column]:
    """Names that any file system takes; Spark escapes what is special in them.

    Readers take the queue from the rows, so the folder may be a digest: of a long name; of one that
    is not ASCII, which Java does not always write as it is; and of one with a closing brace, which
    Spark does not escape, but takes for a pattern when it reads.
    """
    from pyspark.sql import functions as F

    name = F.col("queue")
    is_plain = name.rlike(f"^[ -|]{{1,{_NAME_BYTES}}}$")
    return F.when(is_plain, name).otherwise(F.concat(F.lit("~"), F.md5(name))), F.col("day")


def _files(spark: SparkSession, lake: Lake, folder: str) -> list[DataFile]:
    from pyspark.sql import functions as F

    file = F.col("_metadata")
    found = (
        read_paths(spark, lake, [folder])
        .groupBy(
            file["file_path"].alias("uri"),
            file["file_size"].alias("bytes"),
            F.unix_millis(file["file_modification_time"]).alias("modified_ms"),
            "queue",
            "day",
        )
        .agg(
            F.count("*").alias("messages"),
            F.min("xid").alias("first_xid"),
            F.max("xid").alias("last_xid"),
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
            F.min("created_at").alias("first_time"),
            F.max("created_at").alias("last_time"),
        )
    )
    rows = found.toArrow().to_pylist()
    return [DataFile(path=path_in_table(row.pop("uri"), folder), **row) for row in rows]


@contextlib.contextmanager
def _settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) or wanted[name] for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
