"""Measure how long a message takes from its producer to a consumer that waits for it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.broker import BenchmarkError, Broker
from benchmarks.client import Connection, check, connections
from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, percentile, with_spread

ABOUT = "push to receive, one producer at 200 pushes a second, one long-polling autoAck consumer"

_RATE = 200
_SECONDS = 5
_WARM_UP_S = 1
#: A push that takes long must not hold up the next one, or the rate would bend to the answers.
_PRODUCER_CONNECTIONS = 8
_P50_TARGET_MS = 5.0
_P99_TARGET_MS = 20.0
#: A message that has not come by then is lost.
_LOST_S = 30


@dataclass(frozen=True)
class Round:
    """Milliseconds of every message."""

    #: From before the push is sent until the consumer has the message.
    received: Sequence[float]
    #: Until the producer has its answer.
    answered: Sequence[float]
    #: By how much the push was sent too late: what the machine does to a process that only sleeps.
    late: Sequence[float]


async def run(context: Context) -> list[Row]:
    rounds = []
    async with running_database() as database:
        with context.broker(database) as broker:
            await measure(broker, "warm", _WARM_UP_S)
            for number in range(1, context.rounds + 1):
                rounds.append(await measure(broker, f"latency-{number}", _SECONDS))
                context.say(f"{number} of {context.rounds} rounds")
    shape = f"{_RATE} pushes/s for {_SECONDS} s, {context.rounds} rounds"
    return [
        _target_row(shape, [one.received for one in rounds], 50, _P50_TARGET_MS),
        _target_row(shape, [one.received for one in rounds], 99, _P99_TARGET_MS),
        _plain_row("push to its answer", shape, [one.answered for one in rounds]),
        _plain_row("the producer's own timer, late by", shape, [one.late for one in rounds]),
    ]


def _target_row(
    shape: str, rounds: Sequence[Sequence[float]], percent: int, target_ms: float
) -> Row:
    reached = [percentile(one, percent) for one in rounds]
    return Row(
        what=f"push to receive, p{percent}",
        shape=shape,
        measured=with_spread(reached, " ms"),
        target=f"< {target_ms:.0f} ms",
        is_reached=median(reached) < target_ms,
    )


def _plain_row(what: str, shape: str, rounds: Sequence[Sequence[float]]) -> Row:
    p50, p99 = (with_spread([percentile(one, at) for one in rounds], " ms") for at in (50, 99))
    return Row(what=what, shape=shape, measured=f"p50 {p50}, p99 {p99}")


async def measure(broker: Broker, queue: str, seconds: int) -> Round:
    """Push to a queue of its own for so long, and wait for everything."""
    count = _RATE * seconds
    async with (
        connections(broker.address, 1) as [consumer],
        connections(broker.address, _PRODUCER_CONNECTIONS) as producers,
    ):
        consuming = asyncio.create_task(_consume(consumer, queue, count))
        producer = Producer(producers, queue)
        await producer.run(count)
        received = await asyncio.wait_for(consuming, timeout=_LOST_S)
    if sorted(received) != list(range(count)):
        raise BenchmarkError("not every message came exactly once")
    return Round(
        received=[(received[number] - producer.sent[number]) * 1e3 for number in range(count)],
        answered=[
            (producer.answered[number] - producer.sent[number]) * 1e3 for number in range(count)
        ],
        late=producer.late,
    )


class Producer:
    """Pushes one message after the other, each at its time and on a connection that is free."""

    def __init__(self, connections: Sequence[Connection], queue: str) -> None:
        self._queue = queue
        self._free = asyncio.Queue[Connection]()
        for connection in connections:
            self._free.put_nowait(connection)
        self.sent: dict[int, float] = {}
        self.answered: dict[int, float] = {}
        self.late: list[float] = []

    async def run(self, count: int) -> None:
        begin = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                due = begin + number / _RATE
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                connection = await self._free.get()
                self.late.append((time.perf_counter() - due) * 1e3)
                group.create_task(self._push(connection, number))

    async def _push(self, connection: Connection, number: int) -> None:
        body = json.dumps({"items": [{"queue": self._queue, "payload": number}]}).encode()
        self.sent[number] = time.perf_counter()
        check(await connection.post("/api/v1/push", body), 201)
        self.answered[number] = time.perf_counter()
        self._free.put_nowait(connection)


async def _consume(consumer: Connection, queue: str, count: int) -> dict[int, float]:
    """When each message arrived, by its payload."""
    path = f"/api/v1/pop/queue/{queue}?batch=10&autoAck=true&wait=true&timeout=30000"
    received: dict[int, float] = {}
    while len(received) < count:
        answer = check(await consumer.get(path), 200)
        at = time.perf_counter()
        received.update((one["data"], at) for one in json.loads(answer.body)["messages"])
    return received
