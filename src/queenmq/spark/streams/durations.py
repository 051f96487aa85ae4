"""Pure: lengths of time as people write them."""

from __future__ import annotations

import re

_UNITS_MS = {
    ("ms", "millisecond", "milliseconds"): 1,
    ("s", "second", "seconds"): 1_000,
    ("min", "minute", "minutes"): 60_000,
    ("h", "hour", "hours"): 3_600_000,
    ("d", "day", "days"): 86_400_000,
}
_WORDS = {word: length for words, length in _UNITS_MS.items() for word in words}
_FORM = re.compile(r"(\d{1,9})\s*([a-z]+)")
_LONGEST_MS = 366 * 86_400_000


def parse_duration(text: str) -> int | None:
    """Milliseconds of `10 minutes`, `90s`, `1 h`; None: that is no length of time."""
    found = _FORM.fullmatch(text.strip().lower())
    if not found or found[2] not in _WORDS:
        return None
    length = int(found[1]) * _WORDS[found[2]]
    return length if length <= _LONGEST_MS else None


def spark_interval(milliseconds: int) -> str:
    """The same in the words of Spark."""
    return f"{milliseconds} milliseconds"
