"""Consumers and producers through a bad network, a restarted broker and a crash of their own.

Nothing is lost, partitions stay in order, and everything goes on by itself. A message may come
again after its lease was lost with an answer; it then comes in its place.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from queenmq import Message, Queen
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.faulty_proxy import faulty_proxy
from tests.support.waiting import wait_until_async

PARTITIONS, COUNT = 4, 40
FAST: dict[str, Any] = {"retry_delay_millis": 10, "max_retry_delay": 0.2, "retry_attempts": 20}

CRASHING = """
import asyncio, os, signal, sys
from queenmq import Queen

async def main(url, queue):
    async def handle(message):
        print(message.data, flush=True)
        if message.data == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    async with Queen(url) as queen:
        await queen.consume(queue, handle, batch=3, each=True)

asyncio.run(main(*sys.argv[1:]))
"""


class Log:
    """What was handled, by partition."""

    def __init__(self) -> None:
        self.seen: dict[str, list[int]] = {}

    async def handle(self, messages: list[Message[int]]) -> None:
        for message in messages:
            self.seen.setdefault(message.partition, []).append(message.data)

    @property
    def distinct(self) -> int:
        return sum(len(set(numbers)) for numbers in self.seen.values())

    def assert_in_order(self) -> None:
        """First deliveries are in order, and whatever came again came from its place on."""
        assert len(self.seen) == PARTITIONS
        for numbers in self.seen.values():
            assert list(dict.fromkeys(numbers)) == list(range(COUNT))
            for before, after in itertools.pairwise(numbers):
                assert after <= before + 1, numbers


async def produce(queen: Queen, queue: str) -> None:
    for number in range(COUNT):
        pushes = (queen.push(queue, number, partition=f"p{p}") for p in range(PARTITIONS))
        await asyncio.gather(*pushes)


async def settled(queen: Queen, queue: str) -> bool:
    """Whether nothing is left, also no lease that would bring something back."""
    found = await queen.pop(queue, group="g", batch=1000, partitions=50)
    return not found


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_nothing_is_lost_over_a_network_that_cuts_and_delays(
    broker: BrokerProcess, seed: int
) -> None:
    queue, log = unique(), Log()
    async with faulty_proxy(broker.url, seed=seed) as proxy, Queen(proxy.url, **FAST) as queen:
        await queen.create_queue(queue, lease_time=1, retry_limit=1000)
        proxy.fault_rate = 0.15
        consumer = queen.consume(
            queue, log.handle, group="g", batch=5, partitions=2, concurrency=3, timeout_ms=500
        )
        async with consumer:
            await produce(queen, queue)
            await wait_until_async(
                lambda: log.distinct == PARTITIONS * COUNT, timeout_s=SOON_S, what="all messages"
            )
            proxy.fault_rate = 0.0
        assert proxy.faults > 20
        log.assert_in_order()


async def test_a_loop_goes_on_over_cut_connections(broker: BrokerProcess) -> None:
    """With `async for` and one message in hand while every connection ends."""
    queue, seen = unique(), []
    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url, **FAST) as queen:
        await queen.create_queue(queue, lease_time=1)
        await queen.push(queue, list(range(20)))
        async with queen.consume(queue, batch=3, idle_ms=3_000) as messages:
            async for message in messages:
                if not seen or message.data != seen[-1]:
                    proxy.cut_all()
                seen.append(message.data)
                if message.data == 19:
                    await message_settled(queen, message)
                    break
    assert list(dict.fromkeys(seen)) == list(range(20))
    assert all(after <= before + 1 for before, after in itertools.pairwise(seen))


async def message_settled(queen: Queen, message: Message[int]) -> None:
    assert (await queen.ack(message))["success"]


async def test_messages_are_handled_in_order_while_acks_of_others_are_lost(
    broker: BrokerProcess,
) -> None:
    """Pops run beside the acks of the batch before; a lost ack holds up nothing but its own."""
    queue, log = unique(), Log()
    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url, **FAST) as queen:
        await queen.create_queue(queue, lease_time=1, retry_limit=1000)
        async with Queen(broker.url) as direct:
            await produce(direct, queue)

        async def handle(messages: list[Message[int]]) -> None:
            await log.handle(messages)
            if len(log.seen) % 3 == 0:
                proxy.lose_answers += 1

        async with queen.consume(queue, handle, group="g", batch=2, timeout_ms=500):
            await wait_until_async(
                lambda: log.distinct == PARTITIONS * COUNT, timeout_s=SOON_S, what="all messages"
            )
        log.assert_in_order()


async def test_a_consumer_outlives_an_outage_of_the_network(broker: BrokerProcess) -> None:
    queue, log = unique(), Log()
    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url, **FAST) as queen:
        await queen.create_queue(queue, lease_time=1)
        async with queen.consume(queue, log.handle, group="g", batch=5, concurrency=2):
            await produce(queen, queue)
            await proxy.refuse()
            async with Queen(broker.url) as direct:
                for partition in range(PARTITIONS):
                    await direct.push(queue, COUNT, partition=f"p{partition}")
            await proxy.listen()
            await wait_until_async(
                lambda: log.distinct == PARTITIONS * (COUNT + 1),
                timeout_s=SOON_S,
                what="what was pushed meanwhile",
            )


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_a_consumer_outlives_a_restart_of_the_broker(
    start_owner: Callable[..., BrokerProcess], how: str
) -> None:
    broker, queue, log = start_owner(), unique(), Log()
    port = broker.url.rpartition(":")[2]
    slow: dict[str, Any] = {**FAST, "retry_attempts": 200}
    async with Queen(broker.url, **slow) as queen:
        await queen.create_queue(queue, lease_time=2)
        started = asyncio.Event()

        async def handle(messages: list[Message[int]]) -> None:
            started.set()
            await log.handle(messages)

        async with queen.consume(queue, handle, group="g", batch=5, concurrency=2):
            producer = asyncio.create_task(produce(queen, queue))
            await asyncio.wait_for(started.wait(), SOON_S)
            await asyncio.to_thread(broker.stop if how == "stopped" else broker.kill)
            await asyncio.to_thread(start_owner, "--port", port)
            await asyncio.wait_for(producer, SOON_S)
            await wait_until_async(
                lambda: log.distinct == PARTITIONS * COUNT, timeout_s=SOON_S, what="all messages"
            )
        log.assert_in_order()
        assert await settled(queen, queue)


async def test_clients_go_on_at_another_broker_when_theirs_dies(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    brokers, queue, log = [start_broker(), start_broker()], unique(), Log()
    async with Queen([broker.url for broker in brokers], **FAST) as queen:
        await queen.create_queue(queue, lease_time=1)
        started = asyncio.Event()

        async def handle(messages: list[Message[int]]) -> None:
            started.set()
            await log.handle(messages)

        async with queen.consume(queue, handle, group="g", batch=5, concurrency=4):
            producer = asyncio.create_task(produce(queen, queue))
            await asyncio.wait_for(started.wait(), SOON_S)
            await asyncio.to_thread(brokers[0].kill)
            await asyncio.wait_for(producer, SOON_S)
            await wait_until_async(
                lambda: log.distinct == PARTITIONS * COUNT, timeout_s=SOON_S, what="all messages"
            )
        log.assert_in_order()


async def test_a_consumer_that_crashes_gives_way_to_another(broker: BrokerProcess) -> None:
    queue, seen = unique(), []
    async with Queen(broker.url) as queen:
        await queen.create_queue(queue, lease_time=1)
        await queen.push(queue, [0, 1, 2])
        run = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", CRASHING, broker.url, queue],
            capture_output=True,
            text=True,
            timeout=SOON_S,
        )
        assert (run.returncode, run.stdout.split()) == (-9, ["0", "1"]), run.stderr

        async def handle(message: Message[int]) -> None:
            seen.append(message.data)

        async with queen.consume(queue, handle):
            await wait_until_async(
                lambda: seen[-2:] == [1, 2], timeout_s=SOON_S, what="the rest of the batch"
            )
    assert seen == list(range(seen[0], 3))
