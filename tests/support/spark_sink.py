"""Streams into queues, also as a process of its own.

    python -m tests.support.spark_sink <input folder> <checkpoint> <database url> <queue>

streams the JSON lines of a folder, one file per micro-batch, until all are written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import queenmq.spark

SCHEMA = "partition string, n long, payload string"


def start_stream(df: DataFrame, checkpoint: Path, **options: str) -> Any:
    """A query that writes what is there and ends."""
    writer = df.writeStream.format("queen").options(**options)
    writer = writer.option("checkpointLocation", str(checkpoint)).queryName(checkpoint.name)
    return writer.trigger(availableNow=True).start()


def read_lines(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of JSON lines, one file per micro-batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


def main(folder: str, checkpoint: str, url: str, queue: str) -> None:
    spark = queenmq.spark.session("stream", master="local[2]", quick=True)
    spark.sparkContext.setLogLevel("OFF")
    lines = read_lines(spark, Path(folder)).repartition(3, "partition")
    query = start_stream(lines, Path(checkpoint), url=url, queue=queue, sortWithin="n")
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
