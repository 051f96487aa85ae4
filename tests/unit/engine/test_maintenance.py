"""The switches of maintenance mode, when several change at once."""

from __future__ import annotations

import asyncio
from typing import Any

from queenmq.engine.maintenance import POP_SWITCH, Maintenance
from queenmq.engine.news import News


class _Switches:
    """A table of switches. Writers come back together; a read comes back when it is let."""

    def __init__(self, *, writers: int = 1) -> None:
        self.rows: dict[str, Any] = {}
        self.is_read = asyncio.Event()
        self.gate = asyncio.Event()
        self._writers = asyncio.Barrier(writers)
        #: Heard by the pop path, in order.
        self.heard: list[tuple[str, bool]] = []
        news = News()
        news.pushes_buffered.declare(lambda value: self.heard.append(("push", value)))
        news.pops_paused.declare(lambda value: self.heard.append(("pop", value)))
        news.group_paused.declare(lambda group, value: self.heard.append((group, value)))
        self.maintenance = Maintenance(self, news=news)

    async def read_state(self) -> dict[str, Any]:
        rows = dict(self.rows)
        self.is_read.set()
        await self.gate.wait()
        return rows

    async def write_state(self, name: str, value: Any) -> None:
        self.rows[name] = value
        await self._writers.wait()

    async def remove_state(self, name: str) -> None:
        self.rows.pop(name)
        await self._writers.wait()


async def test_groups_that_are_paused_at_once_are_all_paused() -> None:
    switches = _Switches(writers=2)
    maintenance = switches.maintenance
    await asyncio.gather(maintenance.pause_group("a", True), maintenance.pause_group("b", True))
    assert maintenance.paused_groups == frozenset("ab")
    await asyncio.gather(maintenance.pause_group("a", False), maintenance.pause_group("c", True))
    assert maintenance.paused_groups == frozenset("bc")
    # None was served in between.
    assert sorted(switches.heard) == [("a", False), ("a", True), ("b", True), ("c", True)]


async def test_a_read_that_began_before_a_switch_does_not_undo_it() -> None:
    switches = _Switches()
    maintenance = switches.maintenance
    reading = asyncio.create_task(maintenance.refresh())
    await switches.is_read.wait()
    await maintenance.pause_group("g", True)
    await maintenance.switch(POP_SWITCH, True)
    switches.gate.set()
    await reading
    assert (maintenance.paused_groups, maintenance.is_pop) == (frozenset("g"), True)
    assert switches.heard == [("g", True), ("pop", True)]
