"""Queen's data pipeline on Apache Spark: the data source `queen`, and a session ready for it.

    spark = queenmq.spark.session()
    spark.read.format("queen").option("url", url).option("queue", "orders").load()

It needs the extra `queenmq[spark]`, and the broker imports nothing of it. This package reads
PostgreSQL with its own SQL files and knows neither the broker's engine nor its storage. It is the
only one that imports pyspark, and only when Spark is needed.
"""

from __future__ import annotations

from queenmq.spark.progress.reports import SourceProgress, read_progress
from queenmq.spark.runtime.session import register, session
from queenmq.spark.sink.once import write_once
from queenmq.spark.sink.ordering import by_partition
from queenmq.spark.sink.placing import with_partition

__all__ = [
    "SourceProgress",
    "by_partition",
    "read_progress",
    "register",
    "session",
    "with_partition",
    "write_once",
]
