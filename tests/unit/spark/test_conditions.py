"""The option `where`: what it takes, and how it refuses the rest."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from queenmq.errors import InvalidRequest
from queenmq.spark.source.conditions import parse_where
from queenmq.spark.source.filters import Pushed


def test_conditions_narrow_a_read() -> None:
    assert parse_where("Queue='o''neil' and SEQ BETWEEN -2 AND 5 AND seq>=3") == Pushed(
        queues=frozenset({"o'neil"}), seq_from=3, seq_to=5
    )
    time = datetime(2030, 1, 31, 12, tzinfo=UTC)
    assert parse_where("created_at < TIMESTAMP '2030-01-31T12:00:00Z'") == Pushed(time_before=time)
    assert parse_where("partition IN ('a', 'b') AND partition IN ('b')") == Pushed(
        partitions=frozenset({"b"})
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("payload = 'x'", "'payload' is not one of the columns it accepts"),
        ("seq = 1 OR seq = 2", "'OR' stands where AND is expected"),
        ("seq <> 1", "'>' is not a value"),
        ("seq LIKE '1'", "'LIKE' is not an operator; use ="),
        ("seq = '1'", "= does not take that value of seq"),
        ("seq = 99999999999999999999", "= does not take that value of seq"),
        ("seq IN (1)", "IN does not take that value of seq"),
        ("partition = 5", "= does not take that value of partition"),
        ("partition IN ('a'", "it ends too early"),
        ("partition IN ('a' 'b')", "\"'b'\" stands where ) is expected"),
        ("created_at > '2030-01-31'", "has no zone"),
        ("created_at > 'soon'", "'soon' is not a time"),
        ("partition_id = 'A'", "= does not take that value of partition_id"),
        ("seq = 1 AND", "it ends too early"),
        ("seq = 1; DROP TABLE x", "'; DROP TABLE x' cannot be read"),
        ("partition = 'a", '"\'a" cannot be read'),
    ],
)
def test_anything_else_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        parse_where(text)
    assert reason in str(error.value)
    assert "leave all others to where(...)" in str(error.value)
