"""Runs transactions: pushes and acks that commit together or not at all.

Each is one database call and is never merged. A transaction whose rows another session holds waits
in a lock queue, so that it occupies no slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.calls.batched_calls import BatchedCalls
from queenmq.engine.calls.entry import Answerable
from queenmq.engine.catalogue import REPEATS_MAX, Catalogue
from queenmq.engine.news import News
from queenmq.engine.ports import MessageStore
from queenmq.engine.push.sealing import NO_KEYS, Sealing
from queenmq.engine.requests import PartitionRef, TransactionItems, TransactionOutcome
from queenmq.errors import Overloaded, PartitionBusy, PartitionGone, QueenError, StorageUnavailable
from queenmq.metrics.registry import Registry

#: Transactions in flight, and as many that wait for held rows; the others wait their turn without a
#: connection.
_CALLS_MAX = 4
_WAITING_MAX = 10_000
#: In place of the group, where a transaction needs the partition itself: it pushes there.
_PUSHES = ""

#: A partition and a consumer group whose cursor is needed, or `_PUSHES`.
Key = tuple[UUID, str]


class TransactionEntry(Answerable[TransactionOutcome]):
    """One transaction on its way through a call."""

    weight = 1

    def __init__(
        self,
        items: TransactionItems,
        refs: list[PartitionRef],
        *,
        wait_ms: int,
    ) -> None:
        self.items = items
        self.deadline_ms = now_ms() + wait_ms
        self.diverts = 0
        self.attempts = 0
        self.future = asyncio.get_running_loop().create_future()
        self.set_refs(refs)

    def set_refs(self, refs: list[PartitionRef]) -> None:
        self.refs = refs
        self.keys: set[Key] = {(ref.partition_id, _PUSHES) for ref in refs}
        self.keys |= {(ack.partition_id, ack.consumer_group) for ack in self.items.acks}

    def still_held(self, key: Key) -> PartitionBusy:
        return PartitionBusy(
            f"partition {key[0]} is held by another transaction; nothing was changed, try again"
        )


class TransactionService:
    """Runs transactions. Publishes pushed and freed partitions."""

    def __init__(
        self,
        store: MessageStore,
        catalogue: Catalogue,
        *,
        lock_timeout_ms: int,
        wait_ms: int,
        queue_max: Callable[[], int],
        news: News,
        check_order: Callable[[str], None] = lambda _: None,
        sealing: Sealing = NO_KEYS,
        registry: Registry | None = None,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._check_order = check_order
        self._sealing = sealing
        self._wait_ms = wait_ms
        self._queue_max = queue_max
        self._news = news
        self._waiting = 0
        self._calls: BatchedCalls[TransactionEntry] = BatchedCalls(
            "transaction",
            self._run,
            self._find_busy,
            calls_max=_CALLS_MAX,
            rows_max=TransactionEntry.weight,
            lock_timeout_ms=lock_timeout_ms,
            wait_ms=wait_ms,
            registry=registry,
        )

    def submit(self, items: TransactionItems) -> asyncio.Future[TransactionOutcome]:
        """Commit all of it, or fail with nothing changed.

        A transaction that was committed before is not repeated, but gets the same answer. It needs
        no separate task if all its pushed partitions are in memory.
        """
        if self._waiting >= _WAITING_MAX:
            raise Overloaded(
                f"{self._waiting} transactions are already waiting; nothing was done, try again",
                depth=self._waiting,
                bound="transactions_waiting",
            )
        if items.pushes.keys:
            self._check_order("transaction")
        refs = self._catalogue.get_all(items.pushes.keys)
        future: asyncio.Future[TransactionOutcome]
        if refs is None:
            future = asyncio.get_running_loop().create_task(self._ensure_and_send(items))
        else:
            future = self._send(items, refs)
        self._waiting += 1
        future.add_done_callback(self._count_out)
        return future

    async def _ensure_and_send(self, items: TransactionItems) -> TransactionOutcome:
        return await self._send(items, await self._catalogue.ensure(items.pushes.keys))

    def _send(
        self, items: TransactionItems, refs: list[PartitionRef]
    ) -> asyncio.Future[TransactionOutcome]:
        self._sealing.fit(items.pushes, refs, seed=items.seed)
        entry = TransactionEntry(items, refs, wait_ms=self._wait_ms)
        self._calls.add(entry)
        return entry.future

    def _count_out(self, _: asyncio.Future[TransactionOutcome]) -> None:
        self._waiting -= 1

    async def drain(self) -> None:
        """Wait until every transaction has its answer."""
        await self._calls.drain()

    async def _find_busy(self, keys: Sequence[Key]) -> set[Key]:
        pushed = [partition_id for partition_id, group in keys if group == _PUSHES]
        acked = [key for key in keys if key[1] != _PUSHES]
        busy = await self._store.find_busy_cursors(acked) if acked else set()
        if pushed:
            partition_ids = await self._store.find_busy_partitions(pushed)
            if partition_ids:
                # Pushes to these are queued, so no request waits for them.
                partition_ids -= await self._store.find_publishing(sorted(partition_ids))
            busy |= {(partition_id, _PUSHES) for partition_id in partition_ids}
        return busy

    async def _run(self, entries: list[TransactionEntry], lock_timeout_ms: int) -> None:
        """Make the call of each and answer it. Raises PartitionBusy only."""
        for entry in entries:
            try:
                await self._run_one(entry, lock_timeout_ms)
            except PartitionBusy:
                raise
            except QueenError as error:
                entry.fail(error)

    async def _run_one(self, entry: TransactionEntry, lock_timeout_ms: int) -> None:
        try:
            outcome = await self._store.commit_transaction(
                entry.items,
                entry.refs,
                queue_max=self._queue_max(),
                lock_timeout_ms=lock_timeout_ms,
            )
        except PartitionGone:
            await self._retarget(entry)
        else:
            self._finish(entry, outcome)

    async def _retarget(self, entry: TransactionEntry) -> None:
        self._catalogue.forget(entry.items.pushes.keys)
        if entry.attempts >= REPEATS_MAX:
            text = (
                f"A queue of this transaction was deleted {entry.attempts + 1} times while it ran."
                " Nothing was changed. Stop the client that deletes it, then send the transaction"
                " again."
            )
            raise StorageUnavailable(text, public=text)
        # PartitionBusy leaves it with its runner. Only an entry that is put back is retargeted.
        refs = await self._catalogue.ensure(entry.items.pushes.keys)
        self._sealing.fit(entry.items.pushes, refs, seed=entry.items.seed)
        entry.attempts += 1
        entry.set_refs(refs)
        self._calls.put_back([entry])

    def _finish(self, entry: TransactionEntry, outcome: TransactionOutcome) -> None:
        if not outcome.is_repeat:
            self._notify(entry, outcome)
        entry.answer(outcome)

    def _notify(self, entry: TransactionEntry, outcome: TransactionOutcome) -> None:
        if queued := outcome.pushed.queued_ids:
            self._news.operations_queued(len(queued))
        self._news.pushed({ref.partition_id: ref for ref in entry.refs}.values())
        for ack, key in zip(entry.items.acks, outcome.freed, strict=True):
            if key is not None:
                self._news.freed(ack.partition_id, key, ack.consumer_group)
