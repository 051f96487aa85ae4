"""Streams of files into queues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

SCHEMA = "partition string, n long, payload string"


def start_stream(df: DataFrame, checkpoint: Path, **options: str) -> Any:
    """A query that writes what is there and ends."""
    writer = df.writeStream.format("queen").options(**options)
    writer = writer.option("checkpointLocation", str(checkpoint)).queryName(checkpoint.name)
    return writer.trigger(availableNow=True).start()


def read_lines(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of JSON lines, one file per micro-batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
