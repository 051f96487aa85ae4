"""Removes partitions that are empty and have been idle for long, a few at a time.

One broker runs each pass. A call only delays pushes that create partitions of the same queue, by
some milliseconds. A push to a partition that was just removed creates it again.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol
from uuid import UUID

from queenmq.metrics.registry import Registry

#: Partitions that one call checks, within about 10 ms.
_PARTITIONS = 5_000
#: Partitions that one call removes, within about 20 ms.
_REMOVALS = 200
#: Pause between two calls, so that pushes which create partitions get their turn.
_PAUSE_S = 0.01
#: A queue that is held this often is left for the next pass.
_TRIES = 20
_HELD_PAUSE_S = 0.05


class RemovedPartitions(NamedTuple):
    """The result of one call, and where to continue."""

    removed: int
    next_after: UUID | None
    is_held: bool


class Store(Protocol):
    """The store of partitions."""

    async def claim_partition_removal(self, pause_s: float) -> bool:
        """Claim the next pass. Return False if another broker made one within that time."""

    async def list_queues_with_idle_rule(self) -> list[UUID]:
        """Return the queues whose partitions may be removed."""

    async def remove_idle_partitions(
        self, queue_id: UUID, after: UUID, *, partitions_max: int, removals_max: int
    ) -> tuple[int, UUID | None, bool]:
        """Remove idle partitions of a queue, in id order."""


class IdlePartitions:
    """Removes idle partitions of all queues with a rule, periodically."""

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
        # A little less than the interval, because the last broker comes back slightly early.
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
