"""Our client against this broker and an older one: CPU of broker and database per message.

`QUEEN_BENCH_BEFORE` names the `src` directory of the older one, for instance of
`git archive f646031 src | tar -x -C <directory>`, the last commit before completed leases were
acked as such. The client is that of today on both sides; it names messages for a server that knows
no idempotency keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import queenmq
from benchmarks.broker import BenchmarkError, Broker, running_broker
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread

ABOUT = "push, pop and ack, and consume through our client, against an older broker"

_BEFORE = "QUEEN_BENCH_BEFORE"
_CLIENTS = 16
_PAYLOAD = {"customer": 4711, "total": 19.9, "lines": ["a", "b", "c"], "note": "x" * 60}
#: Messages of a round by those of a request.
_MESSAGES = {1: 6_400, 10: 32_000, 100: 64_000}
#: The most that CPU per message may be of what it was.
_TARGETS = {
    ("push", 1): 0.65, ("push", 10): 0.65, ("push", 100): 0.5,
    ("pop and ack", 1): 0.6, ("pop and ack", 10): 0.5, ("pop and ack", 100): 0.5,
    ("consume", 1): 0.6, ("consume", 10): 0.6, ("consume", 100): 0.6,
}  # fmt: skip


@dataclass
class Side:
    """One of the two, and what was measured of it, round by round."""

    broker: Broker
    client: queenmq.Queen
    cpu_us: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    postgres_us: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    per_s: dict[tuple[str, int], list[float]] = field(default_factory=dict)


async def run(context: Context) -> list[Row]:
    source = os.environ.get(_BEFORE)
    if not source:
        raise BenchmarkError(f"set {_BEFORE} to the src directory of the broker to compare with")
    async with contextlib.AsyncExitStack() as stack:

        async def start(settings: Mapping[str, str]) -> Side:
            broker = stack.enter_context(running_broker(workers=context.workers, settings=settings))
            return Side(broker, await stack.enter_async_context(queenmq.Queen(broker.url)))

        before, after = await start({"PYTHONPATH": source}), await start({})
        for number in range(context.rounds + 1):
            sides = (before, after) if number % 2 else (after, before)
            for task in _TARGETS:
                for side in sides:
                    await _measure(side, task, number)
            context.say(f"{number} of {context.rounds} rounds; the first one warms up")
    return [_row(task, context.rounds, before, after) for task in _TARGETS]


async def _measure(side: Side, task: tuple[str, int], number: int) -> None:
    kind, batch = task
    queue, messages = f"{kind}-{batch}-{number}", _MESSAGES[batch]
    if kind != "push":
        await _push(side.client, queue, 100, messages)
    work = {"push": _push, "pop and ack": _pop_and_ack, "consume": _consume}[kind]
    used, begin = side.broker.usage(), time.perf_counter()
    await work(side.client, queue, batch, messages)
    taken, now = time.perf_counter() - begin, side.broker.usage()
    if number:
        side.cpu_us.setdefault(task, []).append((now.cpu_s - used.cpu_s) / messages * 1e6)
        postgres_s = now.postgres_cpu_s - used.postgres_cpu_s
        side.postgres_us.setdefault(task, []).append(postgres_s / messages * 1e6)
        side.per_s.setdefault(task, []).append(messages / taken)


async def _push(client: queenmq.Queen, queue: str, batch: int, messages: int) -> None:
    async def produce(number: int) -> None:
        for _ in range(messages // _CLIENTS // batch):
            await client.push(queue, [_PAYLOAD] * batch, partition=f"p{number}")

    await asyncio.gather(*map(produce, range(_CLIENTS)))


async def _pop_and_ack(client: queenmq.Queen, queue: str, batch: int, messages: int) -> None:
    left = messages

    async def take(_: int) -> None:
        nonlocal left
        while left > 0:
            popped = await client.pop(queue, batch=batch)
            left -= len(popped)
            if popped:
                await client.ack(popped)

    async with asyncio.timeout(120):
        await asyncio.gather(*map(take, range(_CLIENTS)))


async def _consume(client: queenmq.Queen, queue: str, batch: int, messages: int) -> None:
    async def count(given: Any) -> None:
        pass

    async def consume(_: int) -> None:
        await client.queue(queue).batch(batch).limit(messages // _CLIENTS).consume(count)

    async with asyncio.timeout(120):
        await asyncio.gather(*map(consume, range(_CLIENTS)))


def _row(task: tuple[str, int], rounds: int, before: Side, after: Side) -> Row:
    found = ratios(after.cpu_us[task], before.cpu_us[task])
    rates = ratios(after.per_s[task], before.per_s[task])
    then, now = median(before.cpu_us[task]), median(after.cpu_us[task])
    old, new = median(before.postgres_us[task]), median(after.postgres_us[task])
    return Row(
        what=f"{task[0]}, {task[1]} a request: CPU per message",
        shape=f"{_CLIENTS} clients, {_CLIENTS} partitions, {rounds} alternating rounds",
        measured=f"{with_spread(found, 'x')}; {then:,.1f} us before ({old:,.1f} PostgreSQL),"
        f" {now:,.1f} us now ({new:,.1f}); messages/s {median(rates):.2f}x",
        target=f"<= {_TARGETS[task]:g}x",
        is_reached=median(found) <= _TARGETS[task],
    )
