"""SQL conditions are made from typed values alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from queenmq.spark.database.sql_text import Sql, fill
from queenmq.spark.source.selection import Place, Selection

QUEUE = UUID("00000000-0000-4000-8000-000000000001")


def test_only_what_is_bounded_becomes_a_condition() -> None:
    text = Selection((QUEUE,), start=3, end=9).condition()
    assert f"'{{{QUEUE}}}'" in text and "'3'" in text and "'9'" in text
    assert "seq" not in text and "created_at" not in text and "hash" not in text


def test_every_bound_is_in_the_condition() -> None:
    selection = Selection(
        (QUEUE,),
        partitions=(QUEUE,),
        seq_from=4,
        seq_to=5,
        time_from=datetime(2026, 1, 2, tzinfo=UTC),
        time_before=datetime(2026, 1, 3, tzinfo=UTC),
        place_from=Place(QUEUE, 6),
        place_before=Place(QUEUE, 7),
    )
    text = selection.condition()
    for piece in (
        "m.seq >= 4",
        "m.seq <= 5",
        "2026-01-02T",
        "2026-01-03T",
        f">= ('{QUEUE}'::uuid, 6)",
        f"< ('{QUEUE}'::uuid, 7)",
    ):
        assert piece in text


@pytest.mark.parametrize(
    "selection",
    [
        Selection(()),
        Selection((QUEUE,), partitions=()),
        Selection((QUEUE,), start=5, end=5),
    ],
)
def test_nothing_is_asked_for_nothing(selection: Selection) -> None:
    assert selection.is_empty


@pytest.mark.parametrize("value", ["'; DROP TABLE x", ["a"], [QUEUE, "b"]])
def test_texts_do_not_get_into_statements(value: Any) -> None:
    with pytest.raises(TypeError):
        fill(Sql("{{value}}"), value=value)
