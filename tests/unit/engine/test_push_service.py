"""Joining the items of several pushes into one call, and taking a failed call apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from queenmq.clock import now_ms
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.news import News
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.push.entry import PushEntry, merge, split_copies
from queenmq.engine.push.service import PushLimits, PushService
from queenmq.engine.push.spooling import PushSpool
from queenmq.engine.requests import (
    KnownPush,
    PartitionKey,
    PartitionRef,
    PushCall,
    Pushed,
    PushItems,
    PushOutcome,
    RequestKey,
)
from queenmq.errors import (
    KeyKnown,
    OperationQueueFull,
    Overloaded,
    PartitionBusy,
    PartitionGone,
    StorageFault,
    StorageRejected,
    StorageUnavailable,
)
from queenmq.storage.spool import Spool
from queenmq.storage.spool.push_journal import SpoolJournal
from tests.support.waiting import wait_until_async


def make_ref(name: str) -> PartitionRef:
    partition_id = UUID(int=sum(name.encode()))
    return PartitionRef(
        key=PartitionKey("orders", name),
        partition_id=partition_id,
        id_text=str(partition_id),
        queue_id=UUID(int=1),
        namespace="",
        task="",
        is_encrypted=False,
    )


def make_entry(
    *partitions: str,
    payloads: list[str] | None = None,
    transaction_ids: list[str | None] | None = None,
    trace_ids: list[UUID | None] | None = None,
    producer_subs: list[str | None] | None = None,
) -> PushEntry:
    refs = [make_ref(name) for name in partitions]
    items = PushItems(
        keys=[ref.key for ref in refs],
        payloads=payloads or [f'"{name}"' for name in partitions],
        transaction_ids=transaction_ids,
        trace_ids=trace_ids,
        producer_subs=producer_subs,
    )
    return PushEntry(items, refs, asyncio.Future(), deadline_ms=0)


async def test_one_request_is_passed_on_as_it_is() -> None:
    entry = make_entry("a", "b")
    call = merge([entry])
    assert call.items is entry.items
    assert call.refs == entry.refs
    assert (call.request_sizes, call.queued_ids, call.is_accepted) == ([2], set(), False)


async def test_items_of_several_requests_keep_their_order() -> None:
    call = merge([make_entry("b", "a"), make_entry("c"), make_entry("a")])
    items = call.items
    assert [key.partition for key in items.keys] == ["b", "a", "c", "a"]
    assert items.payloads == ['"b"', '"a"', '"c"', '"a"']
    assert [ref.key for ref in call.refs] == items.keys
    assert call.request_sizes == [2, 1, 1]


async def test_a_column_that_nobody_uses_stays_absent() -> None:
    items = merge([make_entry("a"), make_entry("b")]).items
    assert items.transaction_ids is None
    assert items.trace_ids is None
    assert items.producer_subs is None


async def test_a_column_that_one_request_uses_is_filled_up_for_the_others() -> None:
    trace = UUID(int=7)
    items = merge(
        [
            make_entry("a", "b"),
            make_entry("c", transaction_ids=["t-1"], trace_ids=[trace]),
            make_entry("d", producer_subs=["alice"]),
        ]
    ).items
    assert items.transaction_ids == [None, None, "t-1", None]
    assert items.trace_ids == [None, None, trace, None]
    assert items.producer_subs == [None, None, None, "alice"]


async def test_merging_changes_none_of_the_requests() -> None:
    first, second = make_entry("a", transaction_ids=["t"]), make_entry("b")
    merge([first, second])
    assert first.items.transaction_ids == ["t"]
    assert second.items.transaction_ids is None


async def test_an_entry_weighs_its_items_and_touches_each_partition_once() -> None:
    entry = make_entry("a", "a", "b")
    assert entry.weight == 3
    assert entry.keys == {make_ref("a").partition_id, make_ref("b").partition_id}


class ScriptedStore:
    """A database that refuses one payload, and finds one partition held the first time."""

    def __init__(self) -> None:
        self.stored: list[str] = []
        self._is_held = True
        self.faults = 0

    async def ensure_partitions(
        self, keys: Sequence[PartitionKey], *, lock_timeout_ms: int
    ) -> list[PartitionRef]:
        return [make_ref(key.partition) for key in keys]

    async def push_messages(
        self, call: PushCall, *, queue_max: int, checks_operations_first: bool, lock_timeout_ms: int
    ) -> Pushed:
        items = call.items
        if '"poison"' in items.payloads:
            raise StorageRejected("no such payload")
        if '"fault"' in items.payloads:
            self.faults += 1
            raise StorageFault("no such table", code="42P01")
        if '"held"' in items.payloads and self._is_held:
            self._is_held = False
            raise PartitionBusy("held")
        self.stored += items.payloads
        return Pushed(["id"] * len(call.refs), [ItemOutcome.STORED] * len(call.refs), None)

    async def find_publishing(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        return set()

    async def find_busy_partitions(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        return {make_ref("held").partition_id} & set(partition_ids)


@pytest.fixture
async def spool(tmp_path: Path) -> AsyncIterator[PushSpool]:
    """Real files, and a database that is always there."""
    files = Spool(tmp_path / "spool", bytes_max=1_000_000)
    await files.open()
    yield PushSpool(SpoolJournal(files), is_down=lambda: False, news=News())
    await files.close()


def make_service(store: Any, spool: PushSpool, *, waiting_max: int = 100) -> PushService:
    return PushService(
        store,
        Catalogue(store, lock_timeout_ms=1, wait_ms=1_000),
        spool,
        PushLimits(
            calls_max=1, rows_max=100, waiting_max=waiting_max, lock_timeout_ms=1, wait_ms=1_000
        ),
        queue_max=lambda: 100,
        has_operations=lambda: False,
        news=News(),
    )


async def test_what_a_broken_up_call_has_stored_is_not_stored_again(spool: PushSpool) -> None:
    store = cast(Any, ScriptedStore())
    service = make_service(store, spool)
    names = ["first", "held", "poison", "last"]
    results = await asyncio.gather(
        *(
            service.push(PushItems(keys=[PartitionKey("orders", name)], payloads=[f'"{name}"']))
            for name in names
        ),
        return_exceptions=True,
    )
    assert sorted(store.stored) == ['"first"', '"held"', '"last"']
    assert [isinstance(result, StorageRejected) for result in results] == [
        False,
        False,
        True,
        False,
    ]


async def test_a_fault_fails_its_call_once_and_keeps_nothing_on_disk(spool: PushSpool) -> None:
    store = cast(Any, ScriptedStore())
    service = make_service(store, spool)
    names = ["one", "fault", "three"]
    results = await asyncio.gather(
        *(
            service.push(PushItems(keys=[PartitionKey("orders", name)], payloads=[f'"{name}"']))
            for name in names
        ),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [StorageFault] * 3
    assert store.faults == 1, "one by one would find the same"
    assert not spool.is_needed


class VanishingStore(ScriptedStore):
    """A database in which another client deletes the queue before each call."""

    async def push_messages(self, call: PushCall, **_: Any) -> Pushed:
        raise PartitionGone("gone")


async def test_a_queue_that_is_deleted_all_the_time_is_named(spool: PushSpool) -> None:
    service = make_service(cast(Any, VanishingStore()), spool)
    items = PushItems(keys=[PartitionKey("orders", "a")], payloads=['"a"'])
    with pytest.raises(StorageUnavailable) as caught:
        await service.send(items, [make_ref("a")], is_queued=False)
    assert str(caught.value) == (
        "Queue 'orders', or a partition of it, was deleted 6 times during this push. Nothing was"
        " stored. Stop the client that deletes it, then push again."
    )


class SlowStore(ScriptedStore):
    """A database that answers pushes when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.is_called = asyncio.Event()

    async def push_messages(
        self, call: PushCall, *, queue_max: int, checks_operations_first: bool, lock_timeout_ms: int
    ) -> Pushed:
        self.is_called.set()
        await self.may_answer.wait()
        return await super().push_messages(
            call,
            queue_max=queue_max,
            checks_operations_first=checks_operations_first,
            lock_timeout_ms=lock_timeout_ms,
        )


