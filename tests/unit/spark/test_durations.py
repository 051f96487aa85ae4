"""Lengths of time in definitions of streams."""

from __future__ import annotations

import pytest

from queenmq.spark.streams.durations import parse_duration


def test_lengths_are_milliseconds() -> None:
    assert parse_duration("10 minutes") == 600_000
    assert parse_duration("250 ms") == 250


@pytest.mark.parametrize("text", ["", "5", "1 month", "9999 days"])
def test_others_are_not(text: str) -> None:
    assert parse_duration(text) is None
