"""Queues become files of a lake: every message, as it was, once, and noted only when verified."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from queenmq.errors import NotFound
from queenmq.spark.jobs.job import Summary
from queenmq.spark.lake import Lake, read_messages
from queenmq.spark.lake.manifest import read_manifest
from queenmq.spark.lake.table import open_table
from tests.support.archive import archive_job, archived, live, marks, run_archive
from tests.support.feed import Feed
from tests.support.shared_postgres import SharedPostgres

pytestmark = pytest.mark.timeout(300)

Archive = Callable[..., Summary]

#: What breaks paths, patterns, escapes and the names of folders.
ODD_NAMES = ["a/b=c", "50%2F", "*?[x]{y}^", "'\"#\\", " ", "größe", "line\nfeed", "n" * 255, "~x"]


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path / "la ke")


@pytest.fixture
def archive(spark: SparkSession, database_url: str, lake: str) -> Archive:
    """Archives all queues of the test's own database, unless told otherwise."""
    return partial(run_archive, spark, database_url, lake)


def files(lake: str) -> set[str]:
    return {str(path) for path in Path(lake).rglob("*") if path.is_file()}


def test_every_message_is_in_the_lake_as_it_was_and_once(
    spark: SparkSession, feed: Feed, archive: Archive, lake: str
) -> None:
    for number, name in enumerate(ODD_NAMES):
        feed.push(name, {"n": number}, partition=name)
    feed.push("ns.task", [1.50, None], transaction_id="tx/1", trace_id=str(uuid4()))
    feed.push("ns.task", "ü\u0000")
    feed.execute('UPDATE queen.messages SET payload = \'{"a": 1, "a":  2}\' WHERE seq = 2')
    feed.execute(
        "UPDATE queen.messages SET producer_sub = 'me', is_encrypted = true,"
        " created_at = '2024-02-29 23:59:59.999999+00' WHERE transaction_id = 'tx/1'"
    )
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        summary = archive()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert summary.is_ok and summary.figures["messages archived"] == 11
    assert archived(spark, lake) == live(feed)
    assert archive().figures["messages archived"] == 0
    assert archived(spark, lake) == live(feed)
    found = read_messages(spark, lake, queues=["ns.task", "größe"]).orderBy("queue", "seq")
    rows = found.selectExpr("seq", "to_json(payload_variant)").collect()
    assert [tuple(row) for row in rows] == [(1, '{"n":5}'), (1, "[1.5,null]"), (2, None)]


def test_others_read_the_lake_without_spark(feed: Feed, archive: Archive, lake: str) -> None:
    for name in ODD_NAMES:
        feed.push(name, {"name": name})
    archive()
    table = DeltaTable(Lake.at(lake).messages)
    rows = table.to_pyarrow_table(columns=["queue", "day", "payload", "created_at"]).to_pylist()
    assert sorted(row["queue"] for row in rows) == sorted(ODD_NAMES)
    assert all(json.loads(row["payload"]) == {"name": row["queue"]} for row in rows)
    assert all(row["day"] == row["created_at"].date() for row in rows)
    plain = table.to_pyarrow_table(filters=[("queue", "=", "a/b=c")])
    assert plain.num_rows == 1 and "payload_variant" not in plain.column_names
    path = Path(lake, "messages", open_table(Lake.at(lake)).files()[0].path)
    variant = pq.read_schema(path).field("payload_variant").type
    assert [field.name for field in variant.field("typed_value").type] == ["name"], "shredded"


class MetricFamily:
    """The progress that a job reports."""

    def __init__(self) -> None:
        self.writing: list[tuple[int | None, int | None]] = []

    def report(self, what: str, done: int | None = None, total: int | None = None) -> None:
        if what == "writing messages":
            self.writing.append((done, total))


