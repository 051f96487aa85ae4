"""kill -9 under load: what was answered is there, once and in order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from queenmq.storage.embedded.layout import Layout
from queenmq.storage.embedded.postmaster import running_postmaster
from tests.acceptance.load import Wire
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.waiting import wait_until, wait_until_async

pytestmark = pytest.mark.slow

_PRODUCERS = 8
_PARTITIONS = ("shared", "p1", "p2")

StartOwner = Callable[..., BrokerProcess]


class _Producer:
    """Pushes numbers with ids of their own, and knows which were answered."""

    def __init__(self, queue: str, number: int) -> None:
        self.queue, self.number = queue, number
        self.partition = _PARTITIONS[number % len(_PARTITIONS)]
        self.answered: list[int] = []
        self.sent = 0

    async def push(self, wire: Wire, value: int) -> bool:
        """Whether the broker said that it has this value, now or from an earlier try."""
        self.sent = max(self.sent, value + 1)
        name = f"{self.number}-{value}"
        answer = await wire.push(
            self.queue, [self.number, value], partition=self.partition, transaction_id=name
        )
        if answer.status == 503:
            return False
        assert answer.status in (201, 202), answer
        assert answer.body[0]["status"] in ("queued", "duplicate", "buffered"), answer
        self.answered.append(value)
        return True

    async def run_until_cut_off(self, url: str) -> None:
        """Go on until the connection breaks."""
        value = 0
        try:
            async with Wire(url) as wire:
                while True:
                    if await self.push(wire, value):
                        value += 1
        except OSError:
            return

    async def run(self, url: str, enough: asyncio.Event) -> None:
        """Push every number until it is in, whatever the broker says meanwhile."""
        value = 0
        async with Wire(url) as wire:
            while not enough.is_set():
                if await self.push(wire, value):
                    value += 1


async def _all_messages(url: str, queue: str) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in _PARTITIONS}
    async with Wire(url) as wire:

        async def is_drained() -> bool:
            answer = await wire.call("GET", "/api/v1/system/maintenance")
            return bool(answer.body["bufferedMessages"] == 0)

        await wait_until_async(is_drained, timeout_s=2 * SOON_S, what="nothing to be left on disk")
        while messages := await wire.pop(queue, batch=1000, autoAck=True, consumerGroup="audit"):
            for message in messages:
                found[message["partition"]].append(tuple(message["data"]))
    return found


def _assert_kept(found: dict[str, list[tuple[int, int]]], producers: list[_Producer]) -> None:
    for producer in producers:
        values = [value for who, value in found[producer.partition] if who == producer.number]
        # In order, once, without a gap; at most the one push without an answer goes beyond.
        assert values == list(range(len(values)))
        assert len(producer.answered) <= len(values) <= producer.sent
    assert sum(map(len, found.values())) <= sum(producer.sent for producer in producers)


async def test_answered_pushes_survive_a_killed_broker(start_owner: StartOwner) -> None:
    queue = unique()
    producers = [_Producer(queue, number) for number in range(_PRODUCERS)]
    broker = start_owner()
    running = [
        asyncio.create_task(producer.run_until_cut_off(broker.url)) for producer in producers
    ]
    await wait_until_async(
        lambda: all(len(producer.answered) >= 100 for producer in producers),
        timeout_s=2 * SOON_S,
        what="some pushes to be answered",
    )
    await asyncio.to_thread(broker.kill)
    await asyncio.gather(*running)
    again = await asyncio.to_thread(start_owner)
    _assert_kept(await _all_messages(again.url, queue), producers)
    assert again.stop() == 0


async def test_answered_pushes_survive_a_killed_postmaster_and_the_broker_recovers(
    start_owner: StartOwner, data_dir: Path
) -> None:
    queue = unique()
    producers = [_Producer(queue, number) for number in range(_PRODUCERS)]
    broker = start_owner()
    enough = asyncio.Event()
    running = [asyncio.create_task(producer.run(broker.url, enough)) for producer in producers]
    for _ in range(2):
        counts = [len(producer.answered) for producer in producers]
        await _wait_for_progress(producers, counts, running)
        # Pushes are answered without one, too; the next one may not be there yet.
        pid = await wait_until_async(
            lambda: running_postmaster(Layout.of(data_dir).pgdata),
            timeout_s=SOON_S,
            what="a postmaster",
        )
        os.kill(pid, signal.SIGKILL)
    counts = [len(producer.answered) for producer in producers]
    await _wait_for_progress(producers, counts, running)
    enough.set()
    await asyncio.gather(*running)
    _assert_kept(await _all_messages(broker.url, queue), producers)
    assert all(producer.answered == list(range(producer.sent)) for producer in producers)
    async with Wire(broker.url) as wire:

        async def is_ready() -> bool:
            return (await wire.call("GET", "/health/ready")).status == 200

        await wait_until_async(is_ready, timeout_s=SOON_S, what="the broker to be ready")
    assert broker.stop() == 0
    assert running_postmaster(Layout.of(data_dir).pgdata) is None


async def _wait_for_progress(
    producers: list[_Producer], before: list[int], running: list[asyncio.Task[None]]
) -> None:
    def has_moved() -> bool:
        for task in running:
            if task.done():
                task.result()
        pairs = zip(producers, before, strict=True)
        return all(len(producer.answered) >= count + 50 for producer, count in pairs)

    await wait_until_async(has_moved, timeout_s=2 * SOON_S, what="every producer to get answers")


async def test_parked_poll_outlives_a_killed_postmaster(
    start_owner: StartOwner, data_dir: Path
) -> None:
    broker, queue = start_owner(), unique()
    async with Wire(broker.url) as poll, Wire(broker.url) as wire:
        assert (await wire.push(queue, "before", partition="p")).status == 201
        poll.send("GET", f"/api/v1/pop/queue/{queue}/partition/other?wait=true&timeout=60000")
        await wire.settle()
        pid = running_postmaster(Layout.of(data_dir).pgdata)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        async def is_pushed() -> bool:
            answer = await wire.push(queue, "after", partition="other", transaction_id="once")
            return answer.status == 201

        await wait_until_async(is_pushed, timeout_s=SOON_S, what="the push to be stored")
        answer = await poll.receive()
        assert answer.status == 200
        assert [message["data"] for message in answer.body["messages"]] == ["after"]


async def test_ack_answered_before_a_kill_is_not_forgotten(start_owner: StartOwner) -> None:
    broker, queue = start_owner(), unique()
    async with Wire(broker.url) as wire:
        for number in range(10):
            assert (await wire.push(queue, number)).status == 201
        messages = await wire.pop(queue, batch=4)
        assert all(result["success"] for result in await wire.ack(messages))
        leased = await wire.pop(queue, batch=3)
    await asyncio.to_thread(broker.kill)
    again = await asyncio.to_thread(start_owner)
    async with Wire(again.url) as wire:
        # The lease outlives the broker that gave it, and its owner may still finish.
        assert await wire.pop(queue) == []
        assert all(result["success"] for result in await wire.ack(leased))
        rest = await wire.pop(queue, batch=10)
    assert [message["data"] for message in rest] == [7, 8, 9]


def test_killed_broker_leaves_no_server_behind(start_owner: StartOwner, data_dir: Path) -> None:
    broker = start_owner()
    pgdata = Layout.of(data_dir).pgdata
    assert running_postmaster(pgdata) is not None
    broker.kill()
    wait_until(
        lambda: running_postmaster(pgdata) is None, timeout_s=SOON_S, what="postgres to stop"
    )
