"""Waits for a database that went away, as long as the user allows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from queenmq.clock import now_ms
from queenmq.errors import StorageUnavailable

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

#: Between two tries: first, and at most.
_PAUSE_S, _PAUSE_MAX_S = 0.2, 2.0


class Outages:
    """The times at which one database was away."""

    def __init__(self, bound_s: float, clock_ms: Callable[[], float] = now_ms) -> None:
        self._bound_s = bound_s
        self._clock_ms = clock_ms
        self._since_ms: float | None = None
        self._reason = ""
        self._pause_s = _PAUSE_S
        #: How many have come to an end.
        self.count = 0

    @property
    def text(self) -> str | None:
        """Return a description of the outage, or None while the database answers."""
        if self._since_ms is None:
            return None
        return f"PostgreSQL, away for {self._lasted_s():.0f} s: {self._reason}"

    def begin(self, error: StorageUnavailable) -> float:
        """Return how long to wait before the next try, because the database is away.

        Raise if it was away too long.
        """
        if self._since_ms is None:
            self._since_ms = self._clock_ms()
            self._pause_s = _PAUSE_S
            logger.warning(
                "PostgreSQL is away; retrying for up to %d s: %s",
                self._bound_s,
                error,
                extra={"event": "spark_database_away"},
            )
        self._reason = str(error)
        left_s = self._bound_s - self._lasted_s()
        if left_s <= 0:
            raise error
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _PAUSE_MAX_S)
        return min(pause_s, left_s)

    def end(self) -> None:
        """Note that the database has answered."""
        if self._since_ms is not None:
            logger.warning(
                "PostgreSQL is back after %.1f s",
                self._lasted_s(),
                extra={"event": "spark_database_back"},
            )
            self._since_ms = None
            self.count += 1

    def _lasted_s(self) -> float:
        return 0.0 if self._since_ms is None else (self._clock_ms() - self._since_ms) / 1000


def insist(
    action: Callable[[], Answer],
    bound_s: float,
    on: type[StorageUnavailable] = StorageUnavailable,
) -> Answer:
    """Run a repeatable action, with retries while it fails with this kind of error."""
    outages, pause = Outages(bound_s), threading.Event()
    while True:
        try:
            answer = action()
        except on as error:
            pause.wait(outages.begin(error))
        else:
            outages.end()
            return answer
