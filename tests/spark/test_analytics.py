"""`queen pipeline analytics`: numbers worked out by hand, where they go, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from queenmq.spark.jobs.analytics.job import Analytics
from queenmq.spark.jobs.analytics.results import TABLES
from queenmq.spark.jobs.choice import Choice
from queenmq.spark.jobs.job import Silent, Summary
from queenmq.spark.jobs.ranges import Range
from tests.support.feed import Feed

T0 = datetime(2026, 1, 1, tzinfo=UTC)
SPAN = Range(T0, T0 + timedelta(minutes=5), 60)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def place_in_time(feed: Feed, queue: str, partition: str, *seconds: float) -> None:
    """Messages of a partition, created at these times."""
    for number, second in enumerate(seconds, 1):
        feed.push(queue, "x" * 62 if number == 1 else number, partition=partition)
        feed.execute(
            "UPDATE queen.messages m SET created_at = $1, producer_sub = $2 FROM queen.partitions p"
            " JOIN queen.queues q ON q.id = p.queue_id WHERE p.id = m.partition_id"
            " AND q.name = $3 AND p.name = $4 AND m.seq = $5",
            at(second),
            "till" if number % 2 else None,
            queue,
            partition,
            number,
        )
    feed.execute(
        "UPDATE queen.partition_lookup l SET last_message_created_at ="
        " (SELECT max(created_at) FROM queen.messages m WHERE m.partition_id = l.partition_id)"
    )


def step(feed: Feed, second: float, first: int, last: int, **values: Any) -> None:
    """A step of group g in partition a of the queue orders."""
    row = {"dead_lettered": 0, "retries": 0, "cause": "ack", **values}
    feed.execute(
        "INSERT INTO queen.ack_history (queue_id, passed_at, partition_id, consumer_group,"
        " first_seq, last_seq, cause, completed, dead_lettered, retries)"
        " SELECT p.queue_id, $1, p.id, 'g', $2, $3, $4,"
        " $3::bigint - $2::bigint + 1 - $5::bigint, $5, $6"
        " FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id"
        " WHERE q.name = 'orders' AND p.name = 'a'",
        at(second),
        first,
        last,
        row["cause"],
        row["dead_lettered"],
        row["retries"],
    )
    feed.execute(
        "INSERT INTO queen.partition_consumers (partition_id, consumer_group, queue_id, cursor_seq)"
        " SELECT p.id, 'g', p.queue_id, $1 FROM queen.partitions p"
        " JOIN queen.queues q ON q.id = p.queue_id WHERE q.name = 'orders' AND p.name = 'a'"
        " ON CONFLICT (partition_id, consumer_group) DO UPDATE SET cursor_seq = $1",
        last,
    )


@pytest.fixture
def story(feed: Feed) -> None:
    """Two queues: one that keeps a history, of which group g has consumed; one that does not."""
    place_in_time(feed, "orders", "a", -100, 10, 10, 10, 70, 70)
    place_in_time(feed, "orders", "b", 130, 130)
    place_in_time(feed, "plain", "p", 30)
    feed.execute("SELECT * FROM queen.ensure_partitions(ARRAY['orders'], ARRAY['c'], NULL)")
    feed.execute("UPDATE queen.queues SET ack_history = name = 'orders'")
    step(feed, 20, 1, 3)
    step(feed, 80, 4, 5, retries=1)
    step(feed, 200, 6, 6, dead_lettered=1, retries=3)
    feed.execute(
        "INSERT INTO queen.dead_letter_queue (queue_id, partition_id, consumer_group, message_id,"
        " seq, transaction_id, payload, error_message, retry_count, created_at, failed_at)"
        " SELECT queue_id, partition_id, 'g', id, seq, id::text, payload, $1, 3, created_at, $2"
        " FROM queen.messages WHERE seq = 6",
        "order 4711 of 0190d3c5-0000-7000-8000-000000000001 <b>failed</b>",
        at(200),
    )
    feed.execute(
        "INSERT INTO queen.partition_consumers (partition_id, consumer_group, queue_id, cursor_seq)"
        " SELECT p.id, 'h', p.queue_id, 0 FROM queen.partitions p WHERE p.name = 'p'"
    )


@pytest.fixture
def job(database_url: str, tmp_path: Path) -> Analytics:
    return Analytics(
        Choice(database_url),
        SPAN,
        lake=str(tmp_path / "lake"),
        report=tmp_path / "report.html",
    )


def table(feed: Feed, name: str, columns: str, condition: str = "true") -> list[tuple[Any, ...]]:
    rows = feed.rows(
        f"SELECT {columns} FROM queen.analytics_{name} WHERE {condition} ORDER BY {columns}"
    )
    return [tuple(row) for row in rows]


def minutes(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Times as minutes of the range."""
    return [
        tuple(
            (value - T0) / timedelta(minutes=1) if isinstance(value, datetime) else value
            for value in row
        )
        for row in rows
    ]


@pytest.mark.timeout(400)
def test_a_story_is_measured_kept_once_and_told(
    story: None, feed: Feed, job: Analytics, spark: SparkSession
) -> None:
    """One test, because a run takes seconds: the numbers, what is not known, the same run again."""
    summary = job.run(spark, Silent())
    check_numbers(feed)
    check_what_is_not_known(summary, feed, job)
    before = everything(feed, job)
    assert all(before.values())
    assert job.run(spark, Silent()).figures["run"] == summary.figures["run"]
    assert everything(feed, job) == before
    assert len(feed.rows("SELECT FROM queen.analytics_runs")) == 1


