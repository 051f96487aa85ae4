"""Transactions: pushes and acks that happen together or not at all. One database call each, never
merged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from queenmq.engine.ack_service import Freed
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.operation import AckItem, PartitionRef, PushItems, TransactionOutcome
from queenmq.engine.ports import MessageStore
from queenmq.errors import PartitionGone, StorageUnavailable

#: Transactions in flight; the others wait their turn without a connection.
_CALLS_MAX = 4
_WAITING_MAX = 10_000
_ATTEMPTS_MAX = 5


class TransactionService:
    """Runs transactions and tells of what they pushed."""

    def __init__(
        self,
        store: MessageStore,
        catalogue: Catalogue,
        *,
        lock_timeout_ms: int,
        queue_max: Callable[[], int],
        on_pushed: Callable[[Iterable[PartitionRef]], None],
        on_queued: Callable[[int], None],
        on_freed: Freed,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._lock_timeout_ms = lock_timeout_ms
        self._queue_max = queue_max
        self._on_pushed = on_pushed
        self._on_queued = on_queued
        self._on_freed = on_freed
        self._slots = asyncio.Semaphore(_CALLS_MAX)
        self._waiting = 0

    async def run(
        self, items: PushItems, acks: Sequence[AckItem], required_leases: Sequence[UUID]
    ) -> TransactionOutcome:
        """Commit all of it, or raise with nothing changed."""
        if self._waiting >= _WAITING_MAX:
            raise StorageUnavailable(f"{_WAITING_MAX} transactions already wait; try again")
        self._waiting += 1
        try:
            async with self._slots:
                return await self._run(items, acks, required_leases)
        finally:
            self._waiting -= 1

    async def _run(
        self, items: PushItems, acks: Sequence[AckItem], required_leases: Sequence[UUID]
    ) -> TransactionOutcome:
        for _ in range(_ATTEMPTS_MAX):
            refs = await self._catalogue.ensure(items.keys)
            try:
                outcome = await self._store.run_transaction(
                    items,
                    refs,
                    acks,
                    required_leases,
                    queue_max=self._queue_max(),
                    lock_timeout_ms=self._lock_timeout_ms,
                )
            except PartitionGone:
                self._catalogue.forget(items.keys)
                continue
            if queued := outcome.pushed.queued_ids:
                self._on_queued(len(queued))
            self._on_pushed({ref.partition_id: ref for ref in refs}.values())
            for ack, key in zip(acks, outcome.freed, strict=True):
                if key is not None:
                    self._on_freed(ack.partition_id, key, ack.consumer_group)
            return outcome
        raise StorageUnavailable(
            "a queue of this transaction is deleted again and again; try again"
        )
