"""Time, as an argument: nothing else in the package reads a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_ms() -> float:
    """Milliseconds of a clock that never goes back; for deadlines and durations only."""
    return time.monotonic() * 1000


def utc_now() -> datetime:
    """The wall clock, for what people read."""
    return datetime.now(UTC)
