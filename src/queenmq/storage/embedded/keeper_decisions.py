"""Decides what the keeper does when postgres has ended by itself.

Pure, so that each case has a test.

Standard library only: the keeper imports this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Ends of postgres within a minute that may be bad luck. One more is a fault that a restart does
#: not cure, and a tight loop of recoveries would only hide it.
EXITS_PER_MINUTE_MAX = 10

#: Seconds before the first restart, and the bound that doubling stops at. The first is short:
#: pushes are waiting.
RESTART_SECONDS_MIN = 0.1
RESTART_SECONDS_MAX = 5.0

#: The log text while processes of a killed predecessor still hold its memory.
MEMORY_IN_USE = "pre-existing shared memory block"


@dataclass(frozen=True)
class RestartAfter:
    seconds: float


@dataclass(frozen=True)
class GiveUp:
    reason: str


def decide_restart(
    *, has_been_ready: bool, last_words: str, exits_at: Sequence[float], now: float
) -> RestartAfter | GiveUp:
    """Decide what to do after postgres ended. `exits_at` includes this end.

    A server that never got ready has a wrong setting or a broken cluster, and a retry does not
    help. The one exception is memory that a dying predecessor still holds.
    """
    if not has_been_ready and MEMORY_IN_USE not in last_words:
        return GiveUp(f"it ended before it was ready, saying: {last_words}")
    recent = sum(1 for at in exits_at if now - at < 60.0)
    if recent > EXITS_PER_MINUTE_MAX:
        return GiveUp(f"it ended {recent} times within a minute, last saying: {last_words}")
    delay = RESTART_SECONDS_MIN * 2.0 ** max(0, recent - 1)
    return RestartAfter(min(RESTART_SECONDS_MAX, delay))


def last_words_of(log_piece: str) -> str:
    """Return the log lines since the start that explain why postgres ended."""
    lines = [line.strip() for line in log_piece.splitlines() if line.strip()]
    # A wrong setting is named in a line before the fatal one, which only names the file.
    explaining = [line for line in lines if any(mark in line for mark in _EXPLAINING)]
    return " / ".join((explaining or lines)[-2:]) or "nothing"


_EXPLAINING = ("FATAL:", "PANIC:", " parameter ", "syntax error in file")
