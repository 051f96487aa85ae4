"""Removes old rows that no other code removes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

#: Rows removed by one statement.
_ROWS = 5_000


class Remove(Protocol):
    """Removes at most `limit` rows that ended this long ago. Returns how many."""

    async def __call__(self, *, older_than_s: int, limit: int) -> int: ...


class Rule(NamedTuple):
    """One kind of rows, and how long they are kept."""

    remove: Remove
    keep_s: int


class Sweep:
    """The job that applies some rules, a page at a time."""

    def __init__(self, name: str, rules: Sequence[Rule], *, interval_s: float) -> None:
        self.name = name
        self.interval_s = interval_s
        self._rules = rules

    async def run_once(self) -> None:
        for remove, keep_s in self._rules:
            while await remove(older_than_s=keep_s, limit=_ROWS) == _ROWS:
                pass


class KeySweep(Sweep):
    """The job that removes old idempotency keys, but not right after an outage or a start.

    A broker may have kept copies of requests whose keys were noted before the outage. Until it has
    told the database so, nothing protects those keys.
    """

    _has_reached = False

    async def run_once(self) -> None:
        has_reached, self._has_reached = self._has_reached, False
        if has_reached:
            await super().run_once()
        else:
            for remove, keep_s in self._rules:
                await remove(older_than_s=keep_s, limit=0)
        self._has_reached = True


class LeaseStore(Protocol):
    """The store of leases."""

    async def sweep_lease_partitions(self, *, after: UUID, limit: int) -> UUID | None: ...


class LeaseSweep:
    """Removes the partitions of leases soon after they end. There may be hundreds a second."""

    name = "lease-sweep"
    interval_s = 15.0

    def __init__(self, leases: LeaseStore) -> None:
        self._leases = leases

    async def run_once(self) -> None:
        after: UUID | None = UUID(int=0)
        while after is not None:
            after = await self._leases.sweep_lease_partitions(after=after, limit=_ROWS)
