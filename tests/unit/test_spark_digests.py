"""The digest of a batch: the same rows in any order, and no others."""

from __future__ import annotations

import random
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from queenmq.spark.sink.digests import add_up, digest_messages, digest_table  # noqa: E402

Row = tuple[str, str, str, str | None, str | None]
NAMES = ("queue", "partition", "payload", "transaction_id", "trace_id")


def batch(*rows: Row) -> Any:
    columns = list(zip(*rows, strict=True)) or [()] * len(NAMES)
    arrays = [pa.array(list(column), pa.string()) for column in columns]
    return pa.record_batch(dict(zip(NAMES, arrays, strict=True)))


ROWS: list[Row] = [
    ("q", "p", "1", None, None),
    ("q", "p", "1", None, None),
    ("q", "p", "1", "id", None),
    ("q", "r", "2", None, "7d444840-9dc0-11d1-b245-5ffdce74fad2"),
    ("qp", "", "1", None, None),
]


def test_order_and_split_do_not_matter() -> None:
    whole = digest_messages(batch(*ROWS))
    shuffled = random.Random(1).sample(ROWS, len(ROWS))
    assert digest_messages(batch(*shuffled)) == whole
    for cut in range(len(ROWS) + 1):
        parts = [digest_messages(batch(*part)) for part in (shuffled[:cut], shuffled[cut:])]
        assert add_up(parts) == whole


@pytest.mark.parametrize("place", range(len(ROWS)))
def test_every_row_counts(place: int) -> None:
    whole = digest_messages(batch(*ROWS))
    rest = ROWS[:place] + ROWS[place + 1 :]
    assert digest_messages(batch(*rest)) != whole
    assert digest_messages(batch(*ROWS, ROWS[place])) != whole


@pytest.mark.parametrize("name", NAMES)
def test_every_column_of_a_row_without_an_id_counts(name: str) -> None:
    changed = list(ROWS[0])
    changed[NAMES.index(name)] = "other"
    assert digest_messages(batch(ROWS[0])) != digest_messages(batch(tuple(changed)))  # type: ignore[arg-type]


def test_a_row_with_an_id_is_that_row_whatever_it_holds() -> None:
    one, same = ("q", "p", "0.1", "id", None), ("q", "p", "0.10000000000000001", "id", None)
    assert digest_messages(batch(one)) == digest_messages(batch(same))
    assert digest_messages(batch(ROWS[0], one)) == digest_messages(batch(ROWS[0], same))


def test_neighbouring_texts_do_not_run_together() -> None:
    first, second = ("ab", "c", "1", None, None), ("a", "bc", "1", None, None)
    assert digest_messages(batch(first)) != digest_messages(batch(second))


def test_a_table_counts_by_the_columns_that_are_named() -> None:
    table = pa.table({"id": ["a", "b"], "n": [1, None], "sum": [0.1, 0.2]})
    other = table.set_column(2, "sum", pa.array([0.3, 0.4]))
    assert digest_table(table, ["id", "n"]) == digest_table(other, ["id", "n"])
    assert digest_table(table, ["id", "sum"]) != digest_table(other, ["id", "sum"])


def test_a_secret_changes_what_payloads_count_for_and_nothing_else() -> None:
    bare = [row for row in ROWS if row[3] is None]
    named = [row for row in ROWS if row[3] is not None]
    assert digest_messages(batch(*bare), b"key") != digest_messages(batch(*bare))
    assert digest_messages(batch(*bare), b"key") == digest_messages(batch(*bare), b"key")
    assert digest_messages(batch(*named), b"key") == digest_messages(batch(*named))