def check_numbers(feed: Feed) -> None:
    is_group = "queue = 'orders' AND consumer_group = 'g'"
    assert minutes(
        table(feed, "timeline", "bucket_at, consumed, backlog, retries, dead_letters", is_group)
    ) == [(0, 3, 1, 0, 0), (1, 2, 1, 1, 0), (2, 0, 3, 0, 0), (3, 1, 2, 3, 1), (4, 0, 2, 0, 0)]
    assert minutes(
        table(
            feed,
            "timeline",
            "bucket_at, latency_p50_ms, latency_p99_ms",
            f"{is_group} AND latency_p50_ms IS NOT NULL",
        )
    ) == [(0, 10_000, 120_000), (1, 10_000, 70_000), (3, 130_000, 130_000)]
    assert minutes(
        table(
            feed,
            "timeline",
            "queue, bucket_at, pushed",
            "consumer_group IS NULL AND pushed > 0",
        )
    ) == [("orders", 0, 3), ("orders", 1, 2), ("orders", 2, 2), ("plain", 0, 1)]
    assert minutes(
        table(
            feed,
            "partitions",
            "partition, bucket_at, pushed, consumed, backlog",
            "queue = 'orders'",
        )
    ) == [
        ("a", 0, 3, None, None),
        ("a", 0, None, 3, 1),
        ("a", 1, 2, None, None),
        ("a", 1, None, 2, 1),
        ("a", 3, None, 1, 0),
        ("b", 2, 2, None, None),
        ("b", 2, None, None, 2),
    ]
    assert table(feed, "hottest", "queue, rank, partition, pushed") == [
        ("orders", 1, "a", 5),
        ("orders", 2, "b", 2),
        ("plain", 1, "p", 1),
    ]
    ((partitions, pushed, largest, gini, p50, biggest, keeps),) = table(
        feed,
        "queues",
        "partitions, pushed, max_by_mean, gini, payload_p50, payload_max, keeps_history",
        "queue = 'orders'",
    )
    # Three partitions with 0, 2 and 5 of 7.
    assert (partitions, pushed, keeps, p50, biggest) == (3, 7, True, 1, 64)
    assert largest == pytest.approx(15 / 7)
    assert gini == pytest.approx(2 * (1 * 0 + 2 * 2 + 3 * 5) / (3 * 7) - 4 / 3)
    assert table(feed, "dead_letters", "queue, consumer_group, error, letters") == [
        ("orders", "g", "order <n> of <id> <b>failed</b>", 1)
    ]
    assert table(feed, "producers", "queue, producer, pushed", "queue = 'orders'") == [
        ("orders", "till", 3),
        ("orders", None, 4),
    ]
    assert table(feed, "payload_sizes", "queue, up_to_bytes, messages") == [
        ("orders", 64, 7),
        ("plain", 64, 1),
    ]


def check_what_is_not_known(summary: Summary, feed: Feed, job: Analytics) -> None:
    groups = table(feed, "groups", "queue, consumer_group, backlog_now, consumed, latency_p50_ms")
    assert groups == [("orders", "g", 2, 6, 10_000), ("plain", "h", 1, None, None)]
    assert "1 of 2 queues" in summary.figures["without ack history"]
    assert job.report is not None
    page = job.report.read_text()
    assert "are not known for: plain" in page
    assert "<b>failed" not in page and "&lt;b&gt;failed" in page


def everything(feed: Feed, job: Analytics) -> dict[str, list[str]]:
    """All results, in the tables of the API and in the lake."""
    from deltalake import DeltaTable

    found = {}
    for name in TABLES:
        rows = feed.rows(f"SELECT t::text FROM queen.analytics_{name} t ORDER BY 1")
        found[name] = [row[0] for row in rows]
    for name in (*TABLES, "runs"):
        lake = DeltaTable(f"{job.lake}/analytics/{name}").to_pyarrow_table().to_pylist()
        found[f"lake {name}"] = sorted(map(str, lake))
    return found


@pytest.mark.timeout(400)
def test_partitions_can_be_chosen_and_another_bucket_is_another_run(
    story: None, feed: Feed, job: Analytics, spark: SparkSession
) -> None:
    choice = replace(job.choice, queue="orders", partitions="b")
    narrow = Analytics(choice, replace(SPAN, bucket_s=300), top=1)
    plan = narrow.plan(spark)
    assert plan.figures["messages"] == 2 and plan.tables["queues"].rows == [("orders", 3, True)]
    assert not feed.rows("SELECT FROM queen.analytics_runs"), "a plan changes nothing"
    summary = narrow.run(spark, Silent())
    assert summary.figures["messages"] == 2
    assert table(feed, "hottest", "partition, share") == [("b", 1.0)]
    assert minutes(table(feed, "timeline", "consumer_group, bucket_at, pushed, backlog")) == [
        (None, 0, 2, None)
    ]


@pytest.mark.timeout(400)
def test_backlog_before_a_seek_back_and_skew_without_the_unused_default_partition(
    feed: Feed, database_url: str, spark: SparkSession
) -> None:
    feed.execute("SELECT * FROM queen.ensure_partitions(ARRAY['orders'], ARRAY['Default'], NULL)")
    place_in_time(feed, "orders", "a", -100, -100, -100, 10)
    place_in_time(feed, "idle", "Default", -100)
    feed.execute("UPDATE queen.queues SET ack_history = true")
    step(feed, -90, 1, 3)
    # The operator sought back to the start meanwhile; the group's next step tells.
    step(feed, 130, 1, 1)
    Analytics(Choice(database_url), SPAN).run(spark, Silent())
    backlog = table(feed, "timeline", "bucket_at, backlog", "consumer_group = 'g'")
    assert minutes(backlog) == [(0, 1), (1, 1), (2, 3), (3, 3), (4, 3)]
    skew = table(feed, "queues", "queue, partitions, pushed, max_by_mean, gini")
    assert skew == [("idle", 1, 0, None, None), ("orders", 1, 1, 1.0, 0.0)]
