"""The stream reader itself, asked as Spark asks it: positions, plans, and what it refuses."""

from __future__ import annotations

import json
import logging
import pickle
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from queenmq.errors import NotFound, StorageRejected, StorageUnavailable
from queenmq.spark.database.connection import Database
from queenmq.spark.progress import measures
from queenmq.spark.source import idle, planning, stream_reader
from queenmq.spark.source.offsets import DataLoss
from queenmq.spark.source.options import read_options
from queenmq.spark.source.stream_reader import QueenStreamReader
from tests.support.feed import Feed

#: A message to each of as many partitions, by plain SQL; a trigger keeps the lookup rows.
_MANY_PARTITIONS = """
    WITH made AS (
        INSERT INTO queen.partitions (id, queue_id, name)
        SELECT gen_random_uuid(), q.id, 'many' || n
        FROM queen.queues q, generate_series(1, 100000) n
        WHERE q.name = 'orders'
        RETURNING id, queue_id
    )
    INSERT INTO queen.messages (id, queue_id, partition_id, seq, payload, created_at)
    SELECT gen_random_uuid(), m.queue_id, m.id, 1, '1', now() FROM made m
"""

Maker = Callable[..., QueenStreamReader]
ALL = ReadAllAvailable()


@pytest.fixture
def make(database_url: str, request: pytest.FixtureRequest) -> Maker:
    def reader(**options: str) -> QueenStreamReader:
        values = {"url": database_url, "queue": "orders", "startingOffsets": "earliest"}
        made = QueenStreamReader(read_options(values | options, is_stream=True))
        request.addfinalizer(made.stop)
        return made

    return reader


def rows(reader: QueenStreamReader, start: dict[str, Any], end: dict[str, Any]) -> Counter[Any]:
    """Partition and seq of everything in a batch, with how often it came."""
    found: Counter[Any] = Counter()
    for task in reader.partitions(start, end):
        for batch in reader.read(pickle.loads(pickle.dumps(task))):
            table = batch.select(["partition", "seq"]).to_pylist()
            found.update((row["partition"], row["seq"]) for row in table)
    return found


def test_a_range_reads_the_same_rows_whenever_it_is_asked(make: Maker, feed: Feed) -> None:
    feed.push_all("orders", ["a", "b", "c"], times=5)
    reader = make()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    before = rows(reader, start, end)
    feed.push_all("orders", ["a", "b", "c"], times=5)
    assert before == rows(make(), start, end)
    assert before == Counter((name, seq) for name in "abc" for seq in range(1, 6))


def test_an_open_transaction_is_neither_skipped_nor_read_early(make: Maker, feed: Feed) -> None:
    feed.push("orders", partition="before")
    reader = make()
    start = reader.initialOffset()
    held = feed.begin()
    held.push("orders", partition="held")
    feed.push("orders", partition="after")
    middle = reader.latestOffset(start, ALL)
    assert rows(reader, start, middle) == Counter([("before", 1)])
    assert reader.latestOffset(middle, ALL) == middle
    held.commit()
    end = reader.latestOffset(middle, ALL)
    assert rows(reader, middle, end) == Counter([("held", 1), ("after", 1)])


def test_a_transaction_rolled_back_leaves_nothing(make: Maker, feed: Feed) -> None:
    reader = make()
    feed.push("orders", partition="a")
    gone = feed.begin()
    gone.push("orders", partition="gone")
    gone.rollback()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert rows(reader, start, end) == Counter([("a", 1)])


def test_limits_admit_whole_transactions_in_their_order(make: Maker, feed: Feed) -> None:
    for size in (2, 2, 7, 1, 1):
        feed.push_all("orders", [f"p{n}" for n in range(size)])
    reader = make()
    position = reader.initialOffset()
    sizes = []
    while (end := reader.latestOffset(position, ReadMaxRows(4))) != position:
        sizes.append(sum(rows(reader, position, end).values()))
        position = end
    assert sizes == [4, 7, 2]


