"""The switches of maintenance mode, when several change at once."""

from __future__ import annotations

import asyncio
from typing import Any

from queenmq.engine.maintenance import POP_SWITCH, Maintenance
from queenmq.engine.news import News


class _Switches:
    """A table of switches that answers a read or a write only when it is let."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        #: Heard by the pop path, in order.
        self.heard: list[tuple[str, bool]] = []
        news = News()
        news.pushes_buffered.declare(lambda value: self.heard.append(("push", value)))
        news.pops_paused.declare(lambda value: self.heard.append(("pop", value)))
        news.group_paused.declare(lambda group, value: self.heard.append((group, value)))
        self.maintenance = Maintenance(self, news=news)

    async def read_state(self) -> dict[str, Any]:
        rows = dict(self.rows)
        await self.gate.wait()
        return rows

    async def write_state(self, name: str, value: Any) -> None:
        self.rows[name] = value
        await asyncio.sleep(0)

    async def remove_state(self, name: str) -> None:
        self.rows.pop(name, None)
        await asyncio.sleep(0)


async def test_groups_that_are_paused_at_once_are_all_paused() -> None:
    switches = _Switches()
    maintenance = switches.maintenance
    await asyncio.gather(*(maintenance.pause_group(group, True) for group in "abc"))
    assert maintenance.paused_groups == frozenset("abc")
    await asyncio.gather(maintenance.pause_group("a", False), maintenance.pause_group("d", True))
    assert maintenance.paused_groups == frozenset("bcd")
    # None was served in between.
    assert switches.heard == [("a", True), ("b", True), ("c", True), ("a", False), ("d", True)]


async def test_a_read_that_began_before_a_switch_does_not_undo_it() -> None:
    switches = _Switches()
    maintenance = switches.maintenance
    switches.gate.clear()
    reading = asyncio.create_task(maintenance.refresh())
    await asyncio.sleep(0)
    await maintenance.pause_group("g", True)
    await maintenance.switch(POP_SWITCH, True)
    switches.gate.set()
    await reading
    assert (maintenance.paused_groups, maintenance.is_pop) == (frozenset("g"), True)
    assert switches.heard == [("g", True), ("pop", True)]
