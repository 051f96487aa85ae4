"""A lake is a Delta table for everyone: each reader finds the queue's messages by any column, what
other writers did is seen by all of ours, and lakes of release 0.1.0 become like new ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from queenmq.cli import main
from queenmq.spark.jobs.audit.job import Audit
from queenmq.spark.jobs.choice import Choice
from queenmq.spark.jobs.job import Silent
from queenmq.spark.jobs.replay.job import Replay
from queenmq.spark.jobs.replay.options import ReplayOptions
from queenmq.spark.lake import Lake, read_messages
from queenmq.spark.lake.table import open_table
from tests.support.archive import archived, live, run_archive
from tests.support.feed import Feed
from tests.support.first_layout import to_first_layout

pytest.importorskip("duckdb", reason="duckdb is not installed; it is one of the readers")
pytest.importorskip("polars", reason="polars is not installed; it is one of the readers")

from tests.support.lake_readers import compare_readers, live_rows

pytestmark = pytest.mark.timeout(300)

#: What breaks folder names, URLs, patterns, and readers that guess types.
QUEUES = [
    "plain",
    "a b",
    "a/b=c",
    "50%2F",
    "a+b&c",
    "*?[x]{y}^",
    "'\"#\\",
    "größe",
    "日本",
    "line\nfeed",
    "007",
    "true",
    "2026-01-31",
    "null",
    "~x",
    "..",
    "tail ",
]


def _fill(feed: Feed) -> None:
    for number, name in enumerate(QUEUES):
        feed.push(name, {"n": number}, partition=name)
        feed.push(name, "x" * 5000 + "\U0010ffff" * 40, transaction_id=f"{name}/1")
        feed.push(name, None, trace_id=str(uuid4()))
    feed.execute(
        "UPDATE queen.messages SET producer_sub = 'me', is_encrypted = true,"
        " created_at = '2024-02-29 23:59:59.999999+00' WHERE transaction_id IS NOT NULL AND seq = 1"
    )
    feed.execute("UPDATE queen.queues SET namespace = 'größe', task = '' WHERE name LIKE 'a%'")


def test_every_reader_finds_the_messages_of_a_queue_by_any_column(
    spark: SparkSession, feed: Feed, database_url: str, tmp_path: Path
) -> None:
    place = str(tmp_path / "lake")
    _fill(feed)
    assert run_archive(spark, database_url, place).is_ok
    compare_readers(spark, place, live_rows(feed))


def _lake(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Run `queen pipeline lake ...`: its exit code and its answer."""
    capsys.readouterr()
    code = main.run(["pipeline", "lake", *words, "-o", "json"])
    told = capsys.readouterr()
    assert told.out, told.err
    return code, json.loads(told.out)


def _replay(spark: SparkSession, url: str, place: str) -> int:
    """Replay all of a lake to queue `again`; how many messages."""
    options = ReplayOptions(
        url=url,
        lake=Lake.at(place),
        queues=(),
        partitions=(),
        since=None,
        until=None,
        where=None,
        target_queue="again",
        partition_expression=None,
        has_fresh_ids=True,
        rate=None,
        batch_rows=100_000,
        name="",
    )
    summary = Replay(options).run(spark, Silent())
    assert summary.is_ok
    written: int = summary.figures["written"]
    return written


def test_what_other_writers_did_is_seen_by_our_readers(
    spark: SparkSession,
    feed: Feed,
    database_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = str(tmp_path / "lake")
    for _ in range(2):
        feed.push_all("a/b c", ["p", "q"], times=5)
        feed.push_all("orders", ["p"], times=5)
        run_archive(spark, database_url, place)
    before = live(feed)
    delta = DeltaTable(Lake.at(place).messages)
    delta.optimize.compact()
    delta.optimize.z_order(["seq"])
    assert not any(file.has_variant for file in open_table(Lake.at(place)).files())
    assert archived(spark, place) == before, "rows are the same in other files"
    variants = read_messages(spark, place).where("payload_variant IS NOT NULL")
    assert variants.count() == len(before), "the payloads of other writers are parsed"
    assert _lake(capsys, "verify", "--lake", place)[0] == 0
    delta.delete("seq = 1")
    delta.update({"producer_sub": "'x'"}, predicate="seq = 2 AND queue = 'orders'")
    left = [row for row in before if row[5] != 1]
    found = archived(spark, place, "queue", "partition", "seq", "payload")
    assert found == [(row[0], row[3], row[5], row[9]) for row in left]
    feed.execute("DELETE FROM queen.messages")
    union = spark.read.format("queen").options(
        url=database_url, queuePattern=".*", includeArchive="true", archivePath=place
    )
    rows = union.load().orderBy("queue", "partition", "seq").collect()
    assert [(row.queue, row.partition, row.seq, row.payload) for row in rows] == found
    code, answer = _lake(capsys, "verify", "--lake", place)
    assert code == 6 and [
        (each["queue"], each["partition"], each["verified"], each["found"], each["what"])
        for each in answer["differences"]
    ] == [
        ("a/b c", "p", 10, 9, "missing"),
        ("a/b c", "q", 10, 9, "missing"),
        ("orders", "p", 10, 9, "missing"),
    ]
    audit = Audit(Choice(database_url), lake=place).run(spark, Silent())
    checks = {row[0] for row in audit.tables["first findings"].rows}
    assert not audit.is_ok and "manifest" in checks
    feed.push_all("orders", ["p"])
    assert run_archive(spark, database_url, place, compact=True).is_ok
    files = {file.queue: file.has_variant for file in open_table(Lake.at(place)).files()}
    assert files == {"orders": True, "a/b c": False}, "only small files were compacted"
    assert _replay(spark, database_url, place) == len(left) + 1


def test_lakes_of_the_first_release_are_read_and_brought_up_to_date(
    spark: SparkSession,
    feed: Feed,
    database_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = str(tmp_path / "lake")
    names = ["plain", "a/b c", "größe", "n" * 60]
    for name in names:
        feed.push(name, {"n": 1}, partition=name)
        feed.push(name, None, trace_id=str(uuid4()))
    run_archive(spark, database_url, place)
    queue_ids = [row[0] for row in feed.rows("SELECT id FROM queen.queues")]
    to_first_layout(spark, Lake.at(place), queue_ids)
    assert all(file.is_of_first_layout for file in open_table(Lake.at(place)).files())
    assert archived(spark, place) == live(feed)
    assert read_messages(spark, place).where("payload_variant IS NOT NULL").count() == 8
    feed.push("plain", {"n": 2}, partition="plain")
    summary = run_archive(spark, database_url, place)
    assert summary.is_ok and summary.figures["messages archived"] == 1, "it goes on where it was"
    assert _lake(capsys, "verify", "--lake", place)[0] == 0
    code, told = _lake(capsys, "describe", "--lake", place)
    assert (code, told["figures"]["messages"]) == (0, 9)
    assert told["figures"]["files of release 0.1.0"] == 4
    code, told = _lake(capsys, "optimize", "--lake", place)
    assert (code, told["figures"]["files of release 0.1.0"]) == (0, 1)
    assert told["left to queen pipeline archive --compact"] == [{"queue": "größe"}]
    assert archived(spark, place) == live(feed)
    summary = run_archive(spark, database_url, place, compact=True)
    assert summary.is_ok and summary.figures["files compacted"] == 1
    assert not any(file.is_of_first_layout for file in open_table(Lake.at(place)).files())
    compare_readers(spark, place, live_rows(feed))
