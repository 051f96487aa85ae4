"""Decides whether waiting requests leave now or gather for a fuller call. Pure: no clock, no I/O.

A call costs broker and database about as much as 16 single messages, whatever it carries. Without
a rule, few clients pay that for each of their messages: as soon as one call has left, the first
request to arrive takes the second slot alone. So while a call is under way, the next one waits
until it is worth its cost, until no call is under way, or for two milliseconds. A lone request
never waits, and neither do requests of many clients, because they fill a call at once.

Far from the database calls travel longer than that, so there they leave at once.
"""

from __future__ import annotations

from queenmq.engine.calls.pace import CallPace

#: Single messages that are worth a call.
ENOUGH = 16
#: The longest wait. A call next to the database takes about half of it.
GATHER_MS = 2.0


class Gathering:
    """Holds back calls of one path that carry little. `row_share` is the work of one row, as a
    share of the work of a request.
    """

    def __init__(self, pace: CallPace, *, row_share: float) -> None:
        self._pace = pace
        self._row_share = row_share
        self._until_ms: float | None = None

    def hold_until(self, now_ms: float, *, calls: int, requests: int, rows: float) -> float | None:
        """Return when to ask again, or None if these waiting requests leave now.

        `calls` are under way. When one of them ends, ask again at once.
        """
        if self._until_ms is None:
            self._until_ms = now_ms + GATHER_MS
        is_full = requests + rows * self._row_share >= ENOUGH
        if not calls or is_full or now_ms >= self._until_ms or not self._pace.is_near:
            self._until_ms = None
        return self._until_ms
