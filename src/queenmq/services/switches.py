"""Follows the switches that all brokers share."""

from __future__ import annotations

import contextlib
from typing import Protocol

from queenmq.errors import StorageUnavailable


class Refreshed(Protocol):
    """The owner of the switches."""

    async def refresh(self) -> None: ...


class Switches:
    """Polls the switches once a second."""

    name = "switches"
    interval_s = 1.0

    def __init__(self, state: Refreshed) -> None:
        self._state = state

    async def run_once(self) -> None:
        # During an outage the switches keep their state. The outage is logged elsewhere, once.
        with contextlib.suppress(StorageUnavailable):
            await self._state.refresh()
