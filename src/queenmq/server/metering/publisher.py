"""Publishes polled measurements in shared memory, so that any worker can report them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from queenmq.engine.lifecycle import Health

#: A scrape that another worker answers is this old at most.
_INTERVAL_S = 1.0


class Publisher:
    """The timer of one process."""

    def __init__(self, publish: Callable[[], None]) -> None:
        self._publish = publish
        self._timer: asyncio.TimerHandle | None = None
        #: Whether the last time met a defect.
        self._is_failing = False

    async def start(self) -> None:
        """Publish now, and again and again."""
        if self._timer is None:
            self._tick()

    async def stop(self) -> None:
        """Publish a last time, and no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._publish()

    def health(self) -> Health:
        if self._timer is None:
            return Health.STOPPED
        return Health.FAILING if self._is_failing else Health.RUNNING

    def _tick(self) -> None:
        # Schedule before publishing, so that an error there does not stop the next round.
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL_S, self._tick)
        self._is_failing = True
        self._publish()
        self._is_failing = False
