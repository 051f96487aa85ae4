"""A stream stops when its database was restored, or a queue was deleted and made again unread."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from queenmq.spark.source.history import HistoryChanged
from queenmq.spark.source.offsets import DataLoss
from queenmq.spark.source.options import read_options
from queenmq.spark.source.stream_reader import QueenStreamReader
from queenmq.storage.embedded.binaries import find_binaries
from tests.support.feed import Feed
from tests.support.own_postgres import OwnPostgres
from tests.support.plain_sql import documented_sql

Maker = Callable[..., QueenStreamReader]
ALL = ReadAllAvailable()

pytestmark = pytest.mark.timeout(120)


def reader_of(url: str, **options: str) -> QueenStreamReader:
    values = {"url": url, "queue": "orders", "startingOffsets": "earliest", "retrySeconds": "30"}
    return QueenStreamReader(read_options(values | options, is_stream=True))


@pytest.fixture
def make(database_url: str, request: pytest.FixtureRequest) -> Maker:
    def reader(url: str = database_url, **options: str) -> QueenStreamReader:
        made = reader_of(url, **options)
        request.addfinalizer(made.stop)
        return made

    return reader


def rows(reader: QueenStreamReader, start: dict[str, Any], end: dict[str, Any]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for task in reader.partitions(start, end):
        for batch in reader.read(task):
            table = batch.select(["partition", "payload"]).to_pylist()
            found.update((row["partition"], row["payload"]) for row in table)
    return found


# A server that goes back in time.


class Restored:
    """A server with one file copy of its past."""

    def __init__(self, server: OwnPostgres) -> None:
        self.server = server
        self._data = server.home / "data"
        self._copy = server.home / "copy"

    def push(self, *payloads: int) -> None:
        with Feed(self.server.url) as feed:
            for payload in payloads:
                feed.push("orders", payload)

    def back_up(self) -> None:
        self.server.stop()
        subprocess.run(["cp", "-a", str(self._data), str(self._copy)], check=True)
        self.server.start()

    def restore(self) -> None:
        self.server.stop()
        shutil.rmtree(self._data)
        self._copy.rename(self._data)
        self.server.start()


@pytest.fixture
def past(server: OwnPostgres) -> Restored:
    return Restored(server)


@pytest.fixture
def stream(server: OwnPostgres) -> Iterator[QueenStreamReader]:
    made = reader_of(server.url)
    yield made
    made.stop()


@pytest.mark.parametrize("pushed", [1, 60], ids=["behind the position", "past the position"])
def test_a_database_restored_from_a_file_copy_stops_the_stream(
    past: Restored, stream: QueenStreamReader, pushed: int
) -> None:
    past.push(1, 2, 3)
    first = stream.latestOffset(stream.initialOffset(), ALL)
    past.back_up()
    past.push(*range(20))
    end = stream.latestOffset(first, ALL)
    past.restore()
    # The numbers of the transactions that are gone are given out once more.
    past.push(*range(100, 100 + pushed))
    with pytest.raises(HistoryChanged, match="is not one of this database") as error:
        stream.latestOffset(end, ALL)
    # It says how to go on without losing anything.
    assert f'startingOffsets {{"xid": "{first["xid"]}"}}' in str(error.value)
    again = reader_of(past.server.url, startingOffsets=f'{{"xid": "{first["xid"]}"}}')
    start = again.initialOffset()
    found = rows(again, start, again.latestOffset(start, ALL))
    assert found == Counter(("Default", str(n)) for n in range(100, 100 + pushed))
    again.stop()


def test_a_restart_of_the_stream_finds_it_too(past: Restored) -> None:
    past.push(1)
    stream = reader_of(past.server.url)
    start = stream.initialOffset()
    past.back_up()
    past.push(2)
    end = stream.latestOffset(start, ALL)
    stream.stop()
    past.restore()
    past.push(*range(60))
    # Spark plans the batch again that it had planned last.
    again = reader_of(past.server.url)
    with pytest.raises(HistoryChanged):
        again.partitions(start, end)
    again.stop()


def test_a_copy_that_has_everything_the_stream_has_read_goes_on(
    past: Restored, stream: QueenStreamReader
) -> None:
    past.push(1, 2, 3)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    past.back_up()
    past.push(4)
    past.restore()
    past.push(5)
    assert rows(stream, end, stream.latestOffset(end, ALL)) == Counter([("Default", "5")])


def test_a_crash_of_the_server_is_no_restore(past: Restored, stream: QueenStreamReader) -> None:
    past.push(1)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    past.server.kill()
    past.server.start()
    past.push(2)
    assert rows(stream, end, stream.latestOffset(end, ALL)) == Counter([("Default", "2")])


def test_a_dump_in_another_database_stops_the_stream(
    make: Maker, feed: Feed, empty_database_url: str
) -> None:
    feed.push("orders", 1)
    reader = make()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    move_by_dump(feed.url, empty_database_url)
    moved = make(url=empty_database_url)
    with pytest.raises(HistoryChanged, match="it was taken in database") as error:
        moved.latestOffset(end, ALL)
    assert "\n" not in str(error.value)
    # Someone who knows that it is the same, as after pg_upgrade, may say so.
    going_on = make(url=empty_database_url, continuesDatabase=end["database"])
    assert going_on.latestOffset(end, ALL) == end
    with Feed(empty_database_url) as other:
        other.push("orders", 2)
    last = going_on.latestOffset(end, ALL)
    assert rows(going_on, end, last) == Counter([("Default", "2")])
    assert last["database"] != end["database"]


def move_by_dump(source: str, target: str) -> None:
    folder = find_binaries().directory
    dump = subprocess.run(
        [f"{folder}/pg_dump", "-Fc", "--no-owner", source], check=True, capture_output=True
    )
    command = [f"{folder}/pg_restore", "--clean", "--if-exists", "--no-owner", "-d", target]
    subprocess.run(command, input=dump.stdout, check=True, capture_output=True)


def test_a_dump_on_a_younger_server_is_read_after_the_documented_step(
    feed: Feed, server: OwnPostgres
) -> None:
    feed.push_all("orders", ["a", "b"], times=2)
    # As on a server that has run many more transactions than the next one.
    feed.execute("UPDATE queen.messages SET xid = (xid::text::bigint + 1000000)::text::xid8")
    move_by_dump(feed.url, server.url)
    reader = reader_of(server.url)
    start = reader.initialOffset()
    with Feed(server.url) as other:
        other.push("orders", partition="c")
        assert sum(rows(reader, start, reader.latestOffset(start, ALL)).values()) == 1
        for statement in documented_sql("operations.md", "Back up and restore").split(";"):
            if statement.strip():
                other.execute(statement)
        other.push("orders", partition="c")
    assert sum(rows(reader, start, reader.latestOffset(start, ALL)).values()) == 6
    reader.stop()


# Queues that are deleted and made again.


def test_a_queue_made_again_before_it_was_read_stops_the_stream(make: Maker, feed: Feed) -> None:
    feed.push("orders", 1)
    reader = make()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    feed.push("orders", 2)
    feed.execute("SELECT queen.delete_queue('orders')")
    feed.push("orders", 3)
    with pytest.raises(DataLoss, match="queue orders was deleted with messages that were not read"):
        reader.latestOffset(end, ALL)
    allowed = make(failOnDataLoss="false")
    last = allowed.latestOffset(end, ALL)
    assert rows(allowed, end, last) == Counter([("Default", "3")])
    feed.push("orders", 4)
    # From there on it looks again.
    assert rows(reader, last, reader.latestOffset(last, ALL)) == Counter([("Default", "4")])


def test_a_queue_deleted_between_plan_and_batch_stops_the_stream(make: Maker, feed: Feed) -> None:
    feed.push("orders", 1)
    reader = make()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    feed.execute("SELECT queen.delete_queue('orders')")
    feed.push("orders", 2)
    with pytest.raises(DataLoss, match="queue orders was deleted"):
        reader.partitions(start, end)


def test_a_queue_made_again_after_it_was_read_is_followed(make: Maker, feed: Feed) -> None:
    feed.push("orders", 0)
    feed.execute("SELECT queen.delete_queue('orders')")
    feed.push("orders", 1)
    reader = make()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    feed.execute("SELECT queen.delete_queue('orders')")
    feed.push("orders", 2)
    assert rows(reader, end, reader.latestOffset(end, ALL)) == Counter([("Default", "2")])


def test_a_queue_of_a_pattern_that_came_and_went_stops_the_stream(make: Maker, feed: Feed) -> None:
    feed.push("orders", 1)
    values = {"url": feed.url, "queuePattern": "ord.*", "startingOffsets": "earliest"}
    reader = QueenStreamReader(read_options(values, is_stream=True))
    end = reader.latestOffset(reader.initialOffset(), ALL)
    for name in ("ordinary", "other"):
        feed.push(name)
        feed.execute("SELECT queen.delete_queue($1)", name)
    feed.push("orders", 2)
    with pytest.raises(DataLoss, match="queue ordinary was deleted"):
        reader.latestOffset(end, ALL)
    reader.stop()
