"""Tells the database what waits in the spool of this broker, for commands that cannot see disks."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Protocol

from queenmq.errors import SpoolFailed, StorageUnavailable

#: What the names of these states begin with.
SPOOL_STATE = "spool:"


class Counts(Protocol):
    """The counts of a spool."""

    @property
    def pending_records(self) -> int: ...

    @property
    def aside_records(self) -> int: ...


class WatchedSpool(Protocol):
    """The spool, as far as it is reported."""

    def stats(self) -> Counts: ...

    def identify(self, *, makes_one: bool) -> str | None: ...


class States(Protocol):
    """The states that all brokers share."""

    async def write_state(self, name: str, value: Any) -> None: ...

    async def remove_state(self, name: str) -> None: ...


class SpoolReport:
    """Keeps one row per spool with something in it. An empty spool has none.

    A broker that stops leaves its row, because its spool stays as it is. The next broker with that
    spool takes the row over, on whatever machine. Workers of a broker share the spool and the row;
    each looks again, so the last word is right.
    """

    name = "spool-report"
    interval_s = 2.0

    def __init__(self, states: States, spool: WatchedSpool, *, host: str, directory: str) -> None:
        self._states = states
        self._spool = spool
        self._place = {"host": host, "directory": directory}
        #: The counts reported last. None until this process has reported.
        self._told: tuple[int, int] | None = None

    async def run_once(self) -> None:
        stats = self._spool.stats()
        found = (stats.pending_records, stats.aside_records)
        if found == self._told:
            return
        # In an outage there is nothing to tell it to, a broken disk is reported elsewhere, and the
        # next run tries again.
        with contextlib.suppress(StorageUnavailable, SpoolFailed):
            await self._tell(*found)
            self._told = found

    async def _tell(self, waiting: int, aside: int) -> None:
        has_some = bool(waiting or aside)
        given = await asyncio.to_thread(self._spool.identify, makes_one=has_some)
        if given is None:
            # Nothing was ever told of this spool.
            return
        name = f"{SPOOL_STATE}{given}"
        if has_some:
            counts = {"waiting": waiting, "aside": aside}
            await self._states.write_state(name, {**self._place, **counts})
        else:
            await self._states.remove_state(name)
