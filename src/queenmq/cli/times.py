"""Owns times and durations as people write them: `15m ago`, `1h30m`, `2030-01-31T12:00:00Z`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from queenmq.cli.exits import UsageProblem

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_WORDS = {
    "sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m",
    "minute": "m", "minutes": "m", "hour": "h", "hours": "h", "day": "d", "days": "d",
    "week": "w", "weeks": "w",
}  # fmt: skip
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)")
#: Longer ones are slips of the pen, and would leave the calendar.
_LONGEST_S = 10 * 365 * 86_400

BEGINNING = "1970-01-01T00:00:00Z"


def parse_duration(text: str) -> float:
    """Seconds of `30s`, `1h30m`, `2 days`; a bare number counts seconds."""
    rest, seconds = text.strip().lower(), 0.0
    if re.fullmatch(r"\d+(\.\d+)?", rest):
        rest += "s"
    while rest:
        part = _PART.match(rest)
        unit = part and _WORDS.get(part.group(2), part.group(2))
        if part is None or unit not in _UNITS:
            raise UsageProblem(f"{text!r} is not a duration; write such as 30s, 15m, 1h30m or 2d")
        seconds += float(part.group(1)) * _UNITS[unit]
        rest = rest[part.end() :].strip()
    if not text.strip() or seconds > _LONGEST_S:
        raise UsageProblem(f"{text!r} is not a duration of at most ten years; write such as 15m")
    return seconds


def parse_time(text: str, *, now_ms: float) -> str:
    """ISO 8601 for `15m ago`, `now`, `beginning`, or a date and time (UTC without a zone)."""
    word = text.strip().lower()
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    if word in ("beginning", "start"):
        return BEGINNING
    if word == "now":
        return _iso(now)
    if word.endswith(" ago") and not word.removesuffix(" ago").strip().isdigit():
        return _iso(now - timedelta(seconds=parse_duration(word.removesuffix(" ago"))))
    try:
        found = datetime.fromisoformat(text.strip())
        return _iso(found if found.tzinfo is not None else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise UsageProblem(
            f"{text!r} is not a time; write such as '15m ago', now, beginning"
            " or 2030-01-31T12:00:00Z"
        ) from None


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def age(seconds: float | None) -> str:
    """A duration for people: 45s, 12m, 3h, 5d."""
    if seconds is None:
        return ""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
