"""Logs failing requests without flooding: in an outage one line a second tells it all."""

from __future__ import annotations

import logging

from queenmq.clock import now_ms

logger = logging.getLogger(__name__)

_INTERVAL_MS = 1_000


class FailureLog:
    """At most one line per interval, with the number of failures that it stands for."""

    def __init__(self) -> None:
        self._next_ms = 0.0
        self._untold = 0

    def note(self, error: Exception, path: str) -> None:
        """A request failed for a reason that is not its own fault."""
        self._untold += 1
        if now_ms() >= self._next_ms:
            facts = {"event": "request_failed", "path": path, "failures": self._untold}
            logger.warning("%s", error, extra=facts)
            self._untold = 0
            self._next_ms = now_ms() + _INTERVAL_MS