async def test_who_waits_is_counted_ages_and_is_bounded(spool: PushSpool) -> None:
    store = SlowStore()
    service = make_service(store, spool, waiting_max=1)
    items = PushItems(keys=[PartitionKey("orders", "a")], payloads=['"a"'])
    started = now_ms()
    assert (service.depth, service.oldest_ms(started)) == (0, 0)
    first = asyncio.create_task(service.push(items))
    await store.is_called.wait()
    assert (service.depth, service.oldest_ms(started + 5_000)) == (0, 0), "in a call, not waiting"
    second = asyncio.create_task(service.push(items, is_queued=True))
    await wait_until_async(lambda: service.depth == 1, timeout_s=30, what="the second to wait")
    # It arrived between the start and now.
    assert service.oldest_ms(started + 5_000) <= 5_000
    assert service.oldest_ms(now_ms() + 5_000) >= 5_000
    with pytest.raises(
        Overloaded, match="1 pushes are already waiting, and push_waiting_max is 1;"
    ) as caught:
        await service.push(items)
    assert (caught.value.depth, caught.value.retry_after_s) == (1, 1)
    store.may_answer.set()
    await asyncio.gather(first, second)
    assert (service.depth, service.oldest_ms(now_ms())) == (0, 0)
    assert store.stored == ['"a"', '"a"']


