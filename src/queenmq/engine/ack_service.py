"""Ack: joins concurrent requests into few calls, and tells the pop side what came free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.batcher import Batcher
from queenmq.engine.dispatcher import Dispatcher
from queenmq.engine.operation import AckItem, AckResult, PartitionKey
from queenmq.engine.ports import MessageStore
from queenmq.errors import Overloaded, PartitionBusy, QueenError, StorageRejected

_STUCK_CALLS_MAX = 2

#: Called with the partition, its names and the group when a partition may be popped again.
Freed = Callable[[UUID, PartitionKey, str], None]


class AckEntry:
    """One ack request on its way through a call."""

    __slots__ = ("arrived_ms", "future", "items", "keys", "weight")

    def __init__(self, items: Sequence[AckItem], future: asyncio.Future[list[AckResult]]) -> None:
        self.arrived_ms = now_ms()
        self.items = items
        self.future = future
        self.weight = len(items)
        self.keys = {(item.partition_id, item.consumer_group) for item in items}


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
    ) -> None:
        self._store = store
        self._waiting_max = waiting_max
        self._lock_timeout_ms = lock_timeout_ms
        self._wait_ms = wait_ms
        self._stuck: set[asyncio.Task[None]] = set()
        # However many acks are stuck, they hold no more than these connections.
        self._stuck_slots = asyncio.Semaphore(_STUCK_CALLS_MAX)
        self._on_freed = on_freed
        self._dispatcher: Dispatcher[AckEntry] = Dispatcher(
            "ack", Batcher(calls_max=calls_max, weight_max=rows_max), self._run, _fail
        )

    @property
    def depth(self) -> int:
        """How many requests wait for a call."""
        return self._dispatcher.depth

    def oldest_ms(self, now: float) -> float:
        """How long the oldest request has waited for a call."""
        first = self._dispatcher.first
        return 0.0 if first is None else now - first.arrived_ms

    async def ack(self, items: Sequence[AckItem]) -> list[AckResult]:
        """Settle the items of one request; one result per item, in order."""
        if not items:
            return []
        if (depth := self._dispatcher.depth) >= self._waiting_max:
            raise Overloaded(
                f"{depth} acks already wait; nothing was changed, try again", depth=depth
            )
        future: asyncio.Future[list[AckResult]] = asyncio.get_running_loop().create_future()
        self._dispatcher.add(AckEntry(items, future))
        return await future

    async def drain(self) -> None:
        """Wait until every ack has its answer."""
        await self._dispatcher.drain()
        while self._stuck:
            await asyncio.wait(self._stuck)

    async def _run(self, batch: list[AckEntry]) -> None:
        try:
            await self._settle(batch, self._lock_timeout_ms)
        except (PartitionBusy, StorageRejected):
            # One request is at fault or stuck, and only that one shall fail or wait.
            for entry in batch:
                await self._settle_alone(entry)

    async def _settle_alone(self, entry: AckEntry) -> None:
        try:
            await self._settle([entry], self._lock_timeout_ms)
        except PartitionBusy:
            task = asyncio.create_task(self._wait_for(entry), name="ack-stuck")
            self._stuck.add(task)
            task.add_done_callback(self._stuck.discard)
        except QueenError as error:
            _fail([entry], error)

    async def _wait_for(self, entry: AckEntry) -> None:
        try:
            async with self._stuck_slots:
                await self._settle([entry], self._wait_ms)
        except QueenError as error:
            _fail([entry], error)

    async def _settle(self, batch: list[AckEntry], lock_timeout_ms: int) -> None:
        """Make one call and answer its requests. Raises what may be the fault of one of them."""
        items = [item for entry in batch for item in entry.items]
        try:
            results = await self._store.ack_messages(items, lock_timeout_ms=lock_timeout_ms)
        except (PartitionBusy, StorageRejected):
            raise
        except QueenError as error:
            _fail(batch, error)
        else:
            at = 0
            for entry in batch:
                mine = results[at : at + entry.weight]
                at += entry.weight
                if not entry.future.done():
                    entry.future.set_result(mine)
            self._tell_freed(items, results)

    def _tell_freed(self, items: Sequence[AckItem], results: Sequence[AckResult]) -> None:
        for item, result in zip(items, results, strict=True):
            if result.lease_released and result.has_more and result.queue_name is not None:
                key = PartitionKey(result.queue_name, result.partition_name or "")
                self._on_freed(item.partition_id, key, item.consumer_group)


def _fail(batch: Sequence[AckEntry], error: QueenError) -> None:
    for entry in batch:
        if not entry.future.done():
            entry.future.set_exception(error)
