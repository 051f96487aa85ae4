"""A slow Spark read beside pushes and pops holds nothing back: vacuum removes what is dead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.datasource import ReadAllAvailable

from queenmq.spark.source.batch_reader import QueenBatchReader
from queenmq.spark.source.options import read_options
from queenmq.spark.source.stream_reader import QueenStreamReader
from tests.isolation.sessions import ensure, pop_one
from tests.support.feed import Feed

_ROUNDS, _MESSAGES = 5, 40
_PLACES = [f"p{n}" for n in range(20)]
#: Sessions of the data source, and how far back each one makes vacuum keep rows.
_SESSIONS = (
    "SELECT state, backend_xid IS NULL AND backend_xmin IS NULL AS is_free FROM pg_stat_activity"
    " WHERE application_name LIKE 'queen-spark%' AND datname = current_database()"
)
#: Rewritten by every push and every pop.
_BUSY = ("queen.partition_lookup", "queen.partition_consumers")
_KEPT = re.compile(r"(\d+) are dead but not yet removable")


def work(feed: Feed) -> None:
    """Pushes and pops; each rewrites a row of some partition."""
    session = feed.session()
    places = feed.run(ensure(session, "busy", *_PLACES))
    feed.push_all("busy", _PLACES, times=_MESSAGES)
    for place in places:
        feed.run(pop_one(session, place, batch=_MESSAGES, auto_ack=True))


def dead_rows(feed: Feed) -> int:
    """Return vacuum's count of rows that it could not remove, for the busiest tables."""
    told: list[str] = []
    session = feed.session()
    session.add_log_listener(lambda _, message: told.append(message.message))
    for table in _BUSY:
        feed.run(session.execute(f"VACUUM (VERBOSE, PROCESS_TOAST false) {table}"))
    counts = [int(count) for text in told for count in _KEPT.findall(text)]
    assert len(counts) == len(_BUSY), told
    return sum(counts)


def pages(feed: Feed) -> int:
    sizes = feed.rows(
        "SELECT sum(pg_relation_size(t::regclass)) AS n FROM unnest($1::text[]) t", _BUSY
    )
    return int(sizes[0]["n"]) // 8192


@contextmanager
def batch_read(feed: Feed) -> Iterator[None]:
    """A task whose consumer has taken the first rows and takes its time."""
    reader = QueenBatchReader(read_options({"url": feed.url, "queue": "orders"}, is_stream=False))
    (split,) = reader.partitions()
    rows: Iterator[pa.RecordBatch] = reader.read(split)
    assert next(rows).num_rows > 0
    yield
    assert list(rows) == []


@contextmanager
def stream_read(feed: Feed) -> Iterator[None]:
    """A stream between two batches, with a task of the last one still at work."""
    options = {"url": feed.url, "queue": "orders", "startingOffsets": "earliest"}
    stream = QueenStreamReader(read_options(options, is_stream=True))
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    (split,) = stream.partitions(start, end)
    rows = stream.read(split)
    assert next(rows).num_rows > 0
    yield
    stream.commit(end)
    stream.stop()


def check(feed: Feed) -> None:
    """Load, and vacuum after each round of it, while somebody else reads."""
    work(feed)
    dead_rows(feed)
    before = pages(feed)
    for _ in range(_ROUNDS):
        work(feed)
        assert all(row["is_free"] for row in feed.rows(_SESSIONS)), feed.rows(_SESSIONS)
        assert dead_rows(feed) == 0
    assert pages(feed) <= 2 * before


@pytest.mark.parametrize("slow_read", [batch_read, stream_read])
def test_a_slow_task_holds_nothing_back(
    feed: Feed, slow_read: Callable[[Feed], contextmanager[None]]
) -> None:
    feed.push_all("orders", _PLACES, times=5)
    with slow_read(feed):
        check(feed)


def test_a_slow_job_holds_nothing_back(feed: Feed, read: Callable[..., DataFrame]) -> None:
    feed.push_all("orders", _PLACES, times=5)
    rows = read(queue="orders", minPartitions=3).toLocalIterator(prefetchPartitions=False)
    seen = [next(rows)]
    check(feed)
    seen += rows
    assert len(seen) == 5 * len(_PLACES)


def test_an_open_snapshot_would_be_noticed(feed: Feed) -> None:
    work(feed)
    reader = feed.begin(server_settings={"application_name": "queen-spark"})
    feed.run(reader.session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
    feed.run(reader.session.execute("SELECT FROM queen.messages"))
    work(feed)
    assert not all(row["is_free"] for row in feed.rows(_SESSIONS))
    assert dead_rows(feed) > 0
    reader.rollback()
