"""Joins cycles of streams into few calls. Each cycle is committed or refused by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from queenmq.engine.calls.batched_calls import BatchedCalls, fail_all
from queenmq.engine.catalogue import REPEATS_MAX, Catalogue
from queenmq.engine.news import News
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.ports import MessageStore
from queenmq.engine.push.sealing import NO_KEYS, Sealing
from queenmq.engine.requests import PartitionKey, PushOutcome
from queenmq.engine.streams.budget import StateBudget
from queenmq.engine.streams.entry import PUSHES, CycleEntry, Key, pair_key, pair_of, split_rounds
from queenmq.engine.streams.error_notes import ErrorNotes
from queenmq.engine.streams.ports import CycleStore
from queenmq.engine.streams.reads import StateReads
from queenmq.engine.streams.requests import CycleCall, CycleItems, CycleOutcome, CycleRow
from queenmq.errors import (
    OperationQueueFull,
    Overloaded,
    PartitionBusy,
    PartitionGone,
    QueenError,
    StorageRejected,
    StorageUnavailable,
    TransactionRefused,
)
from queenmq.metrics.registry import Registry

#: Calls in flight, and as many that wait for held rows; the others wait without a connection.
_CALLS_MAX = 4
_WAITING_MAX = 10_000


class CycleService:
    """Commits the cycles of a broker. Publishes pushed and freed partitions."""

    def __init__(
        self,
        store: CycleStore,
        messages: MessageStore,
        catalogue: Catalogue,
        *,
        rows_max: int,
        state_bytes_max: int,
        lock_timeout_ms: int,
        wait_ms: int,
        queue_max: Callable[[], int],
        news: News,
        check_order: Callable[[str], None] = lambda _: None,
        sealing: Sealing = NO_KEYS,
        registry: Registry | None = None,
    ) -> None:
        self._store = store
        self._messages_store = messages
        self._catalogue = catalogue
        self._wait_ms = wait_ms
        self._queue_max = queue_max
        self._check_order = check_order
        self._sealing = sealing
        self._news = news
        self._budget = StateBudget(store.measure_state, bytes_max=state_bytes_max)
        self._notes = ErrorNotes(store.note_errors)
        #: Reads of state.
        self.reads = StateReads(store)
        self._waiting = 0
        #: Messages stored so far.
        self.messages = 0
        self._calls: BatchedCalls[CycleEntry] = BatchedCalls(
            "cycle",
            self._run,
            self._find_busy,
            calls_max=_CALLS_MAX,
            rows_max=rows_max,
            lock_timeout_ms=lock_timeout_ms,
            wait_ms=wait_ms,
            registry=registry,
        )

    async def commit(self, cycle: CycleItems) -> CycleOutcome:
        """Commit all of a cycle, or raise with nothing changed.

        Raises TransactionRefused with the reason if the cycle cannot be committed as it is. A cycle
        that was committed before is not repeated, but gets the same answer.
        """
        if self._waiting >= _WAITING_MAX:
            raise Overloaded(
                f"{self._waiting} stream cycles are already waiting; nothing was done, try again",
                depth=self._waiting,
                bound="cycles_waiting",
            )
        if cycle.pushes.keys:
            self._check_order("cycle")
        self._waiting += 1
        try:
            if any(op.value is not None for op in cycle.ops):
                await self._check_budget(cycle)
            refs = await self._catalogue.ensure(cycle.pushes.keys) if cycle.pushes.keys else []
            self._sealing.fit(cycle.pushes, refs, seed=cycle.seed)
            entry = CycleEntry(cycle, refs, wait_ms=self._wait_ms)
            self._calls.add(entry)
            return await entry.future
        except TransactionRefused as error:
            self._notes.note(cycle.query_id, str(error))
            raise
        finally:
            self._waiting -= 1

    async def _check_budget(self, cycle: CycleItems) -> None:
        """Refuse a cycle whose query has too much state, unless it was committed before."""
        try:
            await self._budget.check(cycle.query_id)
        except TransactionRefused:
            place = (cycle.query_id, cycle.partition_id, cycle.digest)
            if not await self._store.is_last_cycle(*place):
                raise

    async def drain(self) -> None:
        """Wait until every cycle has its answer."""
        await self.reads.drain()
        await self._calls.drain()
        await self._notes.drain()

    async def _find_busy(self, keys: Sequence[Key]) -> set[Key]:
        pairs = [pair for key in keys if (pair := pair_of(key)) is not None]
        sinks = [partition_id for partition_id, what in keys if what == PUSHES]
        cursors = [key for key in keys if key[1] != PUSHES and pair_of(key) is None]
        busy: set[Key] = set()
        if pairs:
            busy |= {pair_key(*pair) for pair in await self._store.find_busy_pairs(pairs)}
        if cursors:
            busy |= await self._messages_store.find_busy_cursors(cursors)
        if sinks:
            held = await self._messages_store.find_busy_partitions(sinks)
            busy |= {(partition_id, PUSHES) for partition_id in held}
        return busy

    async def _run(self, entries: list[CycleEntry], lock_timeout_ms: int) -> None:
        """Make the calls for these and answer them. Raises PartitionBusy only."""
        for some in split_rounds(entries):
            await self._run_round(some, lock_timeout_ms)

    async def _run_round(self, entries: list[CycleEntry], lock_timeout_ms: int) -> None:
        call = CycleCall([one.cycle for one in entries], [one.refs for one in entries])
        try:
            rows = await self._store.commit_cycles(
                call, queue_max=self._queue_max(), lock_timeout_ms=lock_timeout_ms
            )
        except PartitionBusy:
            raise
        except PartitionGone:
            await self._retarget(entries)
        except (TransactionRefused, StorageRejected, OperationQueueFull) as error:
            await self._run_apart(entries, error, lock_timeout_ms)
        except QueenError as error:
            fail_all(entries, error)
        else:
            for entry, row in zip(entries, rows, strict=True):
                self._answer(entry, row)

    async def _run_apart(
        self, entries: list[CycleEntry], error: QueenError, lock_timeout_ms: int
    ) -> None:
        """Retry the cycles one by one, so that only the one at fault fails."""
        if len(entries) == 1:
            fail_all(entries, error)
        else:
            for entry in entries:
                await self._run_round([entry], lock_timeout_ms)

    async def _retarget(self, entries: list[CycleEntry]) -> None:
        """Give cycles new sink partitions if theirs were deleted, and put them back."""
        self._catalogue.forget(key for one in entries for key in one.cycle.pushes.keys)
        aimed = []
        for entry in entries:
            try:
                if entry.attempts >= REPEATS_MAX:
                    text = (
                        f"A sink queue of this cycle was deleted {entry.attempts + 1} times while"
                        " it ran. Nothing was changed. Stop the client that deletes it, then send"
                        " the cycle again."
                    )
                    raise StorageUnavailable(text, public=text)
                refs = await self._catalogue.ensure(entry.cycle.pushes.keys)
                self._sealing.fit(entry.cycle.pushes, refs, seed=entry.cycle.seed)
            except QueenError as error:
                entry.fail(error)
            else:
                entry.attempts += 1
                entry.set_refs(refs)
                aimed.append(entry)
        self._calls.put_back(aimed)

    def _answer(self, entry: CycleEntry, row: CycleRow) -> None:
        if row.error is not None:
            entry.fail(TransactionRefused(row.error))
            return
        ids, outcomes = row.message_ids or (), row.outcomes or ()
        positions = row.positions if row.positions and any(row.positions) else None
        pushed = PushOutcome(entry.refs, ids, outcomes, positions)
        if not row.is_repeat:
            self._notify(entry, row, pushed)
        entry.answer(CycleOutcome(row, pushed))

    def _notify(self, entry: CycleEntry, row: CycleRow, pushed: PushOutcome) -> None:
        cycle = entry.cycle
        self.messages += pushed.outcomes.count(ItemOutcome.STORED)
        self._budget.grew(cycle.query_id, row.state_bytes)
        if queued := pushed.queued_ids:
            self._news.operations_queued(len(queued))
        if entry.refs:
            self._news.pushed({ref.partition_id: ref for ref in entry.refs}.values())
        if row.has_more and row.queue_name is not None:
            key = PartitionKey(row.queue_name, row.partition_name or "")
            self._news.freed(cycle.partition_id, key, cycle.consumer_group)
