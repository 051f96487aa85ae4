"""The documented read-only role reads everything and writes nothing; other roles are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from queenmq.errors import StorageRejected
from queenmq.spark.options import read_options
from queenmq.spark.stream_reader import QueenStreamReader
from tests.support.feed import Feed
from tests.support.plain_sql import documented_sql

ALL = ReadAllAvailable()
Maker = Callable[..., QueenStreamReader]


@pytest.fixture
def stranger(feed: Feed) -> Iterator[str]:
    """The URL of a role without any right."""
    feed.execute("CREATE ROLE spark_reader LOGIN PASSWORD 'local'")
    parts = urlsplit(feed.url)
    yield feed.url.replace(f"//{parts.netloc}", "//spark_reader:local@")
    feed.execute("DROP OWNED BY spark_reader")
    feed.execute("DROP ROLE spark_reader")


@pytest.fixture
def make(stranger: str, request: pytest.FixtureRequest) -> Maker:
    def reader(**options: str) -> QueenStreamReader:
        values = {"url": stranger, "queue": "orders", "startingOffsets": "earliest"} | options
        made = QueenStreamReader(read_options(values, is_stream=True))
        request.addfinalizer(made.stop)
        return made

    return reader


def grant(feed: Feed, heading: str) -> None:
    for statement in documented_sql("spark.md", heading).split(";"):
        if statement.strip() and "CREATE ROLE" not in statement:
            feed.execute(statement)


def test_the_documented_role_can_read(feed: Feed, make: Maker) -> None:
    grant(feed, "A role for reading")
    feed.push("orders", {"n": 1})
    stream = make()
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    (task,) = stream.partitions(start, end)
    assert [batch.num_rows for batch in stream.read(task)] == [1]
    stream.commit(end)


def test_publishing_needs_one_more_grant(feed: Feed, make: Maker) -> None:
    grant(feed, "A role for reading")
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
