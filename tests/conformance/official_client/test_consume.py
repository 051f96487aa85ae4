"""Consumers of the official client: concurrency, batches, failures, groups and starts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from queen import Queen

from tests.support.broker import SOON_S, unique


class Seen:
    """The messages that handlers got. Stops the consumers when there are enough."""

    def __init__(self, wanted: int) -> None:
        self.data: list[Any] = []
        self.stop = asyncio.Event()
        self._wanted = wanted

    def add(self, *messages: dict[str, Any]) -> None:
        self.data += [message["data"] for message in messages]
        if len(self.data) >= self._wanted:
            self.stop.set()


async def finished(consumer: Any) -> None:
    async with asyncio.timeout(SOON_S):
        await consumer


async def is_empty(client: Queen, queue: str, group: str | None = None) -> bool:
    builder = client.queue(queue).batch(100).wait(False)
    return await (builder.group(group) if group else builder).pop() == []


async def push_numbers(client: Queen, queue: str, count: int) -> None:
    await client.queue(queue).push([{"data": n} for n in range(count)])


async def test_a_consumer_handles_and_acks_one_by_one(client: Queen) -> None:
    queue, seen = unique(), Seen(10)
    await push_numbers(client, queue, 10)

    async def handle(message: dict[str, Any]) -> None:
        seen.add(message)

    await finished(client.queue(queue).limit(10).consume(handle))
    assert seen.data == list(range(10))
    assert await is_empty(client, queue)


async def test_a_consumer_handles_and_acks_batches(client: Queen) -> None:
    queue, seen = unique(), Seen(25)
    await push_numbers(client, queue, 25)

    async def handle(messages: list[dict[str, Any]]) -> None:
        assert len(messages) <= 10
        seen.add(*messages)

    await finished(client.queue(queue).batch(10).limit(25).consume(handle))
    assert seen.data == list(range(25))
    assert await is_empty(client, queue)


async def test_a_consumer_handles_the_messages_of_a_batch_each(client: Queen) -> None:
    queue, seen = unique(), Seen(12)
    await push_numbers(client, queue, 12)

    async def handle(message: dict[str, Any]) -> None:
        seen.add(message)

    await finished(client.queue(queue).batch(5).each().limit(12).consume(handle))
    assert seen.data == list(range(12))
    assert await is_empty(client, queue)


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "polling"])
async def test_ten_consumers_of_one_partition_see_messages_in_order(
    client: Queen, waits: bool
) -> None:
    queue, seen = unique(), Seen(100)
    await push_numbers(client, queue, 100)

    async def handle(message: dict[str, Any]) -> None:
        seen.add(message)

    builder = client.queue(queue).concurrency(10).wait(waits).timeout_millis(300)
    await finished(builder.consume(handle, signal=seen.stop))
    assert seen.data == list(range(100))
    assert await is_empty(client, queue)


async def test_concurrent_consumers_of_many_partitions_see_each_partition_in_order(
    client: Queen,
) -> None:
    queue, seen = unique(), Seen(100)
    for partition in range(5):
        items = [{"data": [partition, n]} for n in range(20)]
        await client.queue(queue).partition(f"p{partition}").push(items)

    async def handle(messages: list[dict[str, Any]]) -> None:
        seen.add(*messages)

    builder = client.queue(queue).concurrency(4).batch(6).partitions(2).timeout_millis(300)
    await finished(builder.consume(handle, signal=seen.stop))
    for partition in range(5):
        assert [n for place, n in seen.data if place == partition] == list(range(20))
    assert await is_empty(client, queue)


async def test_a_waiting_consumer_gets_what_is_pushed_later(client: Queen) -> None:
    queue, seen = unique(), Seen(5)

    async def handle(message: dict[str, Any]) -> None:
        seen.add(message)

    consumer = client.queue(queue).limit(5).consume(handle)
    running = asyncio.create_task(finished(consumer))
    for n in range(5):
        await client.queue(queue).push({"data": n})
    await running
    assert seen.data == list(range(5))


async def test_a_handler_that_raises_gets_the_message_again_and_then_it_dies(
    client: Queen,
) -> None:
    queue, seen = unique(), Seen(4)
    await client.queue(queue).config({"retry_limit": 2}).create()
    await client.queue(queue).push([{"data": "bad"}, {"data": "good"}])

    async def handle(message: dict[str, Any]) -> None:
        seen.add(message)
        if message["data"] == "bad":
            raise RuntimeError("cannot")

    await finished(client.queue(queue).limit(4).consume(handle))
    assert seen.data == ["bad", "bad", "bad", "good"]
    assert await is_empty(client, queue)
    letters = await client.queue(queue).dlq().get()
    assert [letter["data"] for letter in letters["messages"]] == ["bad"]


async def test_a_handler_that_succeeds_on_its_last_attempt_leaves_no_dead_letter(
    client: Queen,
) -> None:
    queue, seen = unique(), Seen(3)
    await client.queue(queue).config({"retry_limit": 3}).create()
    await client.queue(queue).push({"data": 1})

    async def handle(message: dict[str, Any]) -> None:
        seen.add(message)
        if len(seen.data) < 3:
            raise RuntimeError("not yet")

    await finished(client.queue(queue).limit(3).consume(handle))
    assert seen.data == [1, 1, 1]
    assert await is_empty(client, queue)
    assert (await client.queue(queue).dlq().get())["total"] == 0


async def test_a_batch_handler_that_raises_gets_the_whole_batch_again(client: Queen) -> None:
    queue, batches = unique(), []
    await push_numbers(client, queue, 5)

    async def handle(messages: list[dict[str, Any]]) -> None:
        batches.append([message["data"] for message in messages])
        if len(batches) == 1:
            raise RuntimeError("once")

    await finished(client.queue(queue).batch(5).limit(10).consume(handle))
    assert batches == [list(range(5))] * 2
    assert await is_empty(client, queue)


async def test_callbacks_ack_for_themselves(client: Queen) -> None:
    queue, seen = unique(), Seen(3)
    await client.queue(queue).config({"retry_limit": 0}).create()
    await client.queue(queue).push([{"data": "good"}, {"data": "bad"}, {"data": "last"}])

    async def handle(message: dict[str, Any]) -> None:
        seen.add(message)
        if message["data"] == "bad":
            raise RuntimeError("cannot")

    async def succeed(message: dict[str, Any], result: Any) -> None:
        await client.ack(message, True)

    async def fail(message: dict[str, Any], error: Exception) -> None:
        await client.ack(message, False, {"error": str(error)})

    consumer = client.queue(queue).limit(3).consume(handle)
    await finished(consumer.on_success(succeed).on_error(fail))
    assert seen.data == ["good", "bad", "last"]
    (letter,) = (await client.queue(queue).dlq().get())["messages"]
    assert (letter["data"], letter["errorMessage"]) == ("bad", "cannot")
    assert await is_empty(client, queue)


async def test_each_group_consumes_everything(client: Queen) -> None:
    queue = unique()
    await push_numbers(client, queue, 10)

    async def consume(group: str) -> list[Any]:
        seen = Seen(10)

        async def handle(message: dict[str, Any]) -> None:
            seen.add(message)

        await finished(client.queue(queue).group(group).limit(10).consume(handle))
        return seen.data

    found = await asyncio.gather(*(consume(group) for group in ("a", "b", "c")))
    assert found == [list(range(10))] * 3
    for group in ("a", "b", "c"):
        assert await is_empty(client, queue, group)
    assert not await is_empty(client, queue)


@pytest.mark.parametrize("start", ["mode", "now"])
async def test_a_group_that_starts_now_gets_only_what_is_new(client: Queen, start: str) -> None:
    queue, seen = unique(), Seen(3)
    await push_numbers(client, queue, 5)

    def builder() -> Any:
        chosen = client.queue(queue).group("g").batch(10)
        return (
            chosen.subscription_mode("new") if start == "mode" else chosen.subscription_from("now")
        )

    assert await builder().wait(False).pop() == []
    await client.queue(queue).push([{"data": n} for n in (5, 6, 7)])

    async def handle(messages: list[dict[str, Any]]) -> None:
        seen.add(*messages)

    await finished(builder().limit(3).consume(handle))
    assert seen.data == [5, 6, 7]


@pytest.mark.parametrize("mode", [None, "all", "from_beginning"])
async def test_a_group_that_starts_at_the_beginning_gets_everything(
    client: Queen, mode: str | None
) -> None:
    queue = unique()
    await push_numbers(client, queue, 5)
    builder = client.queue(queue).group("g").batch(10).wait(False)
    messages = await (builder.subscription_mode(mode) if mode else builder).pop()
    assert [message["data"] for message in messages] == list(range(5))


async def test_a_consumer_that_renews_keeps_its_lease(client: Queen) -> None:
    queue, seen = unique(), Seen(1)
    await client.queue(queue).config({"lease_time": 1}).create()
    await client.queue(queue).push({"data": 1})

    async def handle(message: dict[str, Any]) -> None:
        # Longer than the lease: another consumer waits for the message in vain.
        found = await client.queue(queue).timeout_millis(1500).wait(True).pop()
        assert found == []
        seen.add(message)

    builder = client.queue(queue).limit(1).renew_lease(True, 300)
    await finished(builder.consume(handle))
    assert seen.data == [1]
    assert await is_empty(client, queue)


async def test_a_consumer_stops_when_it_has_been_idle(client: Queen) -> None:
    queue, seen = unique(), Seen(3)
    await push_numbers(client, queue, 3)

    async def handle(message: dict[str, Any]) -> None:
        seen.add(message)

    builder = client.queue(queue).idle_millis(300).timeout_millis(100)
    await finished(builder.consume(handle))
    assert seen.data == [0, 1, 2]
