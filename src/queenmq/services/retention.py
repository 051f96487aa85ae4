"""Removes messages by the retention rules of their queues, a few at a time.

One broker runs each pass. Each call locks the messages it removes for some milliseconds, and the
pauses in between keep it from slowing down pushes.
"""

from __future__ import annotations

import asyncio
from typing import Protocol
from uuid import UUID

from queenmq.engine.requests import RemovedMessages
from queenmq.errors import PartitionBusy
from queenmq.metrics.registry import Registry

#: Partitions that one call checks.
_PARTITIONS = 500
#: Messages that one call removes, within about 10 ms.
_MESSAGES = 1_000
#: At this rate pushes measured as fast as without retention. Several times more is possible.
_MESSAGES_PER_S = 20_000
_PAUSE_S = 0.005
#: Dead letters removed by one statement.
_ROWS = 5_000
_KEEP_HISTORY_S = 30 * 86_400


class Store(Protocol):
    """The store of messages."""

    async def claim_pass(self, pause_s: float) -> bool:
        """Claim the next pass. Return False if another broker made one within that time."""

    async def list_queues(self) -> list[UUID]:
        """Return the queues that have a rule."""

    async def remove_messages(
        self, queue_id: UUID, after: str, *, partitions_max: int, messages_max: int
    ) -> RemovedMessages:
        """Remove messages from some partitions of a queue, by name, after that one."""

    async def remove_dead_letters(self, *, limit: int) -> int:
        """Remove dead letters that are older than messages of their queue may be.

        Return how many.
        """

    async def sweep_history(self, *, older_than_s: int) -> None:
        """Remove old records of removals."""


class Retention:
    """Applies the rules of all queues, periodically."""

    name = "retention"

    def __init__(self, store: Store, registry: Registry, *, interval_s: float) -> None:
        self.interval_s = interval_s
        self._store = store
        removed = registry.counters("queen_retention_messages", "Messages removed here.", "rule")
        self._removed = {rule: removed.of(rule) for rule in ("retention", "completed", "eviction")}
        self._passes = registry.counter(
            "queen_retention_passes", "Runs over all queues, by this broker."
        )
        self._skipped = registry.counter(
            "queen_retention_queues_held", "Runs that another session's lock on a message ended."
        )

    async def run_once(self) -> None:
        # A little less than the interval, because the last broker comes back slightly early.
        if not await self._store.claim_pass(self.interval_s * 0.9):
            return
        for queue_id in await self._store.list_queues():
            try:
                await self._clean_queue(queue_id)
            except PartitionBusy:
                # The other queues must not wait for it.
                self._skipped.inc()
        while await self._store.remove_dead_letters(limit=_ROWS) == _ROWS:
            pass
        await self._store.sweep_history(older_than_s=_KEEP_HISTORY_S)
        self._passes.inc()

    async def _clean_queue(self, queue_id: UUID) -> None:
        after: str | None = ""
        while after is not None:
            removed = await self._store.remove_messages(
                queue_id, after, partitions_max=_PARTITIONS, messages_max=_MESSAGES
            )
            self._removed["retention"].inc(removed.retention)
            self._removed["completed"].inc(removed.completed)
            self._removed["eviction"].inc(removed.evicted)
            after = removed.next_after
            await asyncio.sleep(max(_PAUSE_S, removed.total / _MESSAGES_PER_S))
