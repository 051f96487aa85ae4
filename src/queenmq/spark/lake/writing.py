"""Writes rows as files of a lake with Spark, into a new folder.

They become part of the table when a commit names them. The driver lists the folder to find the
files and their content, which works on every file system of Spark.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from queenmq.spark.lake.folders import LOCAL, NO_VALUE, REMOTE, folder_name, working_names
from queenmq.spark.lake.layout import (
    COLUMNS,
    FILE_COLUMNS,
    FILE_ROWS,
    PARTITIONED_BY,
    VARIANT,
    DataFile,
    Lake,
    path_in_table,
)
from queenmq.spark.lake.statistics import TEXT_MAX, statistics
from queenmq.spark.lake.stores.arrow_writing import write_by_arrow
from queenmq.spark.lake.stores.spark_files import can_use
from queenmq.spark.runtime.failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_MICROSECONDS_A_DAY = 86_400_000_000
_SETTINGS = {
    # Spark writes times in its own format, unless a setting says otherwise.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # polars opens no file that calls a column a variant. Spark reads it without.
    "spark.sql.parquet.variant.annotateLogicalType.enabled": "false",
}
#: What is read back of new files: all but the variant.
_SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS)


def as_rows_of_lake(messages: DataFrame) -> DataFrame:
    """Return messages of the source, with the columns of a lake."""
    from pyspark.sql import functions as F

    days = F.floor(F.unix_micros("created_at") / F.lit(_MICROSECONDS_A_DAY)).cast("int")
    return messages.withColumns(
        {"day": F.date_from_unix_date(days), VARIANT: F.try_parse_json(F.col("payload"))}
    ).select(*(name for name, _ in COLUMNS), VARIANT)


def write_files(
    spark: SparkSession, lake: Lake, rows: DataFrame, queues: Collection[str]
) -> list[DataFile]:
    """Write rows of these queues into a new folder; the files that are there then."""
    if not can_use(spark, lake):
        with spark_failures(f"messages cannot be written to the lake at {lake.location}"):
            return write_by_arrow(lake, _sort_rows(rows))
    folder = f"data-{uuid4().hex}"
    plain = LOCAL if lake.is_local else REMOTE
    laid_out = rows.withColumn("queue", _working_name(plain))
    with (
        spark_failures(f"messages cannot be written to the lake at {lake.location}"),
        _settings(spark, _SETTINGS),
    ):
        _sort_rows(laid_out).write.partitionBy(*PARTITIONED_BY).options(
            compression="zstd", maxRecordsPerFile=str(FILE_ROWS)
        ).parquet(lake.for_spark(folder))
        files = _files(spark, lake, folder, working_names(queues, plain))
    return _rename_folders(lake, folder, files) if lake.is_local else files


def _sort_rows(rows: DataFrame) -> DataFrame:
    """Return the rows of a queue and day together, in their order."""
    return rows.hint("rebalance", *PARTITIONED_BY).sortWithinPartitions(
        *PARTITIONED_BY, "partition_id", "seq"
    )


def _working_name(plain: str) -> Column:
    """Return the working name of each row's queue, as `folders.working_names` does."""
    from pyspark.sql import functions as F

    name = F.col("queue")
    is_plain = name.rlike(rf"\A{plain}\z") & (name != NO_VALUE)
    return F.when(is_plain, name).otherwise(F.concat(F.lit("~"), F.md5(name)))


def _files(
    spark: SparkSession, lake: Lake, folder: str, names: Mapping[str, str]
) -> list[DataFile]:
    """Return the files of a folder, with the bounds of each column."""
    from pyspark.sql import functions as F

    file = F.col("_metadata")
    place = lake.for_spark(folder)
    found = (
        spark.read.schema(_SCHEMA)
        .option("basePath", place)
        .parquet(place)
        .groupBy(
            file["file_path"].alias("uri"),
            file["file_size"].alias("bytes"),
            F.unix_millis(file["file_modification_time"]).alias("modified_ms"),
            *PARTITIONED_BY,
        )
        .agg(F.count("*").alias("messages"), *_measures())
    )
    return [_data_file(row, folder, names) for row in found.toArrow().to_pylist()]


def _measures() -> Iterator[Column]:
    from pyspark.sql import functions as F

    for name, _ in FILE_COLUMNS:
        # Payloads may be large. They begin like JSON, so a few letters are enough.
        value = F.substring(name, 1, TEXT_MAX + 1) if name == "payload" else F.col(name)
        yield F.min(value).alias(f"low_{name}")
        yield F.max(value).alias(f"high_{name}")
        yield F.count_if(F.col(name).isNull()).alias(f"nulls_{name}")


def _data_file(row: Mapping[str, Any], folder: str, names: Mapping[str, str]) -> DataFile:
    bounds = {name: (row[f"low_{name}"], row[f"high_{name}"]) for name, _ in FILE_COLUMNS}
    return DataFile(
        path=path_in_table(row["uri"], folder),
        bytes=row["bytes"],
        queue=names[row["queue"]],
        day=row["day"],
        messages=row["messages"],
        first_xid=row["low_xid"],
        last_xid=row["high_xid"],
        first_seq=row["low_seq"],
        last_seq=row["high_seq"],
        first_time=row["low_created_at"],
        last_time=row["high_created_at"],
        modified_ms=row["modified_ms"],
        stats=statistics(row["messages"], bounds, {name: row[f"nulls_{name}"] for name in bounds}),
    )


def _rename_folders(lake: Lake, folder: str, files: list[DataFile]) -> list[DataFile]:
    """Give each queue's folder its name, which Spark and Java cannot always write."""
    home = f"{lake.messages}/{folder}"
    moved = []
    for file in files:
        _, old, *rest = file.path.split("/")
        new = folder_name(file.queue)
        with contextlib.suppress(FileNotFoundError):  # the queue has several files
            if old != new:
                os.rename(f"{home}/{old}", f"{home}/{new}")
        moved.append(replace(file, path="/".join([folder, new, *rest])))
    return moved


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
