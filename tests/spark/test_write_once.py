"""Frames of foreachBatch are written once, and rows go to the partitions that were asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from queenmq.errors import InvalidRequest
from queenmq.spark import with_partition, write_once
from tests.support.spark_sink import read_lines
from tests.support.staging import staged, stored

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Write = Callable[[DataFrame, int], None]


class _Interrupted(Exception):
    """Ends a batch between its write and Spark's record of it."""


def _run(frame: DataFrame, checkpoint: Path, write: Write) -> None:
    query = (
        frame.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _feed(folder: Path, number: int, count: int = 10) -> None:
    folder.mkdir(exist_ok=True)
    lines = [f'{{"partition": "p{n % 2}", "n": {n}, "payload": "{n}"}}' for n in range(count)]
    (folder / f"{number}.json").write_text("\n".join(lines))


async def test_a_batch_that_runs_again_adds_nothing(
    spark: SparkSession, database_url: str, database: asyncpg.Connection, tmp_path: Path
) -> None:
    failures = [True, False]

    def write(frame: DataFrame, batch_id: int) -> None:
        options = {"url": database_url}
        write_once(frame, batch_id, name="all", queue="all", **options)
        write_once(frame.where("n < 3"), batch_id, name="few", queue="few", **options)
        if failures.pop(0):
            raise _Interrupted

    _feed(tmp_path / "in", 0)
    frame = read_lines(spark, tmp_path / "in")
    with pytest.raises(Exception, match="_Interrupted"):
        _run(frame, tmp_path / "checkpoint", write)
    _run(frame, tmp_path / "checkpoint", write)
    assert sorted(await stored(database, "all")) == list(range(10))
    assert sorted(await stored(database, "few")) == [0, 1, 2]
    assert await staged(database) == 0


async def test_what_cannot_be_told_apart_is_refused(
    spark: SparkSession, database_url: str, database: asyncpg.Connection, tmp_path: Path
) -> None:
    def twice(frame: DataFrame, batch_id: int) -> None:
        write_once(frame, batch_id, url=database_url, queue="one")
        write_once(frame, batch_id, url=database_url, queue="two")

    _feed(tmp_path / "in", 0)
    with pytest.raises(Exception, match="give each write of a batch a name of its own"):
        _run(read_lines(spark, tmp_path / "in"), tmp_path / "checkpoint", twice)
    assert await stored(database, "two") == []
    row = spark.sql("SELECT '1' AS payload")
    with pytest.raises(Exception, match="batchId is for foreachBatch, and this write is part of"):
        write_once(row, 0, url=database_url, queue="one")
    assert len(await stored(database, "one")) == 10
    assert await staged(database) == 0


def _places(frame: DataFrame, **way: Any) -> list[str | None]:
    return [row["partition"] for row in with_partition(frame, **way).orderBy("id").collect()]


def test_rows_go_by_column_key_or_expression(spark: SparkSession) -> None:
    frame = spark.range(40).withColumn("half", F.when(F.col("id") % 4 != 0, F.col("id") % 2))
    assert _places(frame, column="id") == [str(n) for n in range(40)]
    expected = [f"x{n % 3}" for n in range(40)]
    assert _places(frame, expression="concat('x', id % 3)") == expected
    assert _places(frame, expression=F.concat(F.lit("x"), F.col("id") % 3)) == expected
    hashed = _places(frame, key=["id", "half"], count=8)
    assert set(hashed) == {str(n) for n in range(8)}
    narrow = frame.withColumn("id", F.col("id").cast("int"))
    assert _places(narrow, key=["id", "half"], count=8) == hashed
    assert len(set(_places(frame, key="half", count=1_000))) == 3, "null is a key, too"
    for way in (
        {},
        {"column": "id", "expression": "id"},
        {"key": "id"},
        {"column": "id", "count": 3},
        {"key": [], "count": 3},
        {"key": "id", "count": 0},
    ):
        with pytest.raises(InvalidRequest, match="with_partition"):
            with_partition(frame, **way)