def test_a_backlog_is_cut_into_commits_at_transactions(
    spark: SparkSession, feed: Feed, archive: Archive, lake: str
) -> None:
    feed.push_all("orders", ["a", "b", "c", "d"], times=5)
    told = MetricFamily()
    summary = archive_job(feed.url, lake, max_messages=9).run(spark, told)
    assert summary.figures["commits"] == 3, "two transactions of four each, as many as fit"
    assert told.writing == [(0, 20), (8, 20), (16, 20)], "how far it is, and of how much"
    assert archived(spark, lake) == live(feed)
    assert archive(max_messages=1).figures["commits"] == 0
    feed.push_all("orders", ["a", "b"])
    assert archive(max_messages=1).figures["messages archived"] == 2, "one is never cut"


def test_a_queue_is_archived_once_whichever_queues_it_is_chosen_with(
    spark: SparkSession, feed: Feed, archive: Archive, lake: str
) -> None:
    for name in ("one", "two", "three"):
        feed.push(name, 1)
    archive(queue="two")
    for name in ("three", "two", "one"):
        feed.push(name, 2)
    assert archive().figures["messages archived"] == 5
    assert archived(spark, lake) == live(feed)


def test_the_manifest_tells_what_each_commit_brought(
    spark: SparkSession, feed: Feed, archive: Archive, lake: str
) -> None:
    feed.push_all("orders", ["a", "b"], times=3)
    archive()
    feed.push("orders", 4, partition="b")
    archive()
    rows = read_manifest(spark, Lake.at(lake)).orderBy("end_xid", "partition").collect()
    assert [(row.partition, row.messages, row.first_seq, row.last_seq) for row in rows] == [
        ("a", 3, 1, 3),
        ("b", 3, 1, 3),
        ("b", 1, 4, 4),
    ]
    assert all(0 < row.checksum < 3 * 2**60 for row in rows)
    (ranges,) = {(rows[0].start_xid, rows[0].end_xid), (rows[1].start_xid, rows[1].end_xid)}
    assert ranges[0] < ranges[1] <= rows[2].start_xid


def test_what_an_open_transaction_holds_is_archived_when_it_ends(
    spark: SparkSession, feed: Feed, archive: Archive, lake: str
) -> None:
    feed.push("orders", 1)
    late = feed.begin()
    late.push("orders", 2, partition="other")
    feed.push("orders", 3)
    summary = archive()
    assert summary.figures["messages archived"] == 1
    assert summary.figures["messages that wait for an open transaction"] == 1
    assert str(summary.figures["open transaction"]).startswith("pid ")
    assert marks(feed) == {("orders", "Default"): 1}
    late.commit()
    assert archive().figures["messages archived"] == 2
    assert archived(spark, lake) == live(feed)


def test_messages_removed_meanwhile_are_no_fault(
    spark: SparkSession, feed: Feed, archive: Archive, lake: str
) -> None:
    feed.push_all("orders", ["a", "b"], times=4)
    archive()
    feed.execute("DELETE FROM queen.messages WHERE seq <= 2")
    # As after a run that was killed before it verified.
    feed.execute("DELETE FROM queen.archive_positions")
    summary = archive()
    assert summary.is_ok
    assert summary.figures["messages removed from queues before they were verified"] == 4
    assert len(archived(spark, lake)) == 8


def test_a_queue_that_was_deleted_and_made_again_is_a_new_one(
    spark: SparkSession, feed: Feed, archive: Archive, lake: str
) -> None:
    feed.push("orders", 0)
    archive()
    feed.execute("SELECT queen.delete_queue('orders')")
    assert marks(feed) == {}
    assert feed.rows("SELECT * FROM queen.archive_positions") == []
    feed.push("orders", 1)
    assert archive().figures["messages archived"] == 1
    assert sorted(archived(spark, lake, "seq", "payload")) == [(1, "0"), (1, "1")]
    entries = read_manifest(spark, Lake.at(lake)).collect()
    assert [entry.messages for entry in entries] == [1, 1]


