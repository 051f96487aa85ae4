"""Rows are made fit to be written, and bad ones are found, named or set aside."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs the spark extra")

from queenmq.errors import InvalidRequest  # noqa: E402
from queenmq.spark.sink.options import SinkOptions  # noqa: E402
from queenmq.spark.sink.rows import check_batches  # noqa: E402

ALL = frozenset({"queue", "partition", "payload", "transaction_id", "trace_id"})
GOOD = {
    "queue": "orders",
    "partition": "a",
    "payload": '{"n": 1}',
    "transaction_id": "tx-1",
    "trace_id": "7D444840-9dc0-11d1-b245-5ffdce74fad2",
}


def in_clear(_: str) -> bool:
    return False


def checked(*rows: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """Return the checked rows, all in one batch."""
    batch = pa.RecordBatch.from_pylist(list(rows))
    encrypted = options.pop("encrypted", ())
    columns = options.pop("columns", ALL & set(batch.schema.names))
    asked = SinkOptions("postgresql://x", columns, **options)
    return [
        row
        for one in check_batches([batch], asked, encrypted.__contains__)
        for row in one.to_pylist()
    ]


def test_a_good_row_stays_as_it_is() -> None:
    assert checked(GOOD) == [GOOD]


def test_empty_batches_are_left_out() -> None:
    batches = [pa.RecordBatch.from_pylist([GOOD] * count) for count in (3, 0, 2)]
    found = check_batches(batches, SinkOptions("postgresql://x", ALL), in_clear)
    assert [one.num_rows for one in found] == [3, 2]


def test_constants_fill_all_rows() -> None:
    rows = checked({"payload": "1"}, {"payload": "2"}, queue="orders", partition="lane")
    assert [(row["queue"], row["partition"]) for row in rows] == [("orders", "lane")] * 2
    assert {row["transaction_id"] for row in rows} == {None}


def test_sorting_is_stable_with_nulls_first() -> None:
    order = [3, 1, None, 1, 2]
    rows = [{"payload": str(place), "at": at} for place, at in enumerate(order)]
    found = checked(*rows, queue="q", partition="p", sort_within=("at",))
    assert [row["payload"] for row in found] == ["2", "1", "3", "4", "0"]


def test_nothing_to_sort_is_nothing_written() -> None:
    options = SinkOptions("postgresql://x", ALL, sort_within=("at",))
    assert list(check_batches([], options, in_clear)) == []


BAD = {
    "queue is null": {"queue": None},
    "queue is empty": {"queue": ""},
    "queue has 256 characters, more than 255": {"queue": "x" * 256},
    "partition has 1000 bytes, more than 765": {"partition": "🐝" * 250},
    "partition is null": {"partition": None},
    "transaction_id contains a NUL character": {"transaction_id": "a\x00b"},
    "trace_id is not a UUID": {"trace_id": "trace"},
    "payload is null": {"payload": None},
    "payload is not JSON": {"payload": "{'n': 1}"},
    "payload is not JSON (": {"payload": "[" * 100_000 + "]" * 100_000},
    "payload is not JSON (JSON is malformed: trailing characters": {"payload": "1 2"},
}


@pytest.mark.parametrize("problem", BAD)
def test_a_bad_row_fails_the_write_by_its_key(problem: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        checked(GOOD, {**GOOD, **BAD[problem]}, GOOD)
    text = str(caught.value)
    assert problem in text and "the row with queue " in text
    assert len(text) < 400, "values are cut"


@pytest.mark.parametrize("problem", BAD)
def test_a_bad_row_becomes_a_dead_letter_between_the_good(problem: str) -> None:
    bad = {**GOOD, **BAD[problem]}
    found = checked(GOOD, bad, GOOD, has_dead_letters=True, dead_letter_queue="bad")
    assert [row["queue"] for row in found] == ["orders", "bad", "orders"]
    letter = json.loads(found[1]["payload"])
    assert letter["error"].startswith(problem)
    assert letter["row"] == bad
    assert found[1]["transaction_id"] is None, "two bad rows of one id are two letters"


def test_the_dead_letter_queue_is_named_after_the_queue() -> None:
    (row,) = checked({**GOOD, "payload": "x"}, has_dead_letters=True)
    assert (row["queue"], row["partition"]) == ("orders.deadletter", "a")


@pytest.mark.parametrize("queue", [None, "x" * 250])
def test_a_row_without_a_place_for_its_letter_fails(queue: str | None) -> None:
    with pytest.raises(InvalidRequest, match="option deadLetterQueue"):
        checked({**GOOD, "queue": queue, "payload": "x"}, has_dead_letters=True)


def test_a_dead_letter_shows_columns_of_any_type() -> None:
    at = datetime(2024, 2, 29, 12, 30)
    row = {**GOOD, "payload": "x", "at": at, "raw": b"\xff", "many": [1, None], "of": {"a": 1.5}}
    (found,) = checked(row, has_dead_letters=True)
    shown = json.loads(found["payload"])["row"]
    assert shown["at"].startswith("2024-02-29T12:30") and shown["many"] == [1, None]
    assert shown["of"] == {"a": 1.5} and shown["raw"] == "/w=="


@pytest.mark.parametrize("column", ["queue", "transaction_id", "payload"])
def test_bytes_that_are_no_text_are_a_bad_row(column: str) -> None:
    good = pa.RecordBatch.from_pylist([GOOD])
    # Spark's strings may hold any bytes; Arrow believes it.
    text = pa.StringArray.from_buffers(
        1, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b'"\xff')
    )
    bad = good.set_column(good.schema.get_field_index(column), column, text)
    options = SinkOptions("postgresql://x", ALL)
    with pytest.raises(InvalidRequest, match=f"{column} is not UTF-8 text"):
        list(check_batches([bad], options, in_clear))
    options = SinkOptions("postgresql://x", ALL, None, None, (), True, "bad")
    (row,) = next(check_batches([bad], options, in_clear)).to_pylist()
    assert json.loads(row["payload"])["row"][column] == '"�'


def test_bad_rows_of_an_encrypted_queue_do_not_become_readable() -> None:
    bad = {**GOOD, "queue": "secret", "payload": "{"}
    with pytest.raises(InvalidRequest, match=r"'secret\.deadletter' for such rows is not"):
        checked(bad, has_dead_letters=True, encrypted=("secret",))
    (row,) = checked(bad, has_dead_letters=True, encrypted=("secret", "secret.deadletter"))
    assert row["queue"] == "secret.deadletter"
