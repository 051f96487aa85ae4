"""Batches that come along with the acks of the ones before."""

from __future__ import annotations

import asyncio

import pytest

from queenmq import Message, Queen
from queenmq.client.consume.acks import Acker
from queenmq.client.consume.progress import BatchProgress
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.faulty_proxy import faulty_proxy
from tests.support.scripted_server import Say, scripted
from tests.support.waiting import wait_until_async


@pytest.mark.parametrize("each", [True, False], ids=["each", "together"])
@pytest.mark.parametrize("batch", [1, 4])
async def test_a_partition_is_consumed_with_one_request_a_batch(
    broker: BrokerProcess, queen: Queen, batch: int, each: bool
) -> None:
    queue, seen = unique(), []
    await queen.push(queue, list(range(12)))

    def handle(given: Message[int] | list[Message[int]]) -> None:
        seen.extend(one.data for one in (given if isinstance(given, list) else [given]))

    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url) as client:
        consumer = client.consume(queue, handle, batch=batch, each=each, limit=12, concurrency=1)
        await asyncio.wait_for(consumer, SOON_S)
        acks = [line for line in proxy.lines if line.startswith("POST /api/v1/ack/batch")]
        pops = [line for line in proxy.lines if line.startswith("GET /api/v1/pop")]
    assert seen == list(range(12))
    assert len(pops) == 1
    # One at a time, an ack goes out while the rest of its batch is handled.
    assert 12 // batch <= len(acks) <= (12 if each else 12 // batch)
    assert await queen.pop(queue) == []


async def test_a_limit_is_kept_by_what_comes_along(queen: Queen) -> None:
    queue, seen = unique(), []
    await queen.push(queue, list(range(10)))
    consumer = queen.consume(queue, lambda given: seen.extend(given), batch=3, limit=7)
    await asyncio.wait_for(consumer, SOON_S)
    assert [message.data for message in seen] == list(range(7))
    assert [message.data for message in await queen.pop(queue, batch=10)] == [7, 8, 9]


async def test_when_a_partition_is_dry_the_consumer_waits_for_the_next_message(
    queen: Queen,
) -> None:
    queue, seen = unique(), []
    async with queen.consume(queue, lambda message: seen.append(message.data)):
        for number in range(5):
            await queen.push(queue, number)
            await wait_until_async(
                lambda number=number: seen == list(range(number + 1)),
                timeout_s=SOON_S,
                what=f"message {number}",
            )


async def test_other_partitions_are_not_forgotten_for_a_busy_one(queen: Queen) -> None:
    """One worker, a partition that never runs dry, and messages that come to another one."""
    queue, seen = unique(), []
    await queen.push(queue, ["busy"] * 5, partition="busy")

    async def handle(message: Message[str]) -> None:
        seen.append(message.data)
        await queen.push(queue, "busy", partition="busy")
        if len(seen) == 3:
            await queen.push(queue, "other", partition="other")

    async with queen.consume(queue, handle):
        await wait_until_async(lambda: "other" in seen, timeout_s=SOON_S, what="the other one")


async def test_lost_answers_lose_no_message_and_no_order(broker: BrokerProcess) -> None:
    queue, seen = unique(), []
    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url, retry_delay_millis=10) as queen:
        await queen.create_queue(queue, lease_time=1, retry_limit=1000)
        await queen.push(queue, list(range(12)))

        def handle(message: Message[int]) -> None:
            if message.data % 4 == 1 and message.data not in seen:
                proxy.lose_answers = 1
            seen.append(message.data)

        async with queen.consume(queue, handle, timeout_ms=500):
            await wait_until_async(
                lambda: len(set(seen)) == 12, timeout_s=2 * SOON_S, what="all messages"
            )
    assert list(dict.fromkeys(seen)) == list(range(12))


async def test_a_server_of_another_make_is_asked_once() -> None:
    def popped(number: int) -> Say:
        place = {"partitionId": "p", "leaseId": f"l{number}", "queue": "q"}
        one = {"id": f"i{number}", "transactionId": f"t{number}", "data": number, **place}
        return Say(200, {"messages": [one]})

    one = {"index": 0, "transactionId": "t", "success": True, "leaseReleased": True}
    acked = Say(200, [one])
    script = [popped(1), acked, popped(2), acked, popped(3), acked]
    seen: list[int] = []
    async with scripted(*script) as server, Queen(server.url) as queen:
        consumer = queen.consume("q", lambda message: seen.append(message.data), limit=3)
        await asyncio.wait_for(consumer, SOON_S)
    assert seen == [1, 2, 3]
    asked = ["next" in one.body for one in server.seen if one.method == "POST"]
    assert asked == [True, False, False]


async def test_acks_that_are_ended_before_they_were_sent_keep_nobody_waiting(queen: Queen) -> None:
    """As when the event loop ends all tasks at once."""
    queue = unique()
    await queen.push(queue, 1)
    messages = await queen.pop(queue)
    acker, told = Acker(queen._ack_client, BatchProgress(messages)), []
    before = asyncio.all_tasks()
    acker.add(*messages)
    acker.when_sent(lambda: told.append(True))
    (task,) = asyncio.all_tasks() - before
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(acker.drain(), SOON_S)
    assert told == [True]
    assert (await queen.ack(messages[0]))["leaseReleased"]
