"""Publishes polled measurements in shared memory, so that any worker can report them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: A scrape that another worker answers is this old at most.
_INTERVAL_S = 1.0


class Publisher:
    """The timer of one process. Safe to stop twice or before the start."""

    def __init__(self, publish: Callable[[], None]) -> None:
        self._publish = publish
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Publish now, and again and again."""
        # Scheduled first, so that an error below does not end the timer.
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL_S, self.start)
        self._publish()

    def stop(self) -> None:
        """Publish a last time, and no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._publish()
