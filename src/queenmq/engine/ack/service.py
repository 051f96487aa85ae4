"""Ack: joins concurrent requests into few calls, and publishes which partitions they freed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from queenmq.engine.ack.entry import AckEntry, CompletedCall, split_completed
from queenmq.engine.calls.batched_calls import BatchedCalls, fail_all
from queenmq.engine.calls.gathering import Gathering
from queenmq.engine.calls.pace import CallPace
from queenmq.engine.news import News
from queenmq.engine.ports import MessageStore
from queenmq.engine.requests import AckItem, AckResult, CompletedLease, PartitionKey
from queenmq.errors import Overloaded, PartitionBusy, QueenError, StorageRejected
from queenmq.metrics.registry import Registry


class AckService:
    """The ack path of a broker. Publishes which partitions may be popped again."""

    def __init__(
        self,
        store: MessageStore,
        *,
        calls_max: int,
        rows_max: int,
        waiting_max: int,
        lock_timeout_ms: int,
        wait_ms: int,
        news: News,
        pace: CallPace | None = None,
        registry: Registry | None = None,
    ) -> None:
        self._store = store
        self._waiting_max = waiting_max
        self._wait_ms = wait_ms
        self._news = news
        self._calls: BatchedCalls[AckEntry] = BatchedCalls(
            "ack",
            self._ack_batch,
            store.find_busy_cursors,
            calls_max=calls_max,
            rows_max=rows_max,
            lock_timeout_ms=lock_timeout_ms,
            wait_ms=wait_ms,
            pace=pace,
            gathering=(
                None if pace is None else Gathering(pace.is_near, row_share=0.0, alternates=True)
            ),
            registry=registry,
        )

    @property
    def depth(self) -> int:
        """Return how many requests wait for a call or a held cursor."""
        return self._calls.depth

    def oldest_ms(self, now: float) -> float:
        """Return how long the oldest request has waited for a call."""
        first = self._calls.first
        return 0.0 if first is None else now - first.arrived_ms

    def ack(
        self, acks: Sequence[AckItem] | Sequence[CompletedLease]
    ) -> asyncio.Future[list[AckResult]]:
        """Ack the messages of one request. The future has one result per message, in order."""
        future: asyncio.Future[list[AckResult]] = asyncio.get_running_loop().create_future()
        if not acks:
            future.set_result([])
            return future
        if (depth := self.depth) >= self._waiting_max:
            raise Overloaded(
                f"{depth} acks are already waiting; nothing was changed, try again",
                depth=depth,
                bound="load_ack_queue_max",
            )
        self._calls.add(AckEntry(acks, future, wait_ms=self._wait_ms))
        return future

    async def drain(self) -> None:
        """Wait until every ack has its answer."""
        await self._calls.drain()

    async def _ack_batch(self, batch: list[AckEntry], lock_timeout_ms: int) -> None:
        """Answer the requests of a batch, with one call per kind of request.

        Raises PartitionBusy only. Requests without an answer then have not been acked.
        """
        completed, others = split_completed(batch)
        for entries, ack in ((completed, self._ack_leases), (others, self._ack_items)):
            if entries:
                try:
                    await ack(entries, lock_timeout_ms)
                except PartitionBusy:
                    raise
                except StorageRejected as error:
                    await self._ack_one_by_one(entries, error, lock_timeout_ms)
                except QueenError as error:
                    fail_all(entries, error)

    async def _ack_leases(self, entries: list[AckEntry], lock_timeout_ms: int) -> None:
        call = CompletedCall(entries)
        results = await self._store.ack_completed(call.leases, lock_timeout_ms=lock_timeout_ms)
        call.answer(results)
        for lease, result in zip(call.leases, results, strict=True):
            self._notify_freed(lease, (result,) if isinstance(result, AckResult) else result)

    async def _ack_items(self, entries: list[AckEntry], lock_timeout_ms: int) -> None:
        items = [item for entry in entries for item in entry.items]
        results = await self._store.ack_messages(items, lock_timeout_ms=lock_timeout_ms)
        at = 0
        for entry in entries:
            entry.answer(results[at : at + entry.weight])
            at += entry.weight
        for item, result in zip(items, results, strict=True):
            self._notify_freed(item, [result])

    async def _ack_one_by_one(
        self, batch: list[AckEntry], error: QueenError, lock_timeout_ms: int
    ) -> None:
        """Retry the requests one by one, so that only the one at fault fails."""
        if len(batch) == 1:
            fail_all(batch, error)
        else:
            for entry in batch:
                await self._ack_batch([entry], lock_timeout_ms)

    def _notify_freed(self, ack: AckItem | CompletedLease, results: Sequence[AckResult]) -> None:
        """Report that a partition can be popped again, if one of the results says so."""
        for result in results:
            if result.lease_released and result.has_more and result.queue_name is not None:
                key = PartitionKey(result.queue_name, result.partition_name or "")
                self._news.freed(ack.partition_id, key, ack.consumer_group)
                return
