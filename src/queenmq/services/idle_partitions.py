"""Removes partitions that are empty and have been idle for long, a few at a time.

One broker looks each time. A call holds up pushes that make partitions of the same queue for some
milliseconds, and nothing else: a push to a partition that has just gone makes it anew.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol
from uuid import UUID

from queenmq.metrics.registry import Registry

#: Partitions that one call looks at, within about 10 ms.
_PARTITIONS = 5_000
#: Partitions that one call removes, within about 20 ms.
_REMOVALS = 200
#: Between two calls, so that pushes which make partitions get their turn.
_PAUSE_S = 0.01
#: A queue that stays held this often is left for the next time.
_TRIES = 20
_HELD_PAUSE_S = 0.05


class RemovedPartitions(NamedTuple):
    """What one call has done, and where to go on."""

    removed: int
    next_after: UUID | None
    is_held: bool


class Store(Protocol):
    """Where partitions are."""

    async def claim_partition_removal(self, pause_s: float) -> bool:
        """Return whether it is ours to look: false if another broker has within that time."""

    async def list_queues_with_idle_rule(self) -> list[UUID]:
        """Return the queues whose partitions may go."""

    async def remove_idle_partitions(
        self, queue_id: UUID, after: UUID, *, partitions_max: int, removals_max: int
    ) -> tuple[int, UUID | None, bool]:
        """Look at some partitions of a queue, by id; return what RemovedPartitions has."""


class IdlePartitions:
    """Looks at all queues with a rule, again and again."""

    name = "idle-partitions"

    def __init__(self, store: Store, registry: Registry, *, interval_s: float) -> None:
        self.interval_s = interval_s
        self._store = store
        self._removed = registry.counter(
            "queen_partitions_removed", "Empty, idle partitions removed by this broker."
        )
        self._passes = registry.counter(
            "queen_partition_removal_passes", "Searches of all queues for idle partitions."
        )

    async def run_once(self) -> None:
        # A little less than the interval: whose turn it was last has it again a moment too early.
        if not await self._store.claim_partition_removal(self.interval_s * 0.9):
            return
        for queue_id in await self._store.list_queues_with_idle_rule():
            await self._look_through(queue_id)
        self._passes.inc()

    async def _look_through(self, queue_id: UUID) -> None:
        after: UUID | None = UUID(int=0)
        tries = 0
        while after is not None and tries < _TRIES:
            done = RemovedPartitions(
                *await self._store.remove_idle_partitions(
                    queue_id, after, partitions_max=_PARTITIONS, removals_max=_REMOVALS
                )
            )
            tries = tries + 1 if done.is_held else 0
            self._removed.inc(done.removed)
            after = done.next_after
            await asyncio.sleep(_HELD_PAUSE_S if done.is_held else _PAUSE_S)
