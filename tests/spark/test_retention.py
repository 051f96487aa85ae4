"""Streams beside retention: what was read may go, what was not is missed to the last message."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from queenmq.spark.source.offsets import DataLoss
from queenmq.spark.source.options import read_options
from queenmq.spark.source.stream_reader import QueenStreamReader
from tests.support.feed import Feed

ALL = ReadAllAvailable()
_RULES = {
    "retention": "retention_enabled = true, retention_seconds = 100",
    "completed": "retention_enabled = true, completed_retention_seconds = 100",
    "eviction": "max_wait_time_seconds = 100",
}
Maker = Callable[..., QueenStreamReader]


@pytest.fixture
def make(database_url: str, request: pytest.FixtureRequest) -> Maker:
    def reader(**options: str) -> QueenStreamReader:
        values = {"url": database_url, "queue": "orders", "startingOffsets": "earliest"}
        made = QueenStreamReader(read_options(values | options, is_stream=True))
        request.addfinalizer(made.stop)
        return made

    return reader


def _remove_old(feed: Feed, rule: str) -> None:
    """Let a rule take everything that is there."""
    feed.execute("UPDATE queen.messages SET created_at = created_at - interval '1 hour'")
    feed.execute(f"UPDATE queen.queues SET {_RULES[rule]}")
    feed.execute("SELECT r.* FROM queen.queues q, queen.apply_retention(q.id, '', 99, 9999) r")


@pytest.mark.parametrize("rule", ["retention", "eviction"])
def test_messages_that_went_unread_are_counted(make: Maker, feed: Feed, rule: str) -> None:
    feed.push_all("orders", ["a", "b"], times=2)
    reader = make()
    middle = reader.latestOffset(reader.initialOffset(), ALL)
    feed.push_all("orders", ["a", "b"], times=3)
    _remove_old(feed, rule)
    assert feed.rows("SELECT FROM queen.messages") == []
    feed.push("orders", partition="a")
    with pytest.raises(DataLoss, match=r"^6 messages were removed"):
        reader.partitions(middle, reader.latestOffset(middle, ALL))


def test_what_a_stream_with_a_group_has_read_is_completed_and_no_loss(
    make: Maker, feed: Feed
) -> None:
    feed.push_all("orders", ["a", "b"], times=2)
    reader = make(consumerGroup="lake")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.commit(end)
    feed.push("orders", partition="a")
    _remove_old(feed, "completed")
    left = feed.rows("SELECT seq FROM queen.messages")
    assert [row["seq"] for row in left] == [3], "not read yet"
    last = reader.latestOffset(end, ALL)
    (task,) = reader.partitions(end, last)
    assert sum(batch.num_rows for batch in reader.read(task)) == 1
