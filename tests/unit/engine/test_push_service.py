"""Joining the items of several pushes into one call, and taking a failed call apart."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from queenmq.engine.catalogue import Catalogue
from queenmq.engine.operation import PartitionKey, PartitionRef, PushItems
from queenmq.engine.push_service import PushEntry, PushService, merge
from queenmq.errors import PartitionBusy, StorageRejected


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
    items, refs = merge([entry])
    assert items is entry.items
    assert refs is entry.refs


async def test_items_of_several_requests_keep_their_order() -> None:
    items, refs = merge([make_entry("b", "a"), make_entry("c"), make_entry("a")])
    assert [key.partition for key in items.keys] == ["b", "a", "c", "a"]
    assert items.payloads == ['"b"', '"a"', '"c"', '"a"']
    assert [ref.key for ref in refs] == items.keys


async def test_a_column_that_nobody_uses_stays_absent() -> None:
    items, _ = merge([make_entry("a"), make_entry("b")])
    assert items.transaction_ids is None
    assert items.trace_ids is None
    assert items.producer_subs is None


async def test_a_column_that_one_request_uses_is_filled_up_for_the_others() -> None:
    trace = UUID(int=7)
    items, _ = merge(
        [
            make_entry("a", "b"),
            make_entry("c", transaction_ids=["t-1"], trace_ids=[trace]),
            make_entry("d", producer_subs=["alice"]),
        ]
    )
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

    async def ensure_partitions(
        self, keys: Sequence[PartitionKey], *, lock_timeout_ms: int
    ) -> list[PartitionRef]:
        return [make_ref(key.partition) for key in keys]

    async def push_messages(
        self, items: PushItems, refs: Sequence[PartitionRef], *, lock_timeout_ms: int
    ) -> tuple[list[str], str]:
        if '"poison"' in items.payloads:
            raise StorageRejected("no such payload")
        if '"held"' in items.payloads and self._is_held:
            self._is_held = False
            raise PartitionBusy("held")
        self.stored += items.payloads
        return ["id"] * len(refs), "q" * len(refs)

    async def find_busy_partitions(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        return {make_ref("held").partition_id} & set(partition_ids)


async def test_what_a_broken_up_call_has_stored_is_not_stored_again() -> None:
    store = cast(Any, ScriptedStore())
    service = PushService(
        store,
        Catalogue(store, lock_timeout_ms=1, wait_ms=1_000),
        calls_max=1,
        rows_max=100,
        waiting_max=100,
        lock_timeout_ms=1,
        wait_ms=1_000,
        on_pushed=lambda refs: None,
    )
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