class KeyedStore(ScriptedStore):
    """A database that knows idempotency keys, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[UUID, KnownPush] = {}
        self.calls = 0
        self.is_full = False
        self.look_up_error: Exception | None = None

    async def push_messages(self, call: PushCall, **_: Any) -> Pushed:
        self.calls += 1
        if self.is_full:
            raise OperationQueueFull("full", partition_ids=[], depth=1, bound="one")
        keys = [one for one in call.request_keys or () if one is not None]
        origins: dict[UUID, UUID | None] = {}
        for one in keys:
            is_part = one.origin is not None and origins.get(one.key) == one.origin
            is_copy = one.key in origins and not is_part
            if is_copy or one.key in self.known:
                raise KeyKnown("used before")
            origins[one.key] = one.origin
        self.stored += call.items.payloads
        pushed = Pushed(
            [f"id {self.calls}"] * len(call.refs), [ItemOutcome.STORED] * len(call.refs), None
        )
        for one in keys:
            answer = (pushed.ids[:1], pushed.outcomes[:1], None)
            self.known[one.key] = KnownPush(one.key, one.digest, one.origin, *answer)
        return pushed

    async def find_push_keys(self, keys: Sequence[UUID]) -> list[KnownPush]:
        if self.look_up_error is not None:
            raise self.look_up_error
        return [self.known[key] for key in keys if key in self.known]


def send_one(
    service: PushService, payload: str, key: RequestKey | None = None
) -> asyncio.Future[PushOutcome]:
    ref = make_ref("a")
    items = PushItems(keys=[ref.key], payloads=[f'"{payload}"'], request_key=key)
    return service.send(items, [ref], is_queued=False)


async def test_copies_in_one_call_leave_the_other_requests_together(spool: PushSpool) -> None:
    store = KeyedStore()
    service = make_service(cast(Any, store), spool)
    key = RequestKey(UUID(int=1), UUID(int=2))
    sent = [send_one(service, "0"), *(send_one(service, "keyed", key) for _ in range(3))]
    sent += [send_one(service, str(n)) for n in range(1, 50)]
    answers = await asyncio.gather(*sent)
    assert sorted(store.stored) == sorted([*(f'"{n}"' for n in range(50)), '"keyed"'])
    assert len({tuple(one.message_ids) for one in answers[1:4]}) == 1
    assert [one.is_repeat for one in answers[1:4]] == [False, True, True]
    # The call, all but the copies, the copies.
    assert store.calls == 3


async def test_parts_of_one_record_are_no_copies() -> None:
    key = RequestKey(UUID(int=1), UUID(int=2), UUID(int=3))
    entries = [make_entry("a") for _ in range(5)]
    for at, one in enumerate([key, None, key, key._replace(origin=UUID(int=4)), key]):
        entries[at].items.request_key = one
    firsts, copies = split_copies(entries)
    assert (firsts, copies) == ([*entries[:3], entries[4]], [entries[3]])


async def test_only_requests_with_a_key_are_in_doubt_when_the_look_up_of_keys_breaks(
    spool: PushSpool,
) -> None:
    """The call was rolled back before the look-up, so the others can be kept on disk."""
    store = KeyedStore()
    service = make_service(cast(Any, store), spool)
    key = RequestKey(UUID(int=1), UUID(int=2))
    await send_one(service, "keyed", key)
    store.look_up_error = StorageUnavailable("gone", public="away", is_in_doubt=True)
    sent = [send_one(service, "keyed", key), send_one(service, "other")]
    errors = await asyncio.gather(*sent, return_exceptions=True)
    found = [(one.public, one.is_in_doubt) for one in cast(list[StorageUnavailable], errors)]
    assert found == [("away", True), ("away", False)]


async def test_a_request_that_was_made_before_needs_no_room(spool: PushSpool) -> None:
    store = KeyedStore()
    service = make_service(cast(Any, store), spool)
    key = RequestKey(UUID(int=1), UUID(int=2))
    first = await send_one(service, "keyed", key)
    store.is_full = True
    new = key._replace(key=UUID(int=9))
    sent = [send_one(service, "keyed", key), send_one(service, "new", new), send_one(service, "-")]
    again, *refused = await asyncio.gather(*sent, return_exceptions=True)
    assert isinstance(again, PushOutcome)
    assert (again.message_ids, again.is_repeat) == (first.message_ids, True)
    assert [type(one) for one in refused] == [OperationQueueFull] * 2
