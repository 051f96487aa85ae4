"""Ack: joins concurrent requests into few calls, and tells the pop side what came free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.calls.laned_calls import LanedCalls, fail_all
from queenmq.engine.ports import MessageStore
from queenmq.engine.requests import AckItem, AckResult, PartitionKey
from queenmq.errors import Overloaded, PartitionBusy, QueenError, StorageRejected
from queenmq.metrics.registry import Registry

#: Called with the partition, its names and the group when a partition may be popped again.
Freed = Callable[[UUID, PartitionKey, str], None]


class AckEntry:
    """One ack request on its way through a call."""

    __slots__ = (
        "arrived_ms",
        "attempts",
        "deadline_ms",
        "diverts",
        "future",
        "items",
        "keys",
        "weight",
    )

    def __init__(
        self, items: Sequence[AckItem], future: asyncio.Future[list[AckResult]], *, wait_ms: int
    ) -> None:
        self.arrived_ms = now_ms()
        self.deadline_ms = self.arrived_ms + wait_ms
        self.diverts = 0
        self.attempts = 0
        self.items = items
        self.future = future
        self.weight = len(items)
        self.keys = {(item.partition_id, item.consumer_group) for item in items}

    def fail(self, error: QueenError) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def still_held(self, key: tuple[UUID, str]) -> PartitionBusy:
        partition_id, consumer_group = key
        return PartitionBusy(
            f"the cursor of group {consumer_group!r} on partition {partition_id} is held by another"
            " transaction; nothing was changed, try again"
        )


class AckService:
    """The ack path of a broker."""

    def __init__(
        self,
        store: MessageStore,
        *,
        calls_max: int,
        rows_max: int,
        waiting_max: int,
        lock_timeout_ms: int,
        wait_ms: int,
        on_freed: Freed,
        registry: Registry | None = None,
    ) -> None:
        self._store = store
        self._waiting_max = waiting_max
        self._wait_ms = wait_ms
        self._on_freed = on_freed
        self._calls: LanedCalls[AckEntry] = LanedCalls(
            "ack",
            self._settle,
            store.find_busy_cursors,
            calls_max=calls_max,
            rows_max=rows_max,
            lock_timeout_ms=lock_timeout_ms,
            wait_ms=wait_ms,
            registry=registry,
        )

    @property
    def depth(self) -> int:
        """How many requests wait for a call or a held cursor."""
        return self._calls.depth

    def oldest_ms(self, now: float) -> float:
        """How long the oldest request has waited for a call."""
        first = self._calls.first
        return 0.0 if first is None else now - first.arrived_ms

    def ack(self, items: Sequence[AckItem]) -> asyncio.Future[list[AckResult]]:
        """Ack the items of one request. The future has one result per item, in order."""
        future: asyncio.Future[list[AckResult]] = asyncio.get_running_loop().create_future()
        if not items:
            future.set_result([])
            return future
        if (depth := self.depth) >= self._waiting_max:
            raise Overloaded(
                f"{depth} acks already wait; nothing was changed, try again",
                depth=depth,
                bound="load_ack_queue_max",
            )
        self._calls.add(AckEntry(items, future, wait_ms=self._wait_ms))
        return future

    async def drain(self) -> None:
        """Wait until every ack has its answer."""
        await self._calls.drain()

    async def _settle(self, batch: list[AckEntry], lock_timeout_ms: int) -> None:
        """Make one call and answer its requests.

        Raises PartitionBusy only; what is not answered then has not been settled.
        """
        items = [item for entry in batch for item in entry.items]
        try:
            results = await self._store.ack_messages(items, lock_timeout_ms=lock_timeout_ms)
        except PartitionBusy:
            raise
        except StorageRejected as error:
            await self._settle_apart(batch, error, lock_timeout_ms)
        except QueenError as error:
            fail_all(batch, error)
        else:
            at = 0
            for entry in batch:
                mine = results[at : at + entry.weight]
                at += entry.weight
                if not entry.future.done():
                    entry.future.set_result(mine)
            self._tell_freed(items, results)

    async def _settle_apart(
        self, batch: list[AckEntry], error: QueenError, lock_timeout_ms: int
    ) -> None:
        """Retry the requests one by one, so that only the one at fault fails."""
        if len(batch) == 1:
            fail_all(batch, error)
        else:
            for entry in batch:
                await self._settle([entry], lock_timeout_ms)

    def _tell_freed(self, items: Sequence[AckItem], results: Sequence[AckResult]) -> None:
        for item, result in zip(items, results, strict=True):
            if result.lease_released and result.has_more and result.queue_name is not None:
                key = PartitionKey(result.queue_name, result.partition_name or "")
                self._on_freed(item.partition_id, key, item.consumer_group)
