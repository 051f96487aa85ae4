"""Maintenance mode: two switches that all brokers share, as this one knows them.

For pushes: on, everything is kept on disk and nothing is drained. For pops: on, nothing is handed
out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

logger = logging.getLogger(__name__)

PUSH_SWITCH = "push_maintenance"
POP_SWITCH = "pop_maintenance"


class Maintenance:
    """The switches. `on_push` and `on_pop` are called with each new state of theirs."""

    def __init__(
        self,
        *,
        read: Callable[[], Awaitable[Mapping[str, Any]]],
        write: Callable[[str, Any], Awaitable[None]],
        on_push: Callable[[bool], None],
        on_pop: Callable[[bool], None],
    ) -> None:
        self._read = read
        self._write = write
        self._on_push = on_push
        self._on_pop = on_pop
        self.is_push = False
        #: Set while pops are served.
        self._serving = asyncio.Event()
        self._serving.set()
        self._is_stopping = False

    @property
    def is_pop(self) -> bool:
        return not self._serving.is_set()

    async def refresh(self) -> None:
        """Learn what was switched elsewhere."""
        state = await self._read()
        self._apply(PUSH_SWITCH, state.get(PUSH_SWITCH) is True)
        self._apply(POP_SWITCH, state.get(POP_SWITCH) is True)

    async def switch(self, name: str, value: bool) -> None:
        """Switch for all brokers; this one obeys at once, others when they look next."""
        await self._write(name, value)
        self._apply(name, value)

    async def wait_for_pops(self, timeout_s: float) -> bool:
        """Wait until pops are served again; whether they are."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._serving.wait()
        except TimeoutError:
            return False
        return True

    def stop(self) -> None:
        """Hold no pop any longer; nothing is handed out in a stop anyway."""
        self._is_stopping = True
        self._serving.set()

    def _apply(self, name: str, value: bool) -> None:
        before = self.is_push if name == PUSH_SWITCH else self.is_pop
        if value == before:
            return
        logger.warning("%s is %s", name, "on" if value else "off", extra={"event": name})
        if name == PUSH_SWITCH:
            self.is_push = value
            self._on_push(value)
            return
        if value and not self._is_stopping:
            self._serving.clear()
        else:
            self._serving.set()
        self._on_pop(value)