def test_a_limit_holds_over_several_queues(make: Maker, feed: Feed) -> None:
    for _ in range(5):
        feed.push("orders")
        feed.push("bills")
    reader = make(queue="orders,bills")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(4))
    assert sum(rows(reader, start, end).values()) == 4


@pytest.mark.slow
def test_positions_and_plans_do_not_grow_with_a_hundred_thousand_partitions(
    make: Maker, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    rows_of = Database.rows

    def counted(database: Database, statement: Any, parameter: object = None) -> Any:
        asked.append(str(statement))
        return rows_of(database, statement, parameter)

    monkeypatch.setattr(Database, "rows", counted)
    feed.push("orders", partition="first")
    reader = make()
    first = reader.initialOffset()

    def cost_of_a_batch(start: dict[str, Any]) -> tuple[dict[str, Any], int, int, int]:
        asked.clear()
        end = reader.latestOffset(start, ALL)
        tasks = reader.partitions(start, end)
        return end, len(tasks), len(asked), max(map(len, asked))

    small, *cost_of_one = cost_of_a_batch(first)
    feed.execute(_MANY_PARTITIONS)
    large, *cost_of_many = cost_of_a_batch(small)
    assert large["count"] == "100001", "all of them are in it"
    assert len(json.dumps(large)) < 200
    tasks, statements, longest = cost_of_many
    assert (tasks, statements) == (cost_of_one[0], cost_of_one[1])
    assert longest < cost_of_one[2] + 100, "no list of partitions is sent"
    assert sum(rows(reader, small, large).values()) == 100_000


def test_nothing_new_is_the_same_position(make: Maker, feed: Feed) -> None:
    feed.push("orders")
    reader = make()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    feed.push("others")
    assert reader.latestOffset(end, ALL) == end
    assert reader.partitions(end, end) == []


def test_available_now_ends_where_it_was_when_it_began(make: Maker, feed: Feed) -> None:
    feed.push("orders", partition="a")
    reader = make()
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    feed.push("orders", partition="late")
    end = reader.latestOffset(start, ALL)
    assert rows(reader, start, end) == Counter([("a", 1)])
    assert reader.latestOffset(end, ALL) == end


def test_latest_begins_with_what_comes_then(make: Maker, feed: Feed) -> None:
    feed.push("orders", partition="old")
    reader = make(startingOffsets="latest")
    start = reader.initialOffset()
    feed.push("orders", partition="new")
    assert rows(reader, start, reader.latestOffset(start, ALL)) == Counter([("new", 1)])


def test_a_first_batch_that_is_repeated_reads_what_it_read_before(make: Maker, feed: Feed) -> None:
    feed.push("orders", partition="old")
    reader = make(startingOffsets="latest")
    start = reader.initialOffset()
    feed.push("orders", partition="new")
    end = json.loads(json.dumps(reader.latestOffset(start, ALL)))
    # After a crash in the first batch Spark asks for the start once more.
    again = make(startingOffsets="latest")
    assert rows(again, again.initialOffset(), end) == Counter([("new", 1)])


def test_a_timestamp_begins_with_its_messages(make: Maker, feed: Feed, database_url: str) -> None:
    feed.push("orders", partition="old")
    time = feed.rows("SELECT clock_timestamp()")[0][0].isoformat()
    held = feed.begin()
    held.push("orders", partition="held")
    feed.push("orders", partition="new")
    values = {"url": database_url, "queue": "orders", "startingTimestamp": time}
    reader = QueenStreamReader(read_options(values, is_stream=True))
    start = reader.initialOffset()
    held.commit()
    found = rows(reader, start, reader.latestOffset(start, ALL))
    assert found == Counter([("held", 1), ("new", 1)])
    reader.stop()


def test_only_the_chosen_partitions_are_read(make: Maker, feed: Feed) -> None:
    feed.push_all("orders", ["a", "b", "c"], times=2)
    reader = make(partitions="a,c")
    start = reader.initialOffset()
    found = rows(reader, start, reader.latestOffset(start, ReadMaxRows(3)))
    assert found == Counter([("a", 1), ("c", 1)])


def test_a_queue_that_appears_later_is_followed_by_a_pattern(make: Maker, feed: Feed) -> None:
    feed.push("shop.orders", partition="a")
    values = read_options(
        {"url": feed.url, "queuePattern": r"shop\..*", "startingOffsets": "earliest"}
    )
    reader = QueenStreamReader(values)
    start = reader.initialOffset()
    feed.push("shop.bills", partition="b")
    feed.push("workshop.x", partition="c")
    found = rows(reader, start, reader.latestOffset(start, ALL))
    assert found == Counter([("a", 1), ("b", 1)])
    reader.stop()


# Plans.


def test_large_ranges_are_cut_and_nothing_is_read_twice(
    make: Maker, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "TASK_ROWS", 50)
    names = [f"p{n}" for n in range(20)]
    feed.push_all("orders", names, times=10)
    # One transaction that is too large for a task.
    feed.push_all("orders", [f"p{n}" for n in range(300)])
    reader = make()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    tasks = reader.partitions(start, end)
    assert len(tasks) >= 8
    sizes = [sum(batch.num_rows for batch in reader.read(task)) for task in tasks]
    assert sum(sizes) == 500
    assert max(sizes) <= 100
    assert set(rows(reader, start, end).values()) == {1}


def test_large_payloads_make_small_tasks(make: Maker, feed: Feed) -> None:
    for number in range(20):
        feed.push("orders", random.Random(number).randbytes(1500).hex())
    reader = make(maxTaskBytes="20000")
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start, ALL))
    assert len(tasks) >= 2


