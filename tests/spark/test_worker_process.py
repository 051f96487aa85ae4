"""The effect of our tasks on the Python processes that Spark keeps for them."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from queenmq.spark.runtime.worker_process import calm_garbage_collector


def _frozen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    list(batches)
    counts = []
    for _ in range(2):
        calm_garbage_collector()
        counts.append(gc.get_freeze_count())
    yield pa.record_batch({"count": pa.array(counts, pa.int64())})


def test_a_task_leaves_what_was_imported_to_no_collector(spark: SparkSession) -> None:
    first, second = spark.range(0, 1, 1, 1).mapInArrow(_frozen, "count long").collect()
    assert 0 < second["count"] <= first["count"], "once is enough"


def test_outside_of_tasks_nothing_changes() -> None:
    before = gc.get_freeze_count()
    calm_garbage_collector()
    assert gc.get_freeze_count() == before
