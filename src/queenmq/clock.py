"""Time, as an argument: nothing else in the package reads a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_ms() -> float:
    """Return milliseconds of a clock that never goes back; for deadlines and durations only."""
    return time.monotonic() * 1000


def unix_ms() -> int:
    """Return milliseconds since 1970, as others reckon them; for ids and dates only."""
    return time.time_ns() // 1_000_000


def utc_now() -> datetime:
    """Return the same as a date with its zone."""
    return datetime.fromtimestamp(unix_ms() / 1000, UTC)