def test_a_large_transaction_of_one_partition_is_cut_inside(make: Maker, feed: Feed) -> None:
    chance = random.Random(8)
    # Most are small and some are large: an average would make tasks that are far too large. Some
    # are stored compressed.
    sizes = [chance.choice([10, 100, 100, 20_000]) for _ in range(300)]
    texts = [
        "x" * size if n % 3 else chance.randbytes(size // 2).hex() for n, size in enumerate(sizes)
    ]
    feed.push("orders", "first", partition="before")
    feed.push_many("orders", texts, partition="large")
    feed.push("orders", "last", partition="after")
    reader = make(maxTaskBytes="100000", includeXid="true")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    tables = [pa.Table.from_batches(reader.read(task)) for task in reader.partitions(start, end)]
    assert len(tables) > 10
    # One message may go over a bound, and an average puts the small transactions together.
    assert max(pc.sum(pc.binary_length(table["payload"])).as_py() for table in tables) <= 120_000
    # Tasks follow each other in the order of the partition, and together have all of it.
    seqs = [
        sorted(
            row["seq"]
            for row in table.select(["partition", "seq"]).to_pylist()
            if row["partition"] == "large"
        )
        for table in tables
    ]
    assert [seq for task in seqs for seq in task] == list(range(1, 301))
    assert set(rows(reader, start, end).values()) == {1}
    # The same again: a batch that is repeated has the same rows, whatever came later.
    feed.push("orders", "later", partition="large")
    again = [task.messages for task in reader.partitions(start, end)]
    assert again == [table.num_rows for table in tables]


def test_a_least_number_of_tasks_is_kept(make: Maker, feed: Feed) -> None:
    for _ in range(12):
        feed.push("orders")
    reader = make(minPartitions="6")
    start = reader.initialOffset()
    assert len(reader.partitions(start, reader.latestOffset(start, ALL))) >= 6


# Messages removed unread.


def test_messages_removed_before_they_were_read_stop_the_stream(make: Maker, feed: Feed) -> None:
    feed.push_all("orders", ["a", "b"], times=3)
    reader = make()
    start = reader.initialOffset()
    feed.execute("SELECT queen.clear_queue('orders', 'a')")
    feed.push("orders", partition="a")
    end = reader.latestOffset(start, ALL)
    with pytest.raises(DataLoss, match=r"^3 messages were removed"):
        reader.partitions(start, end)
    allowed = make(failOnDataLoss="false")
    assert rows(allowed, start, end) == Counter({("b", 1), ("b", 2), ("b", 3), ("a", 4)})


def test_messages_removed_after_they_were_read_do_not(make: Maker, feed: Feed) -> None:
    feed.push_all("orders", ["a", "b"], times=3)
    reader = make()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    feed.execute("SELECT queen.clear_queue('orders', NULL)")
    feed.push("orders", partition="a")
    # A restart has nothing but the position.
    again = make()
    assert rows(again, end, again.latestOffset(end, ALL)) == Counter([("a", 4)])


def test_a_loss_behind_a_limit_is_found_when_the_stream_begins(make: Maker, feed: Feed) -> None:
    for _ in range(6):
        feed.push("orders", partition="a")
    start = make().initialOffset()
    feed.execute("DELETE FROM queen.messages WHERE seq = 2")
    reader = make()
    end = reader.latestOffset(start, ReadMaxRows(3))
    with pytest.raises(DataLoss, match=r"^1 messages"):
        reader.partitions(start, end)


def test_a_loss_between_plan_and_task_is_found_by_the_task(make: Maker, feed: Feed) -> None:
    feed.push_all("orders", ["a", "b"])
    reader = make()
    start = reader.initialOffset()
    (task,) = reader.partitions(start, reader.latestOffset(start, ALL))
    feed.execute("DELETE FROM queen.messages WHERE seq = 1")
    with pytest.raises(DataLoss, match=r"^2 messages"):
        list(reader.read(task))


# What others see of a stream.


def test_the_position_is_published_under_the_group(make: Maker, feed: Feed) -> None:
    feed.push("orders")
    reader = make(consumerGroup="lake")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    feed.push("orders")
    reader.commit(end)
    (row,) = feed.rows("SELECT *, xid::text AS position FROM queen.spark_positions")
    assert (row["consumer_group"], row["position"], row["lag"]) == ("lake", end["xid"], 1)
    assert json.loads(row["queues"]) == ["orders"]
    last = reader.latestOffset(end, ALL)
    # No batch follows, so nobody would commit this one.
    assert reader.latestOffset(last, ALL) == last
    (row,) = feed.rows("SELECT *, xid::text AS position FROM queen.spark_positions")
    assert (row["position"], row["lag"]) == (last["xid"], 0)


def test_the_lag_of_a_stream_that_is_held_up_grows(
    make: Maker, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_reader, "PUBLISH_AGAIN_MS", 0)
    monkeypatch.setattr(idle, "POLL_MS", 0)
    feed.push("orders")
    reader = make(consumerGroup="lake", openTransactionWarningSeconds="0")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    held = feed.begin()
    held.push("orders", partition="held")
    lags = []
    for number in range(3):
        feed.push("orders", number, partition="waits")
        # The number of the horizon may still grow up to the open transaction.
        end = reader.latestOffset(end, ALL)
        lags.append(feed.rows("SELECT lag FROM queen.spark_positions")[0]["lag"])
    assert lags == [1, 2, 3]
    held.commit()
    end = reader.latestOffset(end, ALL)
    reader.latestOffset(end, ALL)
    assert feed.rows("SELECT lag FROM queen.spark_positions")[0]["lag"] == 0


def test_an_open_transaction_is_named_once(
    make: Maker, feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    feed.push("orders")
    held = feed.begin(server_settings={"application_name": "slow-report"})
    held.push("orders", partition="held")
    feed.push("orders", partition="waits")
    reader = make(openTransactionWarningSeconds="0")
    start = reader.initialOffset()
    with caplog.at_level(logging.WARNING):
        reader.latestOffset(start, ALL)
        reader.latestOffset(start, ALL)
    (text,) = [record.getMessage() for record in caplog.records]
    pid = feed.run(held.session.fetchval("SELECT pg_backend_pid()"))
    assert f"pid {pid}, slow-report, open for" in text
    report = reader.reportLatestOffset()
    assert report is not None and "slow-report" in report["waitsFor"]
    held.commit()
    reader.latestOffset(start, ALL)
    assert "waitsFor" not in (reader.reportLatestOffset() or {})


def test_the_progress_tells_rows_and_lag(
    make: Maker, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measures, "_AGAIN_MS", 0)
    for _ in range(3):
        feed.push("orders")
    feed.push("bills")
    reader = make(queue="orders,bills")
    assert reader.reportLatestOffset() is None
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(2))
    report = reader.reportLatestOffset() or {}
    assert (report["lagMessages"], report["rowsByQueue"]) == (2, {"orders": 2})
    assert report["lagSeconds"] >= 0
    feed.execute("UPDATE queen.messages SET created_at = created_at - interval '1 hour'")
    end = reader.latestOffset(end, ReadMaxRows(1))
    report = reader.reportLatestOffset() or {}
    assert (report["lagMessages"], report["rowsByQueue"]) == (1, {"orders": 1})
    assert report["lagSeconds"] >= 3600
    end = reader.latestOffset(end, ALL)
    # What waits for an open transaction is behind, too.
    held = feed.begin()
    held.push("orders", partition="held")
    feed.push("orders", partition="waits")
    reader.latestOffset(end, ALL)
    report = reader.reportLatestOffset() or {}
    assert (report["lagMessages"], report["rowsByQueue"]) == (1, {})
    held.commit()


def test_a_batch_waits_until_there_is_enough(
    make: Maker, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(stream_reader, "now_ms", lambda: now)
    reader = make(minMessagesPerTrigger="3", maxTriggerDelay="30s")
    feed.push("orders")
    start = reader.initialOffset()
    first = reader.latestOffset(start, ALL)
    assert sum(rows(reader, start, first).values()) == 1
    for _ in range(2):
        feed.push("orders")
    now += 29_000
    assert reader.latestOffset(first, ALL) == first
    feed.push("orders")
    second = reader.latestOffset(first, ALL)
    assert sum(rows(reader, first, second).values()) == 3
    feed.push("orders")
    assert reader.latestOffset(second, ALL) == second
    now += 30_000
    third = reader.latestOffset(second, ALL)
    assert sum(rows(reader, second, third).values()) == 1
    # A run with an end takes what is there, however little.
    feed.push("orders")
    reader.prepareForTriggerAvailableNow()
    assert sum(rows(reader, third, reader.latestOffset(third, ALL)).values()) == 1


def test_a_young_transaction_is_nothing_to_warn_of(
    make: Maker, feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    feed.push("orders")
    held = feed.begin()
    held.push("orders", partition="held")
    feed.push("orders", partition="waits")
    reader = make()
    reader.latestOffset(reader.initialOffset(), ALL)
    assert not caplog.records
    held.rollback()


# Roles and failures.


def test_a_lost_connection_is_opened_again(make: Maker, feed: Feed) -> None:
    feed.push("orders")
    reader = make()
    start = reader.initialOffset()
    feed.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE application_name = 'queen-spark' AND datname = current_database()"
    )
    assert reader.latestOffset(start, ALL) != start


def test_between_calls_no_transaction_is_open(make: Maker, feed: Feed) -> None:
    feed.push("orders")
    reader = make()
    reader.latestOffset(reader.initialOffset(), ALL)
    found = feed.rows(
        "SELECT state, backend_xmin FROM pg_stat_activity"
        " WHERE application_name = 'queen-spark' AND datname = current_database()"
    )
    assert [(row["state"], row["backend_xmin"]) for row in found] == [("idle", None)]


def test_a_missing_queue_is_named(make: Maker, feed: Feed) -> None:
    feed.push("orders")
    with pytest.raises(NotFound, match="no queue bills"):
        make(queue="orders,bills").initialOffset()


def test_an_unreachable_database_is_one_sentence(make: Maker) -> None:
    reader = make(url="postgresql://reader:secret@127.0.0.1:1/queen")
    with pytest.raises(StorageUnavailable) as error:
        reader.initialOffset()
    text = str(error.value)
    assert "127.0.0.1:1" in text and "\n" not in text and "secret" not in text


def test_a_database_without_queen_is_one_sentence(make: Maker, empty_database_url: str) -> None:
    with pytest.raises(StorageRejected, match="no Queen") as error:
        make(url=empty_database_url).initialOffset()
    assert "\n" not in str(error.value)
