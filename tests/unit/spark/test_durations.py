"""Lengths of time."""

from __future__ import annotations

import pytest

from queenmq.spark.streams.durations import parse_duration

GOOD = {
    "250 ms": 250,
    "1 second": 1_000,
    "90s": 90_000,
    " 10 Minutes ": 600_000,
    "2 min": 120_000,
    "1 h": 3_600_000,
    "7 days": 604_800_000,
    "0 seconds": 0,
}


@pytest.mark.parametrize("text", GOOD)
def test_lengths_are_read(text: str) -> None:
    assert parse_duration(text) == GOOD[text]


@pytest.mark.parametrize(
    "text", ["", "5", "minute", "1 m", "1.5 h", "-1 s", "1 month", "9999 days"]
)
def test_others_are_not(text: str) -> None:
    assert parse_duration(text) is None
