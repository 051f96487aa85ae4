"""Pure: lengths of time as people write them, everywhere the same: `30s`, `1h30m`, `10 minutes`."""

from __future__ import annotations

import re

_UNITS = {
    ("ms", "millisecond", "milliseconds"): 0.001,
    ("s", "sec", "secs", "second", "seconds"): 1,
    ("m", "min", "mins", "minute", "minutes"): 60,
    ("h", "hour", "hours"): 3_600,
    ("d", "day", "days"): 86_400,
    ("w", "week", "weeks"): 604_800,
}
_SECONDS = {word: length for words, length in _UNITS.items() for word in words}
_PART = re.compile(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*([a-z]+)")
#: Longer ones are slips of the pen, and would leave the calendar.
_LONGEST_S = 10 * 365 * 86_400


def parse_seconds(text: str) -> float | None:
    """Return seconds of a length of time. None means: that is none, or one of more than ten
    years.
    """
    rest, seconds = text.strip().lower(), 0.0
    if not rest:
        return None
    while rest:
        part = _PART.match(rest)
        if part is None or part[2] not in _SECONDS:
            return None
        seconds += float(part[1]) * _SECONDS[part[2]]
        rest = rest[part.end() :].strip()
    return seconds if seconds <= _LONGEST_S else None
