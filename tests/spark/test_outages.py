"""Streams, tasks and the sink wait for a PostgreSQL that is restarted, and say so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from queenmq.errors import StorageUnavailable
from queenmq.ids import random_uuid
from queenmq.spark.sink.lists import make_lists
from queenmq.spark.sink.store import Stage, Stager, publish
from queenmq.spark.source.options import read_options
from queenmq.spark.source.stream_reader import QueenStreamReader
from tests.support.feed import Feed
from tests.support.own_postgres import OwnPostgres
from tests.support.waiting import wait_until

ALL = ReadAllAvailable()
SOON_S = 90

pytestmark = [
    pytest.mark.timeout(300),
    # Spark leaves the closing of its sockets and processes to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def reader_of(server: OwnPostgres, *, retry_s: int = 60) -> QueenStreamReader:
    values = {"url": server.url, "queue": "orders", "startingOffsets": "earliest"}
    return QueenStreamReader(read_options(values | {"retrySeconds": str(retry_s)}, is_stream=True))


def push(server: OwnPostgres, *payloads: int, queue: str = "orders") -> None:
    with Feed(server.url) as feed:
        for payload in payloads:
            feed.push(queue, payload)


@pytest.fixture
def stream(server: OwnPostgres) -> Iterator[QueenStreamReader]:
    push(server, 1)
    made = reader_of(server)
    yield made
    made.stop()


def test_a_stream_goes_on_without_news_while_the_server_is_away(
    server: OwnPostgres, stream: QueenStreamReader
) -> None:
    end = stream.latestOffset(stream.initialOffset(), ALL)
    server.stop()
    assert stream.latestOffset(end, ALL) == end
    assert "PostgreSQL, away for" in (stream.reportLatestOffset() or {})["waitsFor"]
    # What it tells others about itself is nothing to stop for.
    stream.commit(end)
    server.start()
    push(server, 2)
    wait_until(lambda: stream.latestOffset(end, ALL) != end, timeout_s=SOON_S, what="a batch")
    report = stream.reportLatestOffset() or {}
    assert report["outages"] == "1" and "waitsFor" not in report


def test_a_server_that_stays_away_ends_the_stream(server: OwnPostgres) -> None:
    push(server, 1)
    stream = reader_of(server, retry_s=1)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    server.stop()

    def fails() -> bool:
        try:
            stream.latestOffset(end, ALL)
        except StorageUnavailable:
            return True
        return False

    wait_until(fails, timeout_s=SOON_S, what="the stream to give up")


def test_a_run_to_the_end_a_plan_and_a_task_wait_for_the_server(
    server: OwnPostgres, stream: QueenStreamReader
) -> None:
    start = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    with restarted(server):
        end = stream.latestOffset(start, ALL)
    assert end != start
    with restarted(server):
        (task,) = stream.partitions(start, end)
    with restarted(server):
        assert sum(batch.num_rows for batch in stream.read(task)) == 1


class restarted:
    """A server that is stopped when the block begins, and started again while it runs."""

    def __init__(self, server: OwnPostgres) -> None:
        self._server = server
        self._start = threading.Timer(0.5, server.start)

    def __enter__(self) -> None:
        self._server.stop()
        self._start.start()

    def __exit__(self, *_: object) -> None:
        self._start.join()


def test_rows_are_staged_and_published_over_restarts(server: OwnPostgres) -> None:
    stage_id = random_uuid()
    names = ("queue", "partition", "payload")
    rows = pa.record_batch(
        {name: pa.array(["1", "2", "3"]) for name in names}
        | {name: pa.nulls(3, pa.string()) for name in ("transaction_id", "trace_id")}
        | {"is_encrypted": pa.repeat(pa.scalar(False), 3)}
    )
    ((lists, count),) = make_lists([rows], stage_id)
    with Stager(server.url, 60) as stager:
        _ = stager.store
        with restarted(server):
            stager.stage(lists)
        # As after a connection that broke off before the answer: the rows are there.
        stager.store.stage(lists, is_retry=True)
    with restarted(server):
        stages = [Stage(str(stage_id), count)]
        published = publish(server.url, "stream:x", 0, stages, digest=1, retry_s=60)
    assert published.stored == 3


@pytest.mark.slow
def test_a_query_outlives_a_restart(
    spark: SparkSession, server: OwnPostgres, tmp_path: Path
) -> None:
    push(server, *range(5))
    messages = spark.readStream.format("queen").options(
        url=server.url, queue="orders", startingOffsets="earliest"
    )
    rows = messages.load().select("partition", "payload", "transaction_id")
    writer = rows.writeStream.format("queen").options(url=server.url, queue="copies")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        wait_until(lambda: copies(server) == 5, timeout_s=SOON_S, what="the first messages")
        for number in range(2):
            server.stop()
            server.start()
            push(server, *range(100 * number, 100 * number + 10))
            wanted = 5 + 10 * (number + 1)
            wait_until(
                lambda wanted=wanted: query.exception() or copies(server) >= wanted,
                timeout_s=SOON_S,
                what="messages of after the restart",
            )
            assert query.exception() is None and copies(server) == wanted
    finally:
        query.stop()


def copies(server: OwnPostgres) -> int:
    with Feed(server.url) as feed:
        return len(
            feed.rows(
                "SELECT FROM queen.messages m JOIN queen.queues q ON q.id = m.queue_id"
                " WHERE q.name = 'copies'"
            )
        )
