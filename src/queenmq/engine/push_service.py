"""Push: joins concurrent requests into few database calls and answers each with its own result.

Three things may stop a call without being the fault of every request in it, and each is put right
here: a partition that another transaction holds (PartitionBusy) moves, with its requests and in
order, to a lane of its own; a partition that was deleted (PartitionGone) is looked up again; data
that the database refuses (StorageRejected) fails the one request that carries it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.batcher import Batcher
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.dispatcher import Dispatcher
from queenmq.engine.operation import PartitionRef, PushItems, PushOutcome
from queenmq.engine.ports import MessageStore
from queenmq.engine.push_lanes import PushLanes
from queenmq.errors import (
    PartitionBusy,
    PartitionGone,
    QueenError,
    StorageRejected,
    StorageUnavailable,
)

V = TypeVar("V")

#: A queue that is deleted again and again while it is pushed to is not worth more tries.
_ATTEMPTS_MAX = 5


class PushEntry:
    """One push request on its way through a call."""

    __slots__ = ("attempts", "deadline_ms", "future", "items", "keys", "refs", "weight")

    def __init__(
        self,
        items: PushItems,
        refs: list[PartitionRef],
        future: asyncio.Future[PushOutcome],
        deadline_ms: float,
    ) -> None:
        self.items = items
        self.future = future
        self.deadline_ms = deadline_ms
        self.weight = len(items.payloads)
        self.attempts = 0
        self.set_refs(refs)

    def set_refs(self, refs: list[PartitionRef]) -> None:
        self.refs = refs
        self.keys: set[UUID] = {ref.partition_id for ref in refs}

    def answer(self, outcome: PushOutcome) -> None:
        if not self.future.done():
            self.future.set_result(outcome)

    def fail(self, error: QueenError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


def merge(entries: Sequence[PushEntry]) -> tuple[PushItems, list[PartitionRef]]:
    """The items of several requests as one, in order."""
    if len(entries) == 1:
        return entries[0].items, entries[0].refs
    merged = PushItems(
        keys=[key for entry in entries for key in entry.items.keys],
        payloads=[payload for entry in entries for payload in entry.items.payloads],
        transaction_ids=_merge_column(entries, lambda items: items.transaction_ids),
        trace_ids=_merge_column(entries, lambda items: items.trace_ids),
        producer_subs=_merge_column(entries, lambda items: items.producer_subs),
    )
    return merged, [ref for entry in entries for ref in entry.refs]


def _merge_column(
    entries: Sequence[PushEntry], column: Callable[[PushItems], list[V | None] | None]
) -> list[V | None] | None:
    if all(column(entry.items) is None for entry in entries):
        return None
    merged: list[V | None] = []
    for entry in entries:
        merged.extend(column(entry.items) or [None] * entry.weight)
    return merged


class PushService:
    """The push path of a broker."""

    def __init__(
        self,
        store: MessageStore,
        catalogue: Catalogue,
        *,
        calls_max: int,
        rows_max: int,
        waiting_max: int,
        lock_timeout_ms: int,
        wait_ms: int,
        on_pushed: Callable[[Iterable[PartitionRef]], None],
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._waiting_max = waiting_max
        self._lock_timeout_ms = lock_timeout_ms
        self._wait_ms = wait_ms
        self._on_pushed = on_pushed
        self._dispatcher: Dispatcher[PushEntry] = Dispatcher(
            "push", Batcher(calls_max=calls_max, weight_max=rows_max), self._run, _fail
        )
        self._lanes = PushLanes(self._store_entries, calls_max=calls_max, rows_max=rows_max)

    async def push(self, items: PushItems) -> PushOutcome:
        """Store the items of one request, all or none, and wake who waits for them."""
        if not items.payloads:
            return PushOutcome([], [], "")
        if self._dispatcher.depth + self._lanes.depth >= self._waiting_max:
            raise StorageUnavailable(
                f"{self._waiting_max} pushes already wait; nothing was stored, try again"
            )
        get = self._catalogue.get
        refs = [get(key) for key in items.keys]
        known = (
            await self._catalogue.ensure(items.keys)
            if None in refs
            else [ref for ref in refs if ref is not None]
        )
        future: asyncio.Future[PushOutcome] = asyncio.get_running_loop().create_future()
        self._add(PushEntry(items, known, future, now_ms() + self._wait_ms))
        return await future

    async def drain(self) -> None:
        """Wait until every push has its answer."""
        await self._dispatcher.drain()
        await self._lanes.drain()

    def _add(self, entry: PushEntry) -> None:
        if not self._lanes.join(entry):
            self._dispatcher.add(entry)

    async def _run(self, batch: list[PushEntry]) -> None:
        entries = [entry for entry in batch if not self._lanes.join(entry)]
        if not entries:
            return
        try:
            await self._store_entries(entries, self._lock_timeout_ms)
        except PartitionBusy:
            await self._divert(unanswered(entries))

    async def _divert(self, entries: list[PushEntry]) -> None:
        """Move the requests of held partitions to lanes; all others go again, before later ones."""
        try:
            keys = sorted({key for entry in entries for key in entry.keys})
            busy = await self._store.find_busy_partitions(keys)
        except QueenError as error:
            _fail(entries, error)
            return
        free = []
        for entry in entries:
            if held := entry.keys & busy:
                self._lanes.open(min(held), entry)
            else:
                free.append(entry)
        self._dispatcher.put_back(free)

    async def _store_entries(self, entries: list[PushEntry], lock_timeout_ms: int) -> None:
        """Make one call and answer its requests.

        Raises PartitionBusy only; what is not answered then has not been stored.
        """
        items, refs = merge(entries)
        try:
            message_ids, outcomes = await self._store.push_messages(
                items, refs, lock_timeout_ms=lock_timeout_ms
            )
        except PartitionBusy:
            raise
        except PartitionGone:
            await self._look_up_again(entries)
        except StorageRejected as error:
            if len(entries) == 1:
                _fail(entries, error)
                return
            # Somebody's data is at fault, and only they shall hear of it.
            for entry in entries:
                await self._store_entries([entry], lock_timeout_ms)
        except QueenError as error:
            _fail(entries, error)
        else:
            self._on_pushed({ref.partition_id: ref for ref in refs}.values())
            at = 0
            for entry in entries:
                end = at + entry.weight
                entry.answer(PushOutcome(entry.refs, message_ids[at:end], outcomes[at:end]))
                at = end

    async def _look_up_again(self, entries: list[PushEntry]) -> None:
        self._catalogue.forget(key for entry in entries for key in entry.items.keys)
        for entry in entries:
            entry.attempts += 1
            try:
                if entry.attempts > _ATTEMPTS_MAX:
                    raise StorageUnavailable(
                        f"queue {entry.items.keys[0].queue!r} is deleted again and again;"
                        " nothing was stored, try again"
                    )
                entry.set_refs(await self._catalogue.ensure(entry.items.keys))
            except QueenError as error:
                entry.fail(error)
        self._dispatcher.put_back(unanswered(entries))


def unanswered(entries: Iterable[PushEntry]) -> list[PushEntry]:
    """Those that are neither stored nor refused; only they may be tried again."""
    return [entry for entry in entries if not entry.future.done()]


def _fail(entries: Iterable[PushEntry], error: QueenError) -> None:
    for entry in entries:
        entry.fail(error)
