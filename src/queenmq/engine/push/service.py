"""Push: joins concurrent requests into few database calls and answers each with its own result.

Some things may stop a call without being the fault of every request in it, and each is put right
here: a partition that another transaction holds (PartitionBusy) moves, with its requests and in
order, to a lock queue, where requests are queued if that transaction publishes a batch of
Spark, which may take long; a partition that was deleted (PartitionGone) is looked up again; one
where too many operations wait (OperationQueueFull) and data that the database refuses
(StorageRejected) fail the requests that are about them. When the database cannot be reached, a
request goes to the spool. A fault of the database (StorageFault) fails the whole call, and nothing
goes to the spool: the fault may touch some calls only, and every later push of the broker would
have to wait behind what is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.calls.batched_calls import BatchedCalls, fail_all
from queenmq.engine.calls.gathering import Gathering
from queenmq.engine.calls.pace import CallPace
from queenmq.engine.catalogue import REPEATS_MAX, Catalogue
from queenmq.engine.news import News
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.ports import MessageStore
from queenmq.engine.push.entry import (
    PushEntry,
    answer_known,
    merge,
    select_unanswered,
    split_accepted,
    split_copies,
)
from queenmq.engine.push.repeats import Repeats
from queenmq.engine.push.sealing import NO_KEYS, Sealing
from queenmq.engine.push.spooling import PushSpool
from queenmq.engine.queued_pushes.accepted_row import AcceptedRow
from queenmq.engine.requests import PartitionRef, PushCall, Pushed, PushItems, PushOutcome
from queenmq.errors import (
    KeyKnown,
    NotUnique,
    OperationQueueFull,
    Overloaded,
    PartitionBusy,
    PartitionGone,
    QueenError,
    StorageFault,
    StorageRejected,
    StorageUnavailable,
)
from queenmq.metrics.registry import Registry

#: No bound, because accepted pushes have no other place to go.
_NO_BOUND = 2**31 - 1
#: The work for a message, as a share of the work for its request.
_ROW_SHARE = 0.3
_DUPLICATE = ItemOutcome.DUPLICATE


@dataclass(frozen=True, slots=True)
class PushLimits:
    """The bounds of the push path; the settings page explains each."""

    calls_max: int
    rows_max: int
    waiting_max: int
    lock_timeout_ms: int
    wait_ms: int


class PushService:
    """The push path of a broker.

    `queue_max` says how many operations may wait in a partition now, `has_operations` whether any
    wait at all. It publishes the stored partitions and the number of queued operations.
    """

    def __init__(
        self,
        store: MessageStore,
        catalogue: Catalogue,
        spool: PushSpool,
        limits: PushLimits,
        *,
        queue_max: Callable[[], int],
        has_operations: Callable[[], bool],
        news: News,
        sealing: Sealing = NO_KEYS,
        pace: CallPace | None = None,
        registry: Registry | None = None,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._spool = spool
        self._limits = limits
        self._queue_max = queue_max
        self._has_operations = has_operations
        self._news = news
        self._sealing = sealing
        self._repeats = Repeats()
        self._calls: BatchedCalls[PushEntry] = BatchedCalls(
            "push",
            self._store_entries,
            store.find_busy_partitions,
            calls_max=limits.calls_max,
            rows_max=limits.rows_max,
            lock_timeout_ms=limits.lock_timeout_ms,
            run_held=self._store_held,
            find_held=self._find_held,
            wait_ms=limits.wait_ms,
            pace=pace,
            gathering=None if pace is None else Gathering(pace.is_near, row_share=_ROW_SHARE),
            registry=registry,
        )
        #: Requests that wait for a look-up or for the disk.
        self._elsewhere = 0

    @property
    def depth(self) -> int:
        """Return how many requests wait for a call, a held partition, a look-up or the disk."""
        return self._calls.depth + self._elsewhere

    def oldest_ms(self, now: float) -> float:
        """Return how long the oldest request has waited for a call. Requests in lock queues do not
        count.
        """
        first = self._calls.first
        return 0.0 if first is None else now - (first.deadline_ms - self._limits.wait_ms)

    def submit(self, items: PushItems, *, is_queued: bool = False) -> asyncio.Future[PushOutcome]:
        """Push without a separate task if the partitions are known and the database is up.

        StorageUnavailable then is for `rescue`.
        """
        refs = None if self._spool.is_needed else self._known_refs(items)
        if refs is None or self.depth >= self._limits.waiting_max:
            return asyncio.get_running_loop().create_task(self.push(items, is_queued=is_queued))
        return self.send(items, refs, is_queued=is_queued)

    async def rescue(self, items: PushItems, error: StorageUnavailable) -> PushOutcome:
        """Keep a failed push on disk.

        Raise the error if the push may have been stored, or if the database is up and would not
        take it from the disk either.
        """
        is_in_doubt = error.is_in_doubt and not items.is_repeatable
        if is_in_doubt:
            self._spool.note_doubt(items)
        if is_in_doubt or isinstance(error, StorageFault):
            raise error
        with self._count_inside():
            return await self._spool.keep(items)

    async def push(self, items: PushItems, *, is_queued: bool = False) -> PushOutcome:
        """Store the items of one request, all or none, and wake waiting pops.

        With `is_queued` they become operations that are run later. When they cannot go to the
        database now, they are kept on disk.
        """
        if not items.payloads:
            return PushOutcome([], [], [])
        if (depth := self.depth) >= (waiting_max := self._limits.waiting_max):
            raise Overloaded(
                f"{depth} pushes are already waiting, and push_waiting_max is {waiting_max};"
                " nothing was stored, try again",
                depth=depth,
                bound="push_waiting_max",
            )
        if self._spool.is_needed:
            with self._count_inside():
                kept = await self._spool.take(items)
            if kept is not None:
                return kept
        try:
            refs = await self._find_refs(items)
        except StorageFault:
            raise
        except StorageUnavailable:
            # Making a partition twice does no harm.
            with self._count_inside():
                return await self._spool.keep(items)
        try:
            return await self.send(items, refs, is_queued=is_queued)
        except StorageUnavailable as error:
            return await self.rescue(items, error)

    @contextlib.contextmanager
    def _count_inside(self) -> Iterator[None]:
        self._elsewhere += 1
        try:
            yield
        finally:
            self._elsewhere -= 1

    def _known_refs(self, items: PushItems) -> list[PartitionRef] | None:
        """Return the partitions of the items, or None unless all of them are remembered."""
        return self._catalogue.get_all(items.keys) if items.keys else None

    async def _find_refs(self, items: PushItems) -> list[PartitionRef]:
        refs = self._known_refs(items)
        if refs is None:
            with self._count_inside():
                refs = await self._catalogue.ensure(items.keys)
        return refs

    def send(
        self,
        items: PushItems,
        refs: list[PartitionRef],
        *,
        is_queued: bool,
        row: AcceptedRow | None = None,
    ) -> asyncio.Future[PushOutcome]:
        """Accept a request at once. Requests to one partition are stored in this order."""
        self._sealing.fit(items, refs)
        future: asyncio.Future[PushOutcome] = asyncio.get_running_loop().create_future()
        deadline_ms = now_ms() + self._limits.wait_ms
        entry = PushEntry(items, refs, future, deadline_ms, is_queued=is_queued, row=row)
        self._calls.add(entry)
        return future

    def divert_to_spool(self) -> None:
        """Move all waiting pushes to the spool, because the database is down."""
        text = "the database is down; try again"
        error = StorageUnavailable(text, public=text)
        fail_all(self._calls.take_waiting(), error)

    async def drain(self) -> None:
        """Wait until every push has its answer."""
        await self._calls.drain()

    async def _find_held(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        """Return the partitions whose row a push would have to wait for."""
        busy = await self._store.find_busy_partitions(partition_ids)
        return busy - await self._store.find_publishing(sorted(busy)) if busy else busy

    async def _store_held(self, entries: list[PushEntry], lock_timeout_ms: int) -> None:
        """Store the requests of a lock queue, and queue those that a Spark publication holds up."""
        await self._store_entries(entries, lock_timeout_ms, checks_operations_first=True)

    async def _store_entries(
        self,
        entries: list[PushEntry],
        lock_timeout_ms: int,
        *,
        checks_operations_first: bool = False,
    ) -> None:
        """Make one call and answer its requests.

        Raises only PartitionBusy. Requests without an answer then have not been stored.
        """
        entries = [entry for entry in entries if not entry.is_stopped()]
        if not entries:
            return
        runs = split_accepted(entries)
        if len(runs) > 1:
            for run in runs:
                await self._store_entries(
                    run, lock_timeout_ms, checks_operations_first=checks_operations_first
                )
            return
        call = merge(entries)
        try:
            pushed = await self._call(
                call, lock_timeout_ms, checks_operations_first=checks_operations_first
            )
        except PartitionBusy:
            raise
        except PartitionGone:
            await self._retarget(entries)
        except KeyKnown:
            await self._answer_known(
                entries, lock_timeout_ms, checks_operations_first=checks_operations_first
            )
        except (StorageRejected, OperationQueueFull) as error:
            await self._store_apart(
                entries, error, lock_timeout_ms, checks_operations_first=checks_operations_first
            )
        except QueenError as error:
            fail_all(entries, error)
        else:
            self._news.pushed({ref.partition_id: ref for ref in dict.fromkeys(call.refs)}.values())
            self._answer(entries, pushed)

    async def _call(
        self, call: PushCall, lock_timeout_ms: int, *, checks_operations_first: bool
    ) -> Pushed:
        are_ids_new = not self._repeats.is_check_needed(call, now_ms())
        queue_max = _NO_BOUND if call.is_accepted else self._queue_max()
        while True:
            try:
                pushed = await self._store.push_messages(
                    call._replace(are_ids_new=are_ids_new),
                    queue_max=queue_max,
                    checks_operations_first=checks_operations_first or self._has_operations(),
                    lock_timeout_ms=lock_timeout_ms,
                )
            except NotUnique:
                if not are_ids_new:
                    raise
                are_ids_new = False
                self._repeats.note_repeat(now_ms())
            else:
                if _DUPLICATE in pushed.outcomes:
                    self._repeats.note_repeat(now_ms())
                return pushed

    async def _answer_known(
        self, entries: list[PushEntry], lock_timeout_ms: int, *, checks_operations_first: bool
    ) -> None:
        """Answer the requests that were made before, and store the others.

        Of copies in one call the first is stored before the others, which then get its answer.
        """
        left = await self._answer_repeats(entries)
        firsts, copies = split_copies(left)
        if len(firsts) < len(entries):
            for some in (firsts, copies):
                await self._store_entries(
                    some, lock_timeout_ms, checks_operations_first=checks_operations_first
                )
        else:
            # A key was swept just now.
            text = "another request with this idempotency key is under way; try again"
            await self._store_apart(
                left,
                PartitionBusy(text),
                lock_timeout_ms,
                checks_operations_first=checks_operations_first,
            )

    async def _answer_repeats(self, entries: list[PushEntry]) -> list[PushEntry]:
        """Answer the requests of a call that was rolled back that were made before. Return the
        others; none if the database did not say.
        """
        keys = [entry.items.request_key.key for entry in entries if entry.items.request_key]
        try:
            return answer_known(entries, await self._store.find_push_keys(keys))
        except PartitionBusy:
            raise
        except StorageUnavailable as error:
            # Only what has a key may have been stored: by an earlier try.
            for entry in entries:
                has_key = entry.items.request_key is not None
                entry.fail(error.with_doubt(is_in_doubt=has_key))
        except QueenError as error:
            fail_all(entries, error)
        return []

    async def _store_apart(
        self,
        entries: list[PushEntry],
        error: QueenError,
        lock_timeout_ms: int,
        *,
        checks_operations_first: bool,
    ) -> None:
        """Retry the requests one by one, so that only the one at fault fails."""
        if len(entries) == 1:
            if isinstance(error, OperationQueueFull) and entries[0].items.request_key:
                # A request that was made before needs no room.
                entries = await self._answer_repeats(entries)
            fail_all(entries, error)
        else:
            for entry in entries:
                await self._store_entries(
                    [entry], lock_timeout_ms, checks_operations_first=checks_operations_first
                )

    def _answer(self, entries: list[PushEntry], pushed: Pushed) -> None:
        at = 0
        queued: set[str] = set()
        ids, outcomes, all_positions = pushed
        positions = None
        for entry in entries:
            end = at + entry.weight
            if all_positions is not None:
                positions = all_positions[at:end] if any(all_positions[at:end]) else None
            outcome = PushOutcome(entry.refs, ids[at:end], outcomes[at:end], positions)
            if positions is not None:
                queued |= outcome.queued_ids
            entry.answer(outcome)
            at = end
        if queued:
            self._news.operations_queued(len(queued))

    async def _retarget(self, entries: list[PushEntry]) -> None:
        self._catalogue.forget(key for entry in entries for key in entry.items.keys)
        for entry in entries:
            entry.attempts += 1
            try:
                if entry.attempts > REPEATS_MAX:
                    text = (
                        f"Queue {entry.items.keys[0].queue!r}, or a partition of it, was deleted"
                        f" {entry.attempts} times during this push. Nothing was stored. Stop the"
                        " client that deletes it, then push again."
                    )
                    raise StorageUnavailable(text, public=text)
                refs = await self._catalogue.ensure(entry.items.keys)
                self._sealing.fit(entry.items, refs)
                entry.set_refs(refs)
            except QueenError as error:
                entry.fail(error)
        self._calls.put_back(select_unanswered(entries))
