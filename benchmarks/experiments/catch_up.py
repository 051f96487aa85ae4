"""Whether a consumer that catches up gets slower with the number of partitions that have work."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from benchmarks.broker import BenchmarkError, Broker
from benchmarks.client import Connection, check, connections
from benchmarks.database import BenchDatabase, keys_of, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread

ABOUT = "one consumer, one message in each partition, 100 partitions a pop"

_SIZES = (10_000, 100_000)
_STEP = 100
_TARGET = 1.3
#: Every round is a consumer group of its own, which finds all messages again.
_ROUNDS_MAX = 3


async def run(context: Context) -> list[Row]:
    rounds = min(context.rounds, _ROUNDS_MAX)
    async with running_database() as database:
        for size in _SIZES:
            await _fill(database, size)
            context.say(f"{size:,} partitions are made")
        await database.settle()
        with context.broker(database) as broker:
            async with connections(broker.address, 1) as [client]:
                turns: dict[int, list[Turn]] = {size: [] for size in _SIZES}
                for number in range(1, rounds + 1):
                    for size in _SIZES:
                        turns[size].append(await _catch_up(broker, client, size, f"g{number}"))
                    context.say(f"{number} of {rounds} rounds")
    return _rows(turns)


async def _fill(database: BenchDatabase, size: int) -> None:
    partition_ids = await database.make_partitions(keys_of(_queue(size), size))
    await database.push(partition_ids, each=1)


@dataclass(frozen=True)
class Turn:
    """One catch-up, from the first pop to the last message."""

    #: Messages a second.
    rate: float
    #: CPU of broker and PostgreSQL per message.
    cpu_us: float


async def _catch_up(broker: Broker, client: Connection, size: int, group: str) -> Turn:
    path = (
        f"/api/v1/pop/queue/{_queue(size)}?consumerGroup={group}"
        f"&batch={_STEP}&partitions={_STEP}&autoAck=true&wait=false"
    )
    count = 0
    begin, cpu_s = time.perf_counter(), broker.usage().cpu_s
    while (answer := await client.get(path)).status == 200:
        count += len(json.loads(check(answer, 200).body)["messages"])
    seconds = time.perf_counter() - begin
    if count != size:
        raise BenchmarkError(f"{count:,} of {size:,} messages were delivered")
    return Turn(count / seconds, (broker.usage().cpu_s - cpu_s) / count * 1e6)


def _rows(turns: dict[int, list[Turn]]) -> list[Row]:
    few, many = _SIZES
    slower = ratios([one.rate for one in turns[few]], [one.rate for one in turns[many]])
    dearer = ratios([one.cpu_us for one in turns[many]], [one.cpu_us for one in turns[few]])
    return [
        *(
            Row(
                what="catching up",
                shape=f"{size:,} partitions, {len(turns[size])} rounds",
                measured=with_spread([one.rate for one in turns[size]], " messages/s", digits=0)
                + f", {median([one.cpu_us for one in turns[size]]):,.0f} us CPU a message",
            )
            for size in _SIZES
        ),
        Row(
            what="few partitions against many",
            shape=f"{few:,} and {many:,} partitions",
            measured=with_spread(slower, "x"),
            target=f"<= {_TARGET}x",
            is_reached=median(slower) <= _TARGET,
        ),
        Row(
            what="CPU of many partitions against few",
            shape=f"{many:,} and {few:,} partitions",
            measured=with_spread(dearer, "x"),
        ),
    ]


def _queue(size: int) -> str:
    return f"behind-{size}"
