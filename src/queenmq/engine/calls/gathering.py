"""Decides whether waiting requests leave now or gather for a fuller call. Pure: no clock, no I/O.

A call costs broker and database about as much as 16 single messages, whatever it carries. Without
a rule, few clients pay that for nearly every message: as soon as one call has left, the first
request to arrive takes the second slot alone. So while a call is under way, the next one waits
until it is worth its cost, or for two milliseconds. A lone request never waits, and neither do
those of many clients, because they fill a call at once.

Pushes also leave when as many of them wait as are under way: then two calls of equal size keep the
database busier than one. Pops and acks do not, because consumers pop and ack in turns, so the calls
of the one kind run beside those of the other.

Far from the database calls travel longer than that, so there they leave at once.
"""

from __future__ import annotations

from collections.abc import Callable

#: Single messages that are worth a call.
ENOUGH = 16
#: The longest wait. A small call next to the database takes about half of it.
GATHER_MS = 2.0


class Gathering:
    """Holds back calls of one path that carry little.

    `is_near` says whether the database is near. `row_share` is the work of one row, as a share of
    the work of a request. With `alternates`, the path has its calls in turns with another one.
    """

    def __init__(
        self, is_near: Callable[[], bool], *, row_share: float, alternates: bool = False
    ) -> None:
        self._is_near = is_near
        self._row_share = row_share
        self._alternates = alternates
        self._until_ms: float | None = None

    def hold_until(
        self, now_ms: float, *, under_way: int, requests: int, rows: float
    ) -> float | None:
        """Return when to ask again, or None if these waiting requests leave now.

        `under_way` counts the requests in calls. When a call ends, ask again at once.
        """
        if self._until_ms is None:
            self._until_ms = now_ms + GATHER_MS
        if self._alternates:
            # With a full call under way there are many clients, who fill the next one as well.
            leaves = not 0 < under_way < ENOUGH
        else:
            leaves = requests >= under_way
        is_full = requests + rows * self._row_share >= ENOUGH
        if leaves or is_full or now_ms >= self._until_ms or not self._is_near():
            self._until_ms = None
        return self._until_ms
