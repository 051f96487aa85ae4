"""The choice of the partition for a pop, and of the pop for a partition."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.conformance.shorthand import SOON_MS, drain
from tests.support.broker import Api, unique

PLACES = pytest.mark.parametrize("place", ["p", None], ids=["by name", "of the queue"])


def _wait(api: Api, queue: str, **query: Any) -> asyncio.Task[list[Any]]:
    return asyncio.create_task(api.data(queue, wait=True, timeout=SOON_MS, **query))


async def _parked(api: Api, queue: str, **query: Any) -> None:
    """Come back once those who wait there are parked: this pop is looked at after them."""
    for _ in range(3):
        assert await api.pop(queue, **query) == []


@pytest.mark.parametrize("auto_ack", [False, True], ids=["leased", "auto-acked"])
@pytest.mark.parametrize("group", ["", "fresh"], ids=["default group", "named group"])
@PLACES
async def test_the_very_first_pop_of_a_new_queue_delivers(
    api: Api, place: str | None, group: str, auto_ack: bool
) -> None:
    queue = unique()
    await api.push(queue, 1, partition="p")
    query = {"partition": place, "consumerGroup": group, "autoAck": auto_ack}
    assert await api.data(queue, **query) == [1]
    assert await api.data(queue, **query) == []


async def test_a_group_gets_at_once_every_partition_that_another_has_consumed(api: Api) -> None:
    queue, names = unique(), ["p1", "p2", "p3"]
    await api.push_items([{"queue": queue, "partition": p, "payload": p} for p in names])
    assert sorted(await drain(api, queue, consumerGroup="old")) == names
    found = await asyncio.gather(*(api.data(queue, consumerGroup="new") for _ in names))
    assert sorted(data for (data,) in found) == names


@PLACES
async def test_an_old_and_a_new_group_that_wait_for_one_partition_both_get_the_message(
    api: Api, place: str | None
) -> None:
    queue = unique()
    await api.push(queue, "before", partition="p")
    assert await drain(api, queue, consumerGroup="old") == ["before"]
    old = _wait(api, queue, partition=place, consumerGroup="old")
    new = _wait(api, queue, partition=place, consumerGroup="new", subscriptionMode="new")
    await _parked(api, queue, partition=place, consumerGroup="old")
    await _parked(api, queue, partition=place, consumerGroup="new", subscriptionMode="new")
    await api.push(queue, "after", partition="p")
    assert await asyncio.gather(old, new) == [["after"], ["after"]]


@PLACES
async def test_the_pop_that_has_waited_longest_is_served_first(api: Api, place: str | None) -> None:
    queue, waiting = unique(), []
    for _ in range(4):
        waiting.append(_wait(api, queue, partition=place, autoAck=True))
        await _parked(api, queue, partition=place)
    for number, first in enumerate(waiting):
        await api.push(queue, number, partition="p")
        assert await first == [number]
        assert not any(later.done() for later in waiting[number + 1 :])


async def test_of_a_pop_by_name_and_one_of_the_queue_the_one_by_name_is_served(api: Api) -> None:
    queue = unique()
    any_of = _wait(api, queue)
    await _parked(api, queue)
    by_name = _wait(api, queue, partition="p")
    await _parked(api, queue, partition="p")
    await api.push(queue, 1, partition="p")
    assert await by_name == [1]
    assert not any_of.done()
    await api.push(queue, 2, partition="other")
    assert await any_of == [2]


async def test_the_partition_named_on_one_queue_narrows_no_pop_on_another(api: Api) -> None:
    named, whole = unique(), unique()
    by_name = _wait(api, named, partition="p0")
    any_of = _wait(api, whole)
    await _parked(api, named, partition="p0")
    await _parked(api, whole)
    await api.push_items(
        [
            {"queue": named, "partition": "p1", "payload": "not asked for"},
            {"queue": whole, "partition": "p1", "payload": "anything"},
        ]
    )
    assert await any_of == ["anything"]
    assert not by_name.done()
    await api.push(named, "asked for", partition="p0")
    assert await by_name == ["asked for"]


@pytest.mark.parametrize("auto_ack", [False, True], ids=["leased", "auto-acked"])
async def test_a_full_partition_does_not_keep_a_pop_from_one_with_a_single_message(
    api: Api, auto_ack: bool
) -> None:
    queue = unique()
    await api.push(queue, *["hot"] * 2000, partition="hot")
    for turn in range(5):
        await api.push(queue, "cold", partition="cold")
        found = []
        for _ in range(2):
            (message,) = await api.pop(queue, autoAck=auto_ack)
            found.append(message["data"])
            if not auto_ack:
                await api.ack(message)
        assert sorted(found) == ["cold", "hot"], f"round {turn}"


async def test_partitions_with_messages_take_turns(api: Api) -> None:
    queue, names = unique(), [f"p{n}" for n in range(5)]
    await api.push_items([{"queue": queue, "partition": p, "payload": p} for p in names * 4])
    for _ in range(4):
        turn = [await api.data(queue, autoAck=True) for _ in names]
        assert sorted(data for (data,) in turn) == names


async def test_partitions_full_of_old_messages_hide_no_new_one_from_a_group_from_now(
    api: Api,
) -> None:
    queue = unique()
    names = [f"p{n}" for n in range(20)]
    items = [{"queue": queue, "partition": p, "payload": "old"} for p in names for _ in range(50)]
    await api.push_items([*items, {"queue": queue, "partition": "last", "payload": "old"}])
    query = {"consumerGroup": "g", "subscriptionMode": "new"}
    assert await api.pop(queue, **query) == []
    await api.push(queue, "new", partition="last")
    assert await api.data(queue, **query) == ["new"]
    assert await api.data(queue, **query) == []
