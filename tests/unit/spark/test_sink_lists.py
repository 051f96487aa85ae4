"""Rows become lists by partition, in order, bounded in items and bytes."""

from __future__ import annotations

import random
from typing import Any
from uuid import uuid4

import pytest

pa = pytest.importorskip("pyarrow", reason="needs the spark extra")

from queenmq.spark.sink.lists import Lists, make_lists  # noqa: E402

STAGE = uuid4()
NAMES = ("queue", "partition", "payload", "transaction_id", "trace_id")
SCHEMA = pa.schema([*((name, pa.string()) for name in NAMES), ("is_encrypted", pa.bool_())])


def batch(*rows: tuple[str, str, str], **columns: list[Any]) -> Any:
    """Rows of (queue, partition, payload)."""
    values = zip(*rows, strict=True) if rows else ([], [], [])
    given = dict(zip(NAMES, map(list, values), strict=False)) | columns
    arrays = [pa.array(given.get(name, [None] * len(rows)), pa.string()) for name in NAMES]
    marks = pa.array([row[0] == "secret" for row in rows], pa.bool_())
    return pa.record_batch([*arrays, marks], schema=SCHEMA)


def rows_of(lists: list[Lists]) -> list[dict[str, Any]]:
    return [row for one in lists for row in one.batch.to_pylist()]


def test_rows_of_a_partition_are_one_list_in_their_order() -> None:
    rows = [("q", "a", "1"), ("q", "b", "2"), ("q", "a", "3"), ("r", "a", "4"), ("q", "b", "5")]
    (found,) = make_lists([batch(*rows)], STAGE)
    assert found.messages == len(rows)
    lists = {(row["queue"], row["partition"]): row["payloads"] for row in rows_of([found])}
    assert lists == {("q", "a"): ["1", "3"], ("q", "b"): ["2", "5"], ("r", "a"): ["4"]}
    assert {row["stage_id"] for row in rows_of([found])} == {STAGE.bytes}
    assert [row["ordinal"] for row in rows_of([found])] == [0, 1, 2]


def test_ids_go_with_their_payloads_and_are_left_out_where_there_are_none() -> None:
    rows = [("q", "a", "1"), ("q", "b", "2"), ("q", "a", "3")]
    found = rows_of(list(make_lists([batch(*rows, transaction_id=["x", None, None])], STAGE)))
    assert [row["transaction_ids"] for row in found] == [["x", None], [None]]
    assert [row["trace_ids"] for row in found] == [None, None]


def test_small_batches_are_put_together() -> None:
    batches = [batch(("q", "a", str(n)), ("q", "b", str(n))) for n in range(50)]
    (found,) = make_lists(batches, STAGE)
    assert [row["payloads"] for row in rows_of([found])] == [[str(n) for n in range(50)]] * 2


def test_nothing_gives_nothing() -> None:
    assert list(make_lists([], STAGE)) == []


@pytest.mark.parametrize(("size", "count"), [(10, 12_000), (3_000, 9_000), (9_000_000, 3)])
def test_lists_are_bounded_and_lose_nothing(size: int, count: int) -> None:
    chance = random.Random(size)
    rows = [("q", chance.choice("aaab"), f"{n:06}{'x' * size}") for n in range(count)]
    lists = list(make_lists([batch(*rows)], STAGE))
    assert sum(one.messages for one in lists) == count
    found = rows_of(lists)
    assert [row["ordinal"] for row in found] == list(range(len(found)))
    for row in found:
        payloads = row["payloads"]
        assert len(payloads) <= 5_000
        assert sum(map(len, payloads)) <= 8 * 1024 * 1024 or len(payloads) == 1
    for name in "ab":
        stored = [text for row in found if row["partition"] == name for text in row["payloads"]]
        assert stored == [text for _, place, text in rows if place == name]