def test_a_plan_changes_nothing(
    spark: SparkSession, database_url: str, feed: Feed, archive: Archive, lake: str
) -> None:
    feed.push("orders", 1)
    feed.push("other", 1)
    plan = archive_job(database_url, lake).plan(spark)
    assert plan.figures["messages to archive"] == 2
    assert plan.tables["queues"].rows == [("orders", 1), ("other", 1)]
    assert not Path(lake).exists()
    archive(queue="orders")
    before = files(lake), feed.rows("SELECT * FROM queen.archive_positions"), marks(feed)
    assert archive_job(database_url, lake).plan(spark).figures["messages to archive"] == 1
    assert before == (
        files(lake),
        feed.rows("SELECT * FROM queen.archive_positions"),
        marks(feed),
    )


def test_small_files_are_compacted_and_old_ones_deleted(
    spark: SparkSession, feed: Feed, archive: Archive, lake: str
) -> None:
    for number in range(3):
        feed.push("orders", {"n": number}, partition=f"p{number}")
        archive()
    stray = Path(lake, "messages", "data-killed", "_temporary")
    stray.mkdir(parents=True)
    half = stray.joinpath("part-0.parquet")
    half.write_text("half a file")
    before = archived(spark, lake)
    assert archive(compact=True).figures["files compacted"] == 3
    table = open_table(Lake.at(lake))
    assert len(table.files()) == 1
    assert archived(spark, lake) == before == live(feed)
    variants = read_messages(spark, lake).where("payload_variant IS NOT NULL")
    assert variants.count() == 3, "compaction keeps what delta-rs does not know"
    assert archive(compact=True).figures["files compacted"] == 0
    parquet = [path for path in files(lake) if "part-" in path and not path.endswith(".crc")]
    assert len([path for path in parquet if "/messages/" in path]) == 5
    assert table.vacuum(1) == 0, "they are too young"
    table.vacuum(0)
    assert half.exists(), "a job may be about to commit it"
    a_day_ago = time.time() - 90_000
    os.utime(half, (a_day_ago, a_day_ago))
    table.vacuum(0)
    assert not half.exists()
    assert archived(spark, lake) == before
    feed.push("orders", 4)
    assert archive().is_ok


def test_marks_belong_to_one_lake_until_another_takes_them(
    spark: SparkSession, database_url: str, feed: Feed, archive: Archive, tmp_path: Path
) -> None:
    feed.push("orders", 1)
    archive()
    feed.push("orders", 2)
    second = str(tmp_path / "second")
    assert run_archive(spark, database_url, second).figures["messages archived"] == 2
    assert marks(feed) == {("orders", "Default"): 1}
    assert run_archive(spark, database_url, second, take_marks=True).is_ok
    assert marks(feed) == {("orders", "Default"): 2}
    feed.push("orders", 3)
    archive()
    assert marks(feed) == {("orders", "Default"): 2}


def test_a_lake_that_is_not_there_is_an_error_and_an_empty_one_is_none(
    spark: SparkSession, database_url: str, feed: Feed, archive: Archive, lake: str
) -> None:
    with pytest.raises(NotFound, match="there is no lake at"):
        read_messages(spark, lake)
    archive()
    assert archived(spark, lake) == []
    feed.push("orders", 1)
    archive()
    day = datetime.now(UTC).date()
    assert read_messages(spark, lake, since=day, until=day).count() == 1
    assert read_messages(spark, lake, queues=["other"]).count() == 0
    assert read_messages(spark, lake, until=day.replace(year=2020)).count() == 0
    with pytest.raises(NotFound, match="no queue nowhere"):
        run_archive(spark, database_url, lake, queue="nowhere")


def test_the_documented_role_can_archive(
    spark: SparkSession, feed: Feed, postgres: SharedPostgres, lake: str
) -> None:
    with postgres.role("spark_reader", feed.url) as url:
        postgres.grant_documented(feed.execute, "spark.md", "A role for reading")
        postgres.grant_documented(feed.execute, "pipeline.md", "A role for archiving")
        feed.push("orders", 1)
        assert run_archive(spark, url, lake).figures["partitions marked"] == 1
