"""Partitions come and go under producers and consumers of two brokers, and none of them notices."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from typing import Any

import asyncpg

from queenmq.storage.schema import lookup_care
from tests.support.broker import SOON_S, Api, running_broker
from tests.support.idle_partitions import remove
from tests.support.retention import retain
from tests.support.waiting import wait_until_async

_QUEUE = "orders.lanes"
_PARTITIONS = [f"lane {number}" for number in range(10)]
_GROUPS = ("first", "second")
#: Partitions that have to go and come back before the test ends.
_REMOVALS = 15
_RULE = {
    "partitionIdleSeconds": 1,
    "retentionEnabled": True,
    "completedRetentionSeconds": 1,
    "leaseTime": 300,
}
Told = dict[str, list[int]]


class _World:
    """What producers were answered and what consumers got."""

    def __init__(self, apis: list[Api]) -> None:
        self.apis = apis
        self.random = random.Random(7)
        self.pushed: Told = defaultdict(list)
        self.got: dict[str, Told] = {group: defaultdict(list) for group in _GROUPS}
        self.removed = 0
        #: Partitions as they were a moment ago.
        self.there: set[str] = set()
        self.filled: set[str] = set()
        self.is_over = False

    async def produce(self, partition: str) -> None:
        """Push bursts to one partition, through either broker, in the ways there are."""
        number = 0
        while self.removed < _REMOVALS:
            for _ in range(self.random.randint(1, 4)):
                number += 1
                item = {"queue": _QUEUE, "partition": partition, "payload": number}
                api = self.random.choice(self.apis)
                if number % 3:
                    (result,) = await api.push_items([item])
                    assert result["status"] == "queued", result
                else:
                    pushes = [{"type": "push", "items": [item]}]
                    assert (await api.transaction(pushes))["success"]
                self.pushed[partition].append(number)
            # The next push comes after the removal, or about when it happens.
            is_gone = bool(self.random.randint(0, 1))
            await wait_until_async(
                lambda gone=is_gone: (
                    self.removed >= _REMOVALS
                    or partition not in (self.there if gone else self.filled)
                ),
                timeout_s=SOON_S,
                what="the partition to go",
            )

    async def consume(self, group: str, api: Api, partition: str | None) -> None:
        """Lease and ack; a pop of one partition by name is parked while that does not exist."""
        while not self.is_over or not self.has_all(group):
            messages = await api.pop(
                _QUEUE,
                partition=partition,
                consumerGroup=group,
                batch=3,
                wait=True,
                timeout=500,
                **({"subscriptionMode": "new"} if group == "second" else {}),
            )
            for message in messages:
                self.got[group][message["partition"]].append(message["data"])
            if messages:
                results = await api.ack(*messages, group=group)
                assert all(result["success"] for result in results), results

    async def take_away(self, session: asyncpg.Connection) -> None:
        """Remove messages and partitions beside the brokers, who do so once a second."""
        while not self.is_over:
            await retain(session, _QUEUE)
            self.removed += (await remove(session, _QUEUE)).removed
            rows = await session.fetch(
                "SELECT p.name, l.last_seq >= l.first_seq AS is_filled FROM queen.partitions p"
                " JOIN queen.partition_lookup l ON l.partition_id = p.id"
            )
            self.there = {row["name"] for row in rows}
            self.filled = {row["name"] for row in rows if row["is_filled"]}

    def has_all(self, group: str) -> bool:
        return sum(map(len, self.got[group].values())) >= sum(map(len, self.pushed.values()))


async def test_nothing_is_lost_doubled_or_out_of_order(database_url: str) -> None:
    often = {"QUEEN_PARTITION_REMOVAL_INTERVAL_S": "1", "QUEEN_RETENTION_INTERVAL_S": "1"}
    session = await asyncpg.connect(database_url)
    with (
        running_broker(database_url=database_url, **often) as one,
        running_broker(database_url=database_url, **often) as other,
    ):
        world = _World([Api(one.url), Api(other.url)])
        try:
            await world.apis[0].configure(_QUEUE, **_RULE)
            for group in _GROUPS:
                start: dict[str, Any] = {} if group == "first" else {"subscriptionMode": "new"}
                await world.apis[0].pop(_QUEUE, consumerGroup=group, **start)
            tasks = [world.take_away(session)]
            tasks += [world.consume("first", api, None) for api in world.apis]
            tasks += [
                world.consume("second", world.apis[at % 2], partition)
                for at, partition in enumerate(_PARTITIONS)
            ]
            running = [asyncio.create_task(task) for task in tasks]
            async with asyncio.timeout(3 * SOON_S):
                await asyncio.gather(*(world.produce(partition) for partition in _PARTITIONS))
                world.is_over = True
                await asyncio.gather(*running)
        finally:
            for api in world.apis:
                await api.close()
    for group in _GROUPS:
        assert world.got[group] == world.pushed, group
    ids = await session.fetchval("SELECT count(*) - count(DISTINCT id) FROM queen.messages")
    await session.close()
    assert ids == 0
    assert [one for one in await lookup_care.check(database_url) if one.total] == []
