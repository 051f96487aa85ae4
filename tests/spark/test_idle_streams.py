"""A stream with nothing to read asks once a second, and hears of messages at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from queenmq.spark.database.connection import Database
from queenmq.spark.source import idle
from queenmq.spark.source.options import read_options
from queenmq.spark.source.stream_reader import QueenStreamReader
from tests.support.broker import SOON_S
from tests.support.feed import Feed
from tests.support.waiting import wait_until

ALL = ReadAllAvailable()
_WAITING = (
    "SELECT count(*) AS waiting FROM pg_stat_activity WHERE state = 'active'"
    " AND datname = current_database() AND query LIKE '%wait_for_messages%'"
    " AND pid <> pg_backend_pid()"
)
Maker = Callable[..., QueenStreamReader]


@pytest.fixture
def make(database_url: str, request: pytest.FixtureRequest) -> Maker:
    def reader(**options: str) -> QueenStreamReader:
        values = {"url": database_url, "startingOffsets": "earliest", **options}
        made = QueenStreamReader(read_options(values, is_stream=True))
        request.addfinalizer(made.stop)
        return made

    return reader


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that are sent from now on."""
    sent: list[str] = []
    real = Database.rows

    def rows(self: Database, statement: Any, parameter: object = None) -> Any:
        sent.append(str(statement))
        return real(self, statement, parameter)

    monkeypatch.setattr(Database, "rows", rows)
    return sent


def _idle(reader: QueenStreamReader) -> dict[str, Any]:
    """Return the position of a stream that has read everything and has polled once more."""
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert reader.latestOffset(end, ALL) == end
    return end


def test_an_idle_stream_sends_one_statement_at_a_time(
    feed: Feed, make: Maker, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "WAIT_MS", 20)
    feed.push("orders")
    reader = make(queue="orders", consumerGroup="lake", partitions="Default")
    end = _idle(reader)
    asked.clear()
    for _ in range(5):
        assert reader.latestOffset(end, ALL) == end
    assert len(asked) == 5
    # What its own partitions do not have is no news.
    feed.push("orders", partition="other")
    assert reader.latestOffset(end, ALL) == end
    assert len(asked) == 6
    monkeypatch.setattr(idle, "POLL_MS", 0)
    assert reader.latestOffset(end, ALL) == end
    assert len(asked) > 8, "a look at everything, now and then"


def test_a_stream_with_too_few_messages_for_a_batch_looks_less_and_less_often(
    feed: Feed, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(idle, "pause", pauses.append)
    feed.push("orders")
    reader = make(queue="orders", minMessagesPerTrigger="3")
    end = _idle(reader)
    for pushes in (1, 2):
        feed.push("orders", partition="few")
        assert reader.latestOffset(end, ALL) == end, f"{pushes} of 3"
        for _ in range(3):
            reader.latestOffset(end, ALL)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1]
    feed.push("orders", partition="few")
    later = reader.latestOffset(end, ALL)
    assert later != end
    feed.push("orders")
    for _ in range(2):
        assert reader.latestOffset(later, ALL) == later
    assert pauses[8:] == [0.1], "a batch begins anew"


@pytest.mark.parametrize("scope", [{"queue": "orders"}, {"queuePattern": "ord.*"}])
def test_messages_end_the_wait(
    feed: Feed, make: Maker, scope: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "WAIT_MS", int(SOON_S) * 1_000)
    feed.push("orders")
    reader = make(**scope)
    end = _idle(reader)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(reader.latestOffset, end, ALL)
        is_waiting = lambda: feed.rows(_WAITING)[0]["waiting"] == 1  # noqa: E731
        wait_until(is_waiting, timeout_s=SOON_S, what="the wait to begin")
        held = feed.begin()
        held.push("orders")
        # A queue that is made meanwhile is one of the pattern, and is waited for with the others.
        feed.push("ord-new" if "queuePattern" in scope else "orders", partition="other")
        assert is_waiting(), "what an open transaction holds back is no news"
        held.commit()
        later = waiting.result(SOON_S)
    tasks = reader.partitions(end, later)
    assert sum(batch.num_rows for task in tasks for batch in reader.read(task)) == 2
