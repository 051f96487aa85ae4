"""Fifty consumers on ten partitions: one live lease per pair, each message once and in order."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.acceptance.load import Wire, wires
from tests.support.broker import BrokerProcess, unique

pytestmark = pytest.mark.slow

_CONSUMERS = 50
_PARTITIONS = [f"p{number}" for number in range(10)]
_COUNT = 200

StartBroker = Callable[..., BrokerProcess]


class _Watch:
    """Who holds which partition right now, and what has been delivered from it."""

    def __init__(self) -> None:
        self.holder: dict[str, str] = {}
        self.seen: dict[str, list[int]] = defaultdict(list)

    @property
    def count(self) -> int:
        return sum(map(len, self.seen.values()))

    def take(self, messages: list[dict[str, object]]) -> None:
        lease, place = str(messages[0]["leaseId"]), str(messages[0]["partitionId"])
        assert place not in self.holder, f"{place} is leased as {self.holder[place]} and {lease}"
        self.holder[place] = lease
        self.seen[place] += [message["data"] for message in messages]  # type: ignore[misc]

    def give_back(self, messages: list[dict[str, object]]) -> None:
        del self.holder[str(messages[0]["partitionId"])]


async def _consume(wire: Wire, queue: str, watch: _Watch, total: int, number: int) -> None:
    while watch.count < total:
        query = {"wait": True, "timeout": 1000} if number % 2 else {"wait": False}
        place = _PARTITIONS[number % 10] if number % 5 == 0 else None
        messages = await wire.pop(queue, partition=place, consumerGroup="g", batch=7, **query)
        if not messages:
            continue
        watch.take(messages)
        # Work for a while: the lease has to outlive another request.
        path = f"/api/v1/lease/{messages[0]['leaseId']}/extend"
        assert (await wire.call("POST", path)).status == 200
        watch.give_back(messages)
        results = await wire.ack(messages, group="g")
        assert all(result["success"] for result in results), results


@pytest.mark.parametrize("brokers", [1, 2])
async def test_no_two_live_leases_on_one_pair_and_each_message_once(
    start_broker: StartBroker, brokers: int
) -> None:
    urls = [start_broker().url for _ in range(brokers)]
    queue, watch = unique(), _Watch()
    total = _COUNT * len(_PARTITIONS)
    async with Wire(urls[0]) as wire:
        for start in range(0, _COUNT, 50):
            items = [
                {"queue": queue, "partition": place, "payload": number}
                for number in range(start, start + 50)
                for place in _PARTITIONS
            ]
            assert (await wire.call("POST", "/api/v1/push", {"items": items})).status == 201
    async with wires(urls * (_CONSUMERS // brokers)) as connections:
        async with asyncio.TaskGroup() as tasks:
            for number, wire in enumerate(connections):
                tasks.create_task(_consume(wire, queue, watch, total, number))
    assert len(watch.seen) == len(_PARTITIONS)
    for numbers in watch.seen.values():
        assert numbers == list(range(_COUNT))
