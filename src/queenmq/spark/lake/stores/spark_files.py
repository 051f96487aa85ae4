"""Files of an object store in Spark: by its own means where it has them, else through Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from queenmq.spark.lake.layout import COLUMNS, VARIANT, DataFile, Lake
from queenmq.spark.lake.stores.arrow_files import SCHEMA, Place, make_dataset
from queenmq.spark.runtime.failures import explain_missing_jar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Files of one task, at most so many tasks.
_TASKS_MAX = 200
_PLACES = "path string, queue string, day date"


def can_use(spark: SparkSession, lake: Lake) -> bool:
    """Return whether Spark can open files there. A folder needs nothing."""
    if lake.is_local:
        return True
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        # Nothing is read, but the file system is looked up.
        _ = spark.read.format("binaryFile").load(lake.for_spark("_delta_log")).schema
    except (PySparkException, Py4JError) as error:
        # Whatever else is wrong shows where the files are used.
        return explain_missing_jar(str(error)) is None
    return True


def read_by_arrow(spark: SparkSession, lake: Lake, files: Iterable[DataFile]) -> DataFrame:
    """Return the rows of files that Spark cannot open, read by Python workers."""
    from pyspark.sql import functions as F

    places = [Place.of(file) for file in files]
    listed = spark.createDataFrame([tuple(place) for place in places], _PLACES)
    spread = listed.repartition(min(len(places), _TASKS_MAX), "path")
    columns = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS)
    rows = spread.mapInArrow(partial(_read, lake), columns)
    return rows.withColumn(VARIANT, F.try_parse_json("payload"))


def _read(lake: Lake, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        places = [Place(**row) for row in batch.to_pylist()]
        # One after the other: a task has one core.
        for rows in make_dataset(lake, places).to_batches(use_threads=False):
            if rows.num_rows:
                yield rows.select(SCHEMA.names)
