"""Maintenance mode: switches that all brokers share, as this one knows them.

While pushes are held back, the broker keeps them on disk and drains nothing. While pops are paused,
it hands out nothing. While a group is paused, it hands out nothing to that group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from queenmq.engine.news import News
from queenmq.errors import Conflict

logger = logging.getLogger(__name__)

PUSH_SWITCH = "push_maintenance"
POP_SWITCH = "pop_maintenance"
_GROUP_SWITCH = "paused_group:"
#: Groups that can be paused at one time.
PAUSED_GROUPS_MAX = 1_000


class StateStore(Protocol):
    """The store of the switches that all brokers share."""

    async def read_state(self) -> Mapping[str, Any]:
        """Return all switches by name."""

    async def write_state(self, name: str, value: Any) -> None:
        """Set a switch."""

    async def remove_state(self, name: str) -> None:
        """Forget a switch."""


class Maintenance:
    """The switches. Publishes each new state of theirs."""

    def __init__(self, store: StateStore, *, news: News) -> None:
        self._store = store
        self._news = news
        self.is_push = False
        self.paused_groups: frozenset[str] = frozenset()
        #: Set while pops are served.
        self._serving = asyncio.Event()
        self._serving.set()
        self._is_stopping = False
        #: Switched by this broker so far.
        self._switched = 0

    @property
    def is_pop(self) -> bool:
        return not self._serving.is_set()

    async def refresh(self) -> None:
        """Load switches that other brokers have changed."""
        seen, state = self._switched, await self._store.read_state()
        while seen != self._switched:
            # What this broker switched during the read may be missing in its result.
            seen, state = self._switched, await self._store.read_state()
        self._apply(PUSH_SWITCH, state.get(PUSH_SWITCH) is True)
        self._apply(POP_SWITCH, state.get(POP_SWITCH) is True)
        self._apply_groups(
            name.removeprefix(_GROUP_SWITCH)
            for name, value in state.items()
            if name.startswith(_GROUP_SWITCH) and value is True
        )

    async def switch(self, name: str, value: bool) -> None:
        """Switch for all brokers. This one obeys at once, others when they look next."""
        await self._store.write_state(name, value)
        self._switched += 1
        self._apply(name, value)

    async def pause_group(self, consumer_group: str, is_paused: bool) -> None:
        """Pause or resume a group for all brokers. Raises Conflict at PAUSED_GROUPS_MAX."""
        known = self.paused_groups
        if is_paused and consumer_group not in known and len(known) >= PAUSED_GROUPS_MAX:
            raise Conflict(
                f"{len(known)} consumer groups are paused, which is the most; resume one first"
            )
        if is_paused:
            await self._store.write_state(_GROUP_SWITCH + consumer_group, True)
        else:
            await self._store.remove_state(_GROUP_SWITCH + consumer_group)
        self._switched += 1
        # Others may have been switched meanwhile.
        paused = self.paused_groups - {consumer_group}
        self._apply_groups(paused | {consumer_group} if is_paused else paused)

    async def wait_for_pops(self, timeout_s: float) -> bool:
        """Wait until pops are served again. Return whether they are."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._serving.wait()
        except TimeoutError:
            return False
        return True

    def stop(self) -> None:
        """Release all held pops. During a stop nothing is handed out anyway."""
        self._is_stopping = True
        self._serving.set()

    def _apply_groups(self, paused: Iterable[str]) -> None:
        before, self.paused_groups = self.paused_groups, frozenset(paused)
        for group in sorted(before ^ self.paused_groups):
            is_paused = group in self.paused_groups
            logger.warning(
                "consumer group %s is %s",
                group,
                "paused" if is_paused else "served again",
                extra={"event": "group_paused" if is_paused else "group_resumed"},
            )
            self._news.group_paused(group, is_paused)

    def _apply(self, name: str, value: bool) -> None:
        before = self.is_push if name == PUSH_SWITCH else self.is_pop
        if value == before:
            return
        logger.warning("%s is %s", name, "on" if value else "off", extra={"event": name})
        if name == PUSH_SWITCH:
            self.is_push = value
            self._news.pushes_buffered(value)
            return
        if value and not self._is_stopping:
            self._serving.clear()
        else:
            self._serving.set()
        self._news.pops_paused(value)
