"""Streams on a real Spark: nothing lost, nothing doubled, restarts, triggers, limits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from queenmq.spark import read_progress
from tests.support.feed import Feed
from tests.support.waiting import wait_until

SOON_S = 90
Start = Callable[..., StreamingQuery]


class Sink:
    """The output of a stream, batch by batch, with every attempt at a batch."""

    def __init__(self) -> None:
        self.attempts: list[tuple[int, frozenset[tuple[str, int]]]] = []
        #: The batch that shall fail once it has been read.
        self.breaks_at: int | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        found = [(row.partition, row.seq) for row in frame.select("partition", "seq").collect()]
        assert len(found) == len(set(found))
        self.attempts.append((batch, frozenset(found)))
        if batch == self.breaks_at:
            self.breaks_at = None
            raise RuntimeError("the sink is broken")

    def rows(self) -> Counter[tuple[str, int]]:
        """Return the last attempt of each batch."""
        return Counter(row for rows in dict(self.attempts).values() for row in rows)

    def sizes(self) -> list[int]:
        return [len(rows) for rows in dict(self.attempts).values() if rows]


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def start(spark: SparkSession, database_url: str, tmp_path: Path, sink: Sink) -> Iterator[Start]:
    """Starts a stream into the sink; always from the same checkpoint."""
    started: list[StreamingQuery] = []

    def run(*, trigger: dict[str, Any] | None = None, **options: str) -> StreamingQuery:
        values = {"url": database_url, "queue": "orders", "startingOffsets": "earliest"} | options
        frame = spark.readStream.format("queen").options(**values).load()
        writer = frame.writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()
        started.append(query)
        return query

    yield run
    for query in started:
        query.stop()


def stored(feed: Feed, queue: str = "orders") -> set[tuple[str, int]]:
    rows = feed.rows(
        "SELECT p.name, m.seq FROM queen.messages m"
        " JOIN queen.partitions p ON p.id = m.partition_id"
        " JOIN queen.queues q ON q.id = m.queue_id WHERE q.name = $1",
        queue,
    )
    return {(row["name"], row["seq"]) for row in rows}


def wait_for(query: StreamingQuery, sink: Sink, count: int) -> None:
    def is_there() -> bool:
        if query.exception() is not None:
            raise AssertionError(str(query.exception()))
        return sum(sink.rows().values()) >= count

    wait_until(is_there, timeout_s=SOON_S, what=f"{count} messages in the sink")


@pytest.mark.slow
def test_concurrent_writers_lose_and_double_nothing(start: Start, feed: Feed, sink: Sink) -> None:
    feed.push("orders", partition="first")
    query = start()
    wait_for(query, sink, 1)
    early = [feed.start(feed.write("orders", f"w{n}", 60, seed=n)) for n in range(4)]
    held = feed.begin()
    held.push("orders", partition="held")
    committed = 1 + sum(future.result(SOON_S) for future in early)
    # More batches while that transaction is open, which hold nothing above it.
    late = [feed.start(feed.write("orders", f"w{n}", 60, seed=10 + n)) for n in range(4)]
    committed += sum(future.result(SOON_S) for future in late)
    batches = len(sink.attempts)
    feed.push("others")
    wait_until(lambda: query.lastProgress is not None, timeout_s=SOON_S, what="progress")
    assert sum(sink.rows().values()) < committed, "rows above an open transaction were read"
    assert ("held", 1) not in sink.rows()
    held.commit()
    wait_for(query, sink, committed + 1)
    feed.push("orders", partition="last")
    wait_for(query, sink, committed + 2)
    assert len(sink.attempts) > batches
    assert sink.rows() == Counter(stored(feed))


def test_a_restart_repeats_the_broken_batch_and_goes_on(
    start: Start, feed: Feed, sink: Sink
) -> None:
    for number in range(20):
        feed.push("orders", number, partition=f"p{number % 3}")
    sink.breaks_at = 1
    query = start(maxMessagesPerTrigger="6", trigger={"availableNow": True})
    with pytest.raises(StreamingQueryException, match="the sink is broken"):
        query.awaitTermination(SOON_S)
    for number in range(5):
        feed.push("orders", number, partition="later")
    query = start(maxMessagesPerTrigger="6", trigger={"availableNow": True})
    assert query.awaitTermination(SOON_S)
    broken = [rows for batch, rows in sink.attempts if batch == 1]
    assert len(broken) == 2 and broken[0] == broken[1]
    assert sink.rows() == Counter(stored(feed))
    assert sink.sizes() == [6, 6, 6, 6, 1]


def test_a_first_batch_from_latest_that_broke_is_not_lost(
    start: Start, feed: Feed, sink: Sink
) -> None:
    feed.push("orders", partition="old")
    query = start(startingOffsets="latest")
    wait_until(lambda: query.lastProgress is not None, timeout_s=SOON_S, what="a first look")
    sink.breaks_at = sink.attempts[-1][0] + 1
    feed.push("orders", partition="new")
    with pytest.raises(StreamingQueryException, match="the sink is broken"):
        query.awaitTermination(SOON_S)
    feed.push("orders", partition="newer")
    query = start(startingOffsets="latest", trigger={"availableNow": True})
    assert query.awaitTermination(SOON_S)
    assert sink.rows() == Counter([("new", 1), ("newer", 1)])


def test_available_now_reads_what_is_there_and_ends(start: Start, feed: Feed, sink: Sink) -> None:
    feed.push_all("orders", [f"p{n}" for n in range(30)], times=3)
    query = start(trigger={"availableNow": True}, consumerGroup="lake", maxMessagesPerTrigger="30")
    assert query.awaitTermination(SOON_S)
    assert sink.rows() == Counter(stored(feed))
    (row,) = feed.rows("SELECT consumer_group, lag, xid::text FROM queen.spark_positions")
    # What Spark reports is what the source told it, batch by batch.
    told = [figures for report in query.recentProgress for figures in read_progress(report)]
    rows = [figures.rows_by_queue.get("orders", 0) for figures in told]
    assert [count for count in rows if count] == [30, 30, 30]
    assert [figures.lag_messages for figures in told][:3] == [60, 30, 0]
    end = json.loads(query.lastProgress["sources"][0]["endOffset"])
    assert (row["consumer_group"], row["lag"], row["xid"]) == ("lake", 0, end["xid"])


def test_a_missing_queue_stops_the_stream_with_a_sentence(start: Start) -> None:
    query = start(queue="none")
    with pytest.raises(StreamingQueryException, match="no queue none; create it"):
        query.awaitTermination(SOON_S)
