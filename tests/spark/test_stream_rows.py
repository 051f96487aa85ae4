"""Rows of a declared stream without a window: all of them, each once, in the order of their key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from queenmq.spark.jobs.job import Silent, Summary
from queenmq.spark.jobs.stream import StreamJob
from queenmq.spark.streams.definition import load_definition
from tests.support.feed import Feed

Run = Callable[..., Summary]

pytestmark = pytest.mark.timeout(300)

LINES = """
    name = "lines"
    checkpoint = "checkpoint"
    key = "customer"
    [source]
    queue = "orders"
    [fields]
    customer = "string"
    items = "array<string>"
    [select]
    item = "explode(items)"
    [sink]
    {sink}
"""
NUMBERS = """
    name = "copy"
    checkpoint = "checkpoint"
    key = "key"
    [source]
    queue = "numbers"
    [fields]
    key = "string"
    [sink]
    queue = "copies"
"""


@pytest.fixture
def run(spark: SparkSession, database_url: str, tmp_path: Path) -> Run:
    """Runs a stream over what is there."""

    def once(text: str) -> Summary:
        file = tmp_path / "stream.toml"
        file.write_text(text)
        job = StreamJob(load_definition(file), file.name, database_url, is_once=True)
        return job.run(spark, Silent())

    return once


def stored(feed: Feed, queue: str) -> list[tuple[str, str, Any]]:
    """Partition, transaction id and payload of all messages, in order."""
    rows = feed.rows(
        "SELECT p.name, m.transaction_id, m.payload::text FROM queen.messages m"
        " JOIN queen.partitions p ON p.id = m.partition_id JOIN queen.queues q ON q.id = m.queue_id"
        " WHERE q.name = $1 ORDER BY p.name, m.seq",
        queue,
    )
    return [(row[0], row[1], json.loads(row[2])) for row in rows]


def order(feed: Feed, number: int, *, lines: int = 3) -> None:
    items = [f"{number}.{line}" for line in range(lines)]
    feed.push("orders", {"customer": f"c{number % 2}", "items": items}, partition="any")


def test_every_row_of_a_message_is_stored(run: Run, feed: Feed) -> None:
    for number in range(20):
        order(feed, number)
    order(feed, 20, lines=0)
    run(LINES.format(sink='queue = "lines"'))
    found = stored(feed, "lines")
    wanted = [
        (f"c{key}", f"{number}.{line}")
        for key in (0, 1)
        for number in range(key, 20, 2)
        for line in range(3)
    ]
    assert [(partition, payload["item"]) for partition, _, payload in found] == wanted
    ids = [transaction_id for _, transaction_id, _ in found]
    assert len(set(ids)) == 60
    # The first row of a message has the id that it had when it was the only one.
    messages = {
        row["id"]
        for row in feed.rows(
            "SELECT m.id::text FROM queen.messages m JOIN queen.queues q ON q.id = m.queue_id"
            " WHERE q.name = 'orders'"
        )
    }
    assert {text.removeprefix("lines/") for text in ids[::3]} < messages


def test_every_row_of_a_message_is_in_the_table(run: Run, feed: Feed, tmp_path: Path) -> None:
    for number in range(4):
        order(feed, number)
    run(LINES.format(sink='lake = "lake"'))
    table = DeltaTable(str(tmp_path / "lake")).to_pyarrow_table()
    assert table.column_names == ["message_id", "created_at", "key", "item"]
    assert sorted(table["item"].to_pylist()) == [
        f"{n}.{line}" for n in range(4) for line in range(3)
    ]


def test_a_key_keeps_the_order_of_its_partition(run: Run, feed: Feed) -> None:
    payloads = [{"key": f"k{number % 2}", "n": number} for number in range(40)]
    feed.push_many("numbers", payloads, partition="p")
    # As when the table fills space that retention has left: rows do not lie in their order.
    feed.execute("UPDATE queen.messages SET transaction_id = id::text WHERE seq % 3 = 1")
    run(NUMBERS)
    found = [(partition, payload["n"]) for partition, _, payload in stored(feed, "copies")]
    assert found == [(f"k{key}", number) for key in (0, 1) for number in range(key, 40, 2)]


def test_partitions_that_meet_in_a_key_go_by_time_each_in_its_order(run: Run, feed: Feed) -> None:
    for number in range(6):
        pair = [{"key": "k", "n": 2 * number}, {"key": "k", "n": 2 * number + 1}]
        feed.push_many("numbers", pair, partition=f"p{number % 3}")
    feed.execute("UPDATE queen.messages SET transaction_id = id::text WHERE seq % 2 = 1")
    run(NUMBERS)
    assert [payload["n"] for _, _, payload in stored(feed, "copies")] == list(range(12))
