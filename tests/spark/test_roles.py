"""The documented roles can do what they are for; others are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import asyncpg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from queenmq.errors import StorageRejected
from queenmq.spark.source.options import read_options
from queenmq.spark.source.stream_reader import QueenStreamReader
from tests.support.feed import Feed
from tests.support.shared_postgres import SharedPostgres
from tests.support.staging import Published, Row, publish, stage

#: An operation that waits in the only partition.
_WAITING = (
    "SELECT FROM queen.partitions p CROSS JOIN LATERAL queen.queue_push(ARRAY[p.id], '{1}', NULL,"
    " NULL, '{1}', NULL, NULL, '{1}', '{0}', '{false}', 10)"
)
ALL = ReadAllAvailable()
Maker = Callable[..., QueenStreamReader]


@pytest.fixture
def stranger(feed: Feed, postgres: SharedPostgres) -> Iterator[str]:
    """The URL of a role without any right."""
    with postgres.role("spark_reader", feed.url) as url:
        yield url


@pytest.fixture
def writer(feed: Feed, postgres: SharedPostgres) -> Iterator[str]:
    """The URL of the documented role for writing."""
    with postgres.role("spark_writer", feed.url) as url:
        postgres.grant_documented(feed.execute, "spark-sink.md", "A role for writing")
        yield url


@pytest.fixture
def make(stranger: str, request: pytest.FixtureRequest) -> Maker:
    def reader(**options: str) -> QueenStreamReader:
        values = {"url": stranger, "queue": "orders", "startingOffsets": "earliest"} | options
        made = QueenStreamReader(read_options(values, is_stream=True))
        request.addfinalizer(made.stop)
        return made

    return reader


def test_the_documented_role_can_read(feed: Feed, postgres: SharedPostgres, make: Maker) -> None:
    postgres.grant_documented(feed.execute, "spark.md", "A role for reading")
    feed.push("orders", {"n": 1})
    stream = make()
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    (task,) = stream.partitions(start, end)
    assert [batch.num_rows for batch in stream.read(task)] == [1]
    stream.commit(end)
    assert stream.latestOffset(end, ALL) == end
    feed.push("orders", {"n": 2})
    assert stream.latestOffset(end, ALL) != end, "it waits by a function of its own"


def test_publishing_needs_one_more_grant(feed: Feed, postgres: SharedPostgres, make: Maker) -> None:
    postgres.grant_documented(feed.execute, "spark.md", "A role for reading")
    feed.push("orders")
    stream = make(consumerGroup="lake")
    start = stream.initialOffset()
    with pytest.raises(StorageRejected, match="consumerGroup needs a role") as error:
        stream.latestOffset(start, ALL)
    assert "\n" not in str(error.value)
    feed.execute("GRANT SELECT, INSERT, UPDATE ON queen.spark_positions TO spark_reader")
    stream.commit(stream.latestOffset(start, ALL))
    assert len(feed.rows("SELECT FROM queen.spark_positions")) == 1


def test_a_role_without_rights_is_told_so(feed: Feed, make: Maker) -> None:
    feed.push("orders")
    with pytest.raises(StorageRejected, match="may not read") as error:
        make().initialOffset()
    assert "\n" not in str(error.value) and "local" not in str(error.value)


def test_the_documented_role_can_write(feed: Feed, writer: str) -> None:
    async def write() -> list[Published]:
        session = await asyncpg.connect(writer)
        try:
            again = Row("orders", 2, "a", "tx-1")
            stages = [
                await stage(session, Row("orders", 1, "a", "tx-1"), again, Row("bounded", 3)),
                await stage(session, again, Row("orders", 4, "busy")),
            ]
            return [await publish(session, "stream:test", n, one) for n, one in enumerate(stages)]
        finally:
            await session.close()

    feed.push("orders", 0, partition="busy")
    feed.execute(_WAITING)
    feed.push("bounded")
    feed.execute("UPDATE queen.queues SET max_size = 10 WHERE name = 'bounded'")
    assert feed.run(write()) == [Published(False, 2, 1, 0), Published(False, 0, 1, 1)]
