"""Logs failing requests under an id that their answers show, without flooding.

In an outage every request fails for the same reason. So failures with the same text share one line
a second and its id.
"""

from __future__ import annotations

import logging

from queenmq.clock import now_ms
from queenmq.ids import new_error_id

logger = logging.getLogger(__name__)

_INTERVAL_MS = 1_000
#: Different failures of one interval that get a line each. Further ones share the last line.
_LINES_MAX = 20
#: Characters of a line. An error of the database may quote a whole payload.
_TEXT_MAX = 2_000


class FailureLog:
    """Logs one line per interval and reason, with the number of failures since the last one."""

    def __init__(self) -> None:
        self._until_ms = 0.0
        #: Failures of this interval, by the text of the error.
        self._ids: dict[str, str] = {}
        self._last_id = ""
        self._unlogged = 0

    def note(self, error: Exception, path: str) -> str:
        """Log a request that failed. Return the id of the line that has the details."""
        if now_ms() >= self._until_ms:
            self._ids.clear()
            self._until_ms = now_ms() + _INTERVAL_MS
        self._unlogged += 1
        text = str(error)[:_TEXT_MAX]
        known = self._ids.get(text)
        if known is not None:
            return known
        if len(self._ids) >= _LINES_MAX:
            return self._last_id
        self._last_id = self._ids[text] = new_error_id()
        facts = {
            "event": "request_failed",
            "error_id": self._last_id,
            "path": path,
            "failures": self._unlogged,
        }
        logger.warning("%s", text, extra=facts)
        self._unlogged = 0
        return self._last_id
