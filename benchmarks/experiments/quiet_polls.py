"""What thousands of parked long polls cost while nothing happens, each at a place of its own."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence

from benchmarks.broker import BenchmarkError, Broker
from benchmarks.client import Connection, check, connections
from benchmarks.database import BenchDatabase, queries, running_database
from benchmarks.experiment import Context, Row
from queenmq.engine.requests import QUEUE_MODE, PartitionKey
from queenmq.ids import new_lease_id

ABOUT = "5,000 parked long polls on 5,000 partitions, of one queue and of 5,000"

_POLLS = 5_000
#: Re-checks have slowed down to their largest distance after this.
_SETTLED_S = 15.0
_MEASURED_S = 30.0
_TARGET = 0.02
_QUEUE = "quiet"
#: Partitions consumed at a time before the start.
_STEP = 500


async def run(context: Context) -> list[Row]:
    sides = {
        "each a partition of one queue": _partition_of_one_queue,
        "each a queue of its own": _queue_of_its_own,
    }
    rows = []
    for what, place in sides.items():
        async with running_database() as database:
            keys = [place(number) for number in range(_POLLS)]
            await _set_up(database, keys)
            with context.broker(database) as broker:
                rows += await _measure(broker, what, keys)
        context.say(f"{what}: done")
    return rows


def _partition_of_one_queue(number: int) -> PartitionKey:
    return PartitionKey(_QUEUE, f"p{number}")


def _queue_of_its_own(number: int) -> PartitionKey:
    return PartitionKey(f"{_QUEUE}-{number}", "Default")


def _path(key: PartitionKey) -> str:
    where = key.queue if key.queue != _QUEUE else f"{key.queue}/partition/{key.partition}"
    return f"/api/v1/pop/queue/{where}?batch=1&autoAck=true&wait=true&timeout=600000"


async def _set_up(database: BenchDatabase, keys: Sequence[PartitionKey]) -> None:
    partition_ids = await database.make_partitions(keys)
    await database.push(partition_ids, each=1)
    async with database.connection() as connection:
        # What is there has been consumed: cursors exist, as on any queue that is in use.
        for first in range(0, len(partition_ids), _STEP):
            part = partition_ids[first : first + _STEP]
            lease_ids = [new_lease_id(part[0])] * len(part)
            columns = [QUEUE_MODE] * len(part), [len(part)] * len(part), [True] * len(part)
            await connection.fetch(queries()["pop"], [1] * len(part), part, *columns, lease_ids)
    await database.settle()


async def _measure(broker: Broker, what: str, keys: Sequence[PartitionKey]) -> list[Row]:
    async with connections(broker.address, _POLLS) as clients:
        waiting = [
            asyncio.create_task(_wait(client, key))
            for client, key in zip(clients, keys, strict=True)
        ]
        await asyncio.sleep(_SETTLED_S)
        before, begin = broker.usage(), time.perf_counter()
        await asyncio.sleep(_MEASURED_S)
        after, seconds = broker.usage(), time.perf_counter() - begin
        if any(one.done() for one in waiting):
            raise BenchmarkError("a poll that should have been parked was answered")
        await _wake(broker, keys, waiting)
    postgres = (after.postgres_cpu_s - before.postgres_cpu_s) / seconds
    own = (after.broker_cpu_s - before.broker_cpu_s) / seconds
    shape = f"{_POLLS:,} polls, {what}, {seconds:.0f} s"
    return [
        Row(
            what="CPU of PostgreSQL",
            shape=shape,
            measured=f"{100 * postgres:.2f} % of a core",
            target=f"< {_TARGET:.0%}",
            is_reached=postgres < _TARGET,
        ),
        Row(what="CPU of the broker", shape=shape, measured=f"{100 * own:.2f} % of a core"),
    ]


async def _wait(client: Connection, key: PartitionKey) -> None:
    check(await client.get(_path(key)), 200)


async def _wake(
    broker: Broker, keys: Sequence[PartitionKey], waiting: Sequence[asyncio.Task[None]]
) -> None:
    """A message for everybody: all of them must have been waiting until now."""
    async with connections(broker.address, 1) as [producer]:
        for first in range(0, len(keys), 1_000):
            items = [{**key._asdict(), "payload": 1} for key in keys[first : first + 1_000]]
            check(await producer.post("/api/v1/push", json.dumps({"items": items}).encode()), 201)
        await asyncio.wait_for(asyncio.gather(*waiting), timeout=60)
