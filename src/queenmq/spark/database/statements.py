"""Reads tables other than messages into DataFrames: a task per statement, each short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from queenmq.spark.database.connection import Database
from queenmq.spark.database.sql_text import Sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_statements(
    spark: SparkSession, url: str, statements: Sequence[Sql], schema: str
) -> DataFrame:
    """Return the rows of these statements. Their columns match the schema by name.

    A task reads each result completely before Spark works on it, so a slow job holds no snapshot.
    """
    if not statements:
        return spark.createDataFrame([], schema)
    texts = [str(statement) for statement in statements]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with Database(url) as database:
                    table = database.table(Sql(texts[number]))
                yield from table.to_batches()

    return spark.range(0, len(texts), 1, len(texts)).mapInArrow(read, schema)
