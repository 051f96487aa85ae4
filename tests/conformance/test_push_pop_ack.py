"""Push, pop and ack as a caller sees them together."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from tests.conformance.shorthand import SOON_MS, ack_of, settle
from tests.support.broker import Api, unique


async def test_a_pushed_message_comes_back_and_passes_with_its_ack(api: Api) -> None:
    queue = unique()
    (pushed,) = await api.push(queue, {"n": 1})
    (message,) = await api.pop(queue)
    assert message["data"] == {"n": 1}
    assert message["id"] == pushed["message_id"]
    (result,) = await api.ack(message)
    assert result["success"] and result["leaseReleased"]
    assert await api.pop(queue) == []


async def test_a_batch_larger_than_one_database_call_goes_through_whole(api: Api) -> None:
    queue, count = unique(), 5000
    answers = await api.push(queue, *range(count))
    assert [answer["index"] for answer in answers] == list(range(count))
    messages = await api.pop(queue, batch=count)
    assert [message["data"] for message in messages] == list(range(count))
    results = await api.ack(*messages)
    assert all(result["success"] and result["leaseReleased"] for result in results)
    assert await api.pop(queue) == []


async def test_the_same_ack_twice_in_one_request_succeeds_twice(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    for status in ("completed", "dlq"):
        (message,) = await api.pop(queue)
        results = await settle(api, ack_of(message, status), ack_of(message, status))
        assert [result["success"] for result in results] == [True, True]
    assert await api.pop(queue) == []
    assert len(await api.dead_letters(queue)) == 1


async def test_contrary_acks_of_one_message_redeliver_it(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    await settle(api, ack_of(message), ack_of(message, "failed"))
    assert await api.data(queue) == [1]


async def test_producers_and_consumers_at_once_lose_repeat_and_reorder_nothing(api: Api) -> None:
    queue, producers, each = unique(), 6, 40
    total = producers * each
    found: dict[str, list[int]] = defaultdict(list)
    is_done = asyncio.Event()

    async def produce(name: str) -> None:
        for n in range(each):
            await api.push(queue, n, partition=name)

    async def consume() -> None:
        while not is_done.is_set():
            query = {"batch": 7, "partitions": 2, "wait": True, "timeout": 300}
            messages = await api.pop(queue, **query)
            for message in messages:
                found[message["partition"]].append(message["data"])
            if messages:
                results = await api.ack(*messages)
                assert all(result["success"] for result in results)
            if sum(map(len, found.values())) >= total:
                is_done.set()

    async with asyncio.timeout(SOON_MS / 1000):
        await asyncio.gather(
            *(produce(f"p{n}") for n in range(producers)), *(consume() for _ in range(4))
        )
    assert dict(found) == {f"p{n}": list(range(each)) for n in range(producers)}
    assert await api.pop(queue) == []
