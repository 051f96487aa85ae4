"""Decides whether a stream waits for a larger batch. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Pace:
    """The minimum batch size of one stream, and how long a batch may wait for it."""

    #: None: every message is worth a batch.
    messages_min: int | None
    delay_ms: int
    #: When the last batch began; 0: there was none, and the first one does not wait.
    _last_ms: float = 0

    @property
    def is_set(self) -> bool:
        """Return whether there is anything to count."""
        return self.messages_min is not None

    def waits(self, messages: int, now_ms: float) -> bool:
        """Return whether this many messages wait for more. If not, a batch begins now."""
        is_due = now_ms - self._last_ms >= self.delay_ms
        if messages < (self.messages_min or 0) and not is_due:
            return True
        self._last_ms = now_ms
        return False
