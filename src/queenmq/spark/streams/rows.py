"""Numbers the rows that a stream makes of one message, so that each of them has a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The partition and the number of the message that a row was made of.
SOURCE = "_source"
SEQ = "_seq"
#: The place of a row among those of its message, from 0 on.
PLACE = "_place"


def number_rows(rows: DataFrame) -> DataFrame:
    """Return the same rows, with their places.

    A message usually becomes one row. Only where an expression makes several of it do the rows go
    through Python to be counted: Spark cannot number rows of a stream.
    """
    if not _makes_rows(rows):
        return rows.withColumn(PLACE, F.lit(0).cast("long"))
    schema = StructType([*rows.schema.fields]).add(PLACE, LongType(), nullable=False)
    return rows.mapInArrow(_number, schema)


def _makes_rows(rows: DataFrame) -> bool:
    """Return whether a message may become more than one row."""
    # Spark plans a generator, such as explode, as a separate step.
    plan: str = rows._jdf.queryExecution().analyzed().toString()
    return "Generate " in plan


def _number(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Number the rows of a message, which come one after the other, in the order in which they were
    made.
    """
    last, place = None, 0
    for batch in batches:
        places = []
        for message in batch.column("message_id").to_pylist():
            place = place + 1 if message == last else 0
            last = message
            places.append(place)
        yield batch.append_column(PLACE, pa.array(places, pa.int64()))
