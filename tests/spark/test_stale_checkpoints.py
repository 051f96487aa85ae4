"""A batch that was written before is passed over; another one under its number is an error."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from queenmq.spark.jobs.job import Silent, Summary
from queenmq.spark.jobs.stream import StreamFailed, StreamJob
from queenmq.spark.streams.definition import load_definition
from tests.support.feed import Feed

Run = Callable[[], Summary]

pytestmark = pytest.mark.timeout(300)

COPY = """
    name = "copy"
    checkpoint = "checkpoint"
    [source]
    queue = "orders"
    [sink]
    {sink}
"""


@pytest.fixture(params=['queue = "copies"', 'lake = "lake"'], ids=["queue", "lake"])
def run(
    spark: SparkSession, database_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Run:
    """Runs a stream over what is there."""
    file = tmp_path / "stream.toml"
    file.write_text(COPY.format(sink=request.param))
    return lambda: StreamJob(load_definition(file), file.name, database_url, is_once=True).run(
        spark, Silent()
    )


def written(feed: Feed, tmp_path: Path) -> int:
    """Return how many rows there are, in queue or table."""
    if (tmp_path / "lake").exists():
        return int(DeltaTable(str(tmp_path / "lake")).to_pyarrow_table().num_rows)
    return len(
        feed.rows(
            "SELECT FROM queen.messages m JOIN queen.queues q ON q.id = m.queue_id"
            " WHERE q.name = 'copies'"
        )
    )


def test_a_stream_with_an_older_checkpoint_stops_before_it_loses_rows(
    run: Run, feed: Feed, tmp_path: Path
) -> None:
    checkpoint, copy = tmp_path / "checkpoint", tmp_path / "copy"
    feed.push_many("orders", list(range(20)), partition="a")
    run()
    shutil.copytree(checkpoint, copy)
    feed.push_many("orders", list(range(20)), partition="a")
    run()
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    # The same messages in the same batch: that is written already.
    run()
    assert written(feed, tmp_path) == 40
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    feed.push_many("orders", list(range(30)), partition="a")
    with pytest.raises(
        StreamFailed, match="the checkpoint is older than what was written"
    ) as error:
        run()
    assert "batch 1" in str(error.value) and "\n" not in str(error.value)
    assert written(feed, tmp_path) == 40


def test_a_named_write_of_other_rows_is_an_error(
    spark: SparkSession, database_url: str, feed: Feed
) -> None:
    def write(rows: int, **options: str) -> None:
        frame = spark.range(rows).select(F.col("id").cast("string").alias("payload"))
        writer = frame.write.format("queen").mode("append").option("queue", "named")
        writer.options(url=database_url, writeId="monday", **options).save()

    write(10)
    write(10)
    with pytest.raises(AnalysisException, match="give this write a writeId of its own"):
        write(11)
    write(11, compareRepeats="false")
    assert len(feed.rows("SELECT FROM queen.messages")) == 10
