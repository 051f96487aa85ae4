"""Owns times and durations as people write them: `15m ago`, `1h30m`, `2030-01-31T12:00:00Z`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from queenmq import clock
from queenmq.cli.exits import UsageProblem
from queenmq.durations import parse_seconds

#: `5m` alone, which means five minutes ago.
_SPAN = re.compile(r"(\d+(\.\d+)?\s*[a-z]+\s*)+")
BEGINNING = "1970-01-01T00:00:00Z"


def parse_duration(text: str) -> float:
    """Return seconds of `30s`, `1h30m`, `2 days`. A bare number counts seconds."""
    is_bare = re.fullmatch(r"\s*\d+(\.\d+)?\s*", text)
    seconds = parse_seconds(f"{text.strip()}s" if is_bare else text)
    if seconds is None:
        raise UsageProblem(
            f"{text!r} is not a duration of at most ten years;"
            " use for example 30s, 15m, 1h30m or 2d"
        )
    return seconds


def parse_time(text: str, *, now_ms: float) -> str:
    """Return ISO 8601 for `15m ago` or `15m`, `now`, `beginning`, or a date and time (UTC without
    a zone).
    """
    word = text.strip().lower()
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    if word in ("beginning", "start"):
        return BEGINNING
    if word == "now":
        return _iso(now)
    if word.endswith(" ago") and not word.removesuffix(" ago").strip().isdigit():
        return _iso(now - timedelta(seconds=parse_duration(word.removesuffix(" ago"))))
    if _SPAN.fullmatch(word):
        return _iso(now - timedelta(seconds=parse_duration(word)))
    try:
        found = datetime.fromisoformat(text.strip())
        return _iso(found if found.tzinfo is not None else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise UsageProblem(
            f"{text!r} is not a time; use for example '15m ago', now, beginning"
            " or 2030-01-31T12:00:00Z"
        ) from None


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def when(time: str | None) -> str:
    """Return a time of the server for people: how long ago, or how far ahead.

    JSON has it exactly.
    """
    if not time:
        return ""
    try:
        at_s = datetime.fromisoformat(time).timestamp()
    except ValueError:
        return time
    seconds = clock.unix_ms() / 1000 - at_s
    return f"{age(max(seconds, 0))} ago" if seconds > -1 else f"in {age(-seconds)}"


def age(seconds: float | None) -> str:
    """Return a duration for people: 45s, 12m, 3h, 5d."""
    if seconds is None:
        return ""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
