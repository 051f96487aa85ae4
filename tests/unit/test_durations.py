"""Lengths of time as people write them."""

from __future__ import annotations

import pytest

from queenmq.durations import parse_seconds

GOOD = {
    "250 ms": 0.25,
    "1 second": 1,
    "90s": 90,
    " 10 Minutes ": 600,
    "2 min": 120,
    "5m": 300,
    "1.5 h": 5_400,
    "1h30m": 5_400,
    "1 hour 30 minutes": 5_400,
    "7 days": 604_800,
    "2 weeks": 1_209_600,
    "0 seconds": 0,
}


@pytest.mark.parametrize("text", GOOD)
def test_lengths_are_read(text: str) -> None:
    assert parse_seconds(text) == GOOD[text]


@pytest.mark.parametrize(
    "text", ["", " ", "5", "minute", "-1 s", "1 month", "5 parsecs", "99999 days", "1h foo", "1h30"]
)
def test_others_are_not(text: str) -> None:
    assert parse_seconds(text) is None
