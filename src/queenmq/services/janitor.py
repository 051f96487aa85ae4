"""Removes rows that nothing needs any more and nothing else removes."""

from __future__ import annotations

from typing import Protocol

#: Completed operations can be asked for this long.
_KEEP_S = 3_600
#: Rows removed by one statement.
_ROWS = 5_000


class LeaseSweeper(Protocol):
    """Where leases are."""

    async def sweep_lease_partitions(self) -> None: ...


class OperationSweeper(Protocol):
    """Where operations are."""

    async def sweep(self, *, older_than_s: int, limit: int) -> int: ...


class Janitor:
    """Forgets leases and operations that ended more than an hour ago."""

    name = "janitor"
    interval_s = 300.0

    def __init__(self, leases: LeaseSweeper, operations: OperationSweeper) -> None:
        self._leases = leases
        self._operations = operations

    async def run_once(self) -> None:
        await self._leases.sweep_lease_partitions()
        while await self._operations.sweep(older_than_s=_KEEP_S, limit=_ROWS) == _ROWS:
            pass
