"""Removes rows that nothing needs any more and nothing else removes."""

from __future__ import annotations

from typing import Protocol


class LeaseSweeper(Protocol):
    """What the janitor needs of the store."""

    async def sweep_lease_partitions(self) -> None: ...


class Janitor:
    """Forgets the partitions of leases that ended more than an hour ago."""

    name = "janitor"
    interval_s = 300.0

    def __init__(self, store: LeaseSweeper) -> None:
        self._store = store

    async def run_once(self) -> None:
        await self._store.sweep_lease_partitions()
