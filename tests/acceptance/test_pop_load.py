"""Pops under load: two brokers with hundreds of long polls, and a queue of ten thousand lanes."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from tests.acceptance.load import Wire, wires
from tests.isolation.sessions import configure, ensure
from tests.support.broker import BrokerProcess, unique

pytestmark = pytest.mark.slow

StartBroker = Callable[..., BrokerProcess]

_GROUPS = ("a", "b")
_CONSUMERS = 200
_PARTITIONS = 50
_PRODUCERS = 8
_MESSAGES = 20_000
_PER_PUSH = 25


class _Seen:
    """What each group was given of each partition, in order of delivery."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, str], list[Any]] = defaultdict(list)
        self.count = dict.fromkeys(_GROUPS, 0)

    def note(self, group: str, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            self.of[group, message["partition"]].append(message["data"])
        self.count[group] += len(messages)


async def _consume(wire: Wire, queue: str, number: int, seen: _Seen) -> None:
    group = _GROUPS[number % 2]
    # Every fourth asks by name; together they do not cover all partitions.
    place = f"p{number // 4 % _PARTITIONS}" if number % 4 == 3 else None
    query = {"consumerGroup": group, "batch": 100, "wait": True, "timeout": 1000}
    while seen.count[group] < _MESSAGES:
        messages = await wire.pop(queue, partition=place, **query)
        if messages:
            # Noted before the ack: until then nobody else can be given the next ones.
            seen.note(group, messages)
            results = await wire.ack(messages, group=group)
            assert all(result["success"] for result in results), results


async def _produce(wire: Wire, queue: str, producer: int) -> None:
    for start in range(0, _MESSAGES // _PRODUCERS, _PER_PUSH):
        items = [
            {"queue": queue, "partition": f"p{(7 * n + producer) % _PARTITIONS}",
             "payload": [producer, n]}
            for n in range(start, start + _PER_PUSH)
        ]  # fmt: skip
        assert (await wire.call("POST", "/api/v1/push", {"items": items})).status == 201


async def _stored(session: asyncpg.Connection) -> dict[str, list[Any]]:
    rows = await session.fetch(
        "SELECT p.name, m.payload::text FROM queen.messages m"
        " JOIN queen.partitions p ON p.id = m.partition_id ORDER BY p.name, m.seq"
    )
    stored: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        stored[row["name"]].append(json.loads(row["payload"]))
    return stored


async def test_two_hundred_consumers_at_two_brokers_get_each_message_once_and_in_order(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    urls = [start_broker().url for _ in range(2)]
    queue, seen = unique(), _Seen()
    async with wires(urls * (_CONSUMERS // 2)) as consumers, wires(urls * 4) as producers:
        async with asyncio.TaskGroup() as tasks:
            for number, wire in enumerate(consumers):
                tasks.create_task(_consume(wire, queue, number, seen))
            for producer, wire in enumerate(producers):
                tasks.create_task(_produce(wire, queue, producer))
    stored = await _stored(database)
    assert sum(map(len, stored.values())) == _MESSAGES and len(stored) == _PARTITIONS
    for group in _GROUPS:
        for name, payloads in stored.items():
            # Push order is commit order is the order of delivery; nothing twice, nothing missing.
            assert seen.of[group, name] == payloads, f"{name} of {group}"


_LANES = 10_000
_LANES_PER_POP = 4
_WORKERS = 16


class _Harvest:
    """Many pops at once; knows at every moment what could still be had."""

    def __init__(self, queue: str, total: int) -> None:
        self.queue, self.total = queue, total
        self.seen: list[str] = []
        self.asking = 0

    async def run(self, wire: Wire) -> None:
        while True:
            self.asking += 1
            query = {"batch": _LANES_PER_POP, "partitions": _LANES_PER_POP, "autoAck": True}
            messages = await wire.pop(self.queue, **query)
            self.asking -= 1
            self.seen += [message["data"] for message in messages]
            if not messages:
                # What nobody had yet was on its way to the others who were asking.
                left = self.total - len(self.seen)
                on_the_way = _LANES_PER_POP * self.asking
                assert left <= on_the_way, f"empty answer with {left} messages left"
                return


async def test_one_leased_and_one_locked_of_ten_thousand_partitions_hide_none_of_the_others(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    """Half of the consumers ask a broker that has to find all of it in the database."""
    urls, queue = [start_broker().url for _ in range(2)], unique()
    names = [f"p{number}" for number in range(_LANES)]
    await configure(database, queue, lease_time=86_400)
    await ensure(database, queue, *names)
    await database.execute("ANALYZE queen.partitions")
    async with wires(urls * (_WORKERS // 2)) as connections:
        wire = connections[0]
        items = [{"queue": queue, "partition": name, "payload": name} for name in names]
        assert (await wire.call("POST", "/api/v1/push", {"items": items})).status == 201
        for name in ("p0", "p1"):
            assert await wire.pop(queue, partition=name)
        await database.execute(
            "UPDATE queen.partition_consumers pc SET lease_expires_at = NULL, lease_id = NULL"
            " FROM queen.partitions p WHERE p.id = pc.partition_id AND p.name = 'p1'"
        )
        harvest = _Harvest(queue, _LANES - 2)
        async with database.transaction():
            await database.execute(
                "SELECT FROM queen.partition_consumers pc JOIN queen.partitions p"
                " ON p.id = pc.partition_id WHERE p.name = 'p1' FOR UPDATE OF pc"
            )
            await asyncio.gather(*map(harvest.run, connections))
        assert sorted(harvest.seen) == sorted(names[2:])
