"""Keeps up with the switches that all brokers share."""

from __future__ import annotations

from typing import Protocol


class Refreshed(Protocol):
    """What knows the switches."""

    async def refresh(self) -> None: ...


class Switches:
    """Learns once a second what was switched elsewhere."""

    name = "switches"
    interval_s = 1.0

    def __init__(self, state: Refreshed) -> None:
        self._state = state

    async def run_once(self) -> None:
        await self._state.refresh()
