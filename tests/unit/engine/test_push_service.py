"""Joining the items of several pushes into one call."""

from __future__ import annotations

import asyncio
from uuid import UUID

from queenmq.engine.operation import PartitionKey, PartitionRef, PushItems
from queenmq.engine.push_service import PushEntry, merge


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
