"""Pure: lengths of time in definitions and in the words of Spark."""

from __future__ import annotations

from queenmq.durations import parse_seconds

_LONGEST_S = 366 * 86_400


def parse_duration(text: str) -> int | None:
    """Return milliseconds of `10 minutes`, `90s`, `1h30m`, or None for any other text."""
    seconds = parse_seconds(text)
    return None if seconds is None or seconds > _LONGEST_S else round(seconds * 1000)


def spark_interval(milliseconds: int) -> str:
    """Return the same in the words of Spark."""
    return f"{milliseconds} milliseconds"
