"""Remembers and logs faults of the database that no request is to blame for.

An operator has to fix them, so they are errors in the log: at most one line per SQLSTATE and
interval, with the text of the database, which names what is missing. Metrics and /health show them
as well.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from queenmq.clock import now_ms
from queenmq.errors import StorageFault

logger = logging.getLogger(__name__)

_LOG_MS = 10_000
#: Accepted work is retried about once a second. A fault not seen for longer is over.
_CURRENT_MS = 10_000


@dataclass
class _Seen:
    """The occurrences of one SQLSTATE."""

    total: int = 0
    unlogged: int = 0
    last_ms: float = 0.0
    next_log_ms: float = 0.0


class FaultWatch:
    """The faults that one process has met."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def note(self, error: StorageFault) -> None:
        """Count a failed call, and log it unless that was done recently."""
        seen = self._seen.setdefault(error.code, _Seen())
        now = now_ms()
        seen.total += 1
        seen.unlogged += 1
        seen.last_ms = now
        if now < seen.next_log_ms:
            return
        facts = {"event": "database_fault", "sqlstate": error.code, "calls": seen.unlogged}
        logger.error("%s", error, extra=facts)
        seen.unlogged = 0
        seen.next_log_ms = now + _LOG_MS

    @property
    def totals(self) -> dict[str, int]:
        """Count the calls that failed, by SQLSTATE."""
        return {code: seen.total for code, seen in self._seen.items()}

    @property
    def current(self) -> list[str]:
        """List the SQLSTATEs that were met a moment ago."""
        since_ms = now_ms() - _CURRENT_MS
        return sorted(code for code, seen in self._seen.items() if seen.last_ms > since_ms)
