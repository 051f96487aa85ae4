"""Measure how many messages one loop moves: our client against the official one.

Both run in this process, in turns, against one broker, with the same calls, batch sizes and
promises: a push loop sends the next request when it has the answer to the last; a consume loop of
one worker pops, calls a handler that only counts, acks the batch, and so on, in order.

Most of the time of such a loop is the broker's, whichever client waits for it. So there is a third
side: prepared bytes over a socket, the loop of a client that costs nothing. What it reaches against
the official client is the most that any client could. The CPU time of this process is what a client
itself costs.

Ours and the bare socket have the last acks of a batch bring the next one along, on one connection.
Where batches come from several partitions, ours pops the next one beside the acks of the last, over
a second connection. Neither changes the order, or what is acked when.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import queenmq
from benchmarks.bare_client import BareClient
from benchmarks.broker import BenchmarkError
from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread

ABOUT = "push and consume loops on one connection, our client against the official one"

_OURS, _OFFICIAL, _BARE = "ours", "official", "bare socket"
_TARGET = 2.0
_PAYLOAD = {"customer": 4711, "total": 19.9, "lines": ["a", "b", "c"], "note": "x" * 60}
#: Messages of a request, and requests of a turn.
_PUSHES = ((1, 400), (10, 200), (100, 60))
#: Messages of a pop, messages of a turn, partitions.
_POPS = ((1, 300, 1), (10, 2_000, 1), (100, 6_000, 1), (1, 300, 20), (10, 2_000, 20))


async def run(context: Context) -> list[Row]:
    rows = []
    async with running_database() as database:
        with context.broker(database) as broker:
            async with _clients(broker.url) as clients:
                for batch, requests in _PUSHES:
                    task = Task("push", batch, requests * batch, 1)
                    rows += _rows(task, await _measure(context, clients, task))
                for batch, messages, partitions in _POPS:
                    task = Task("consume", batch, messages, partitions)
                    rows += _rows(task, await _measure(context, clients, task))
    return rows


@dataclass(frozen=True)
class Task:
    """What each side does in its turn."""

    what: str
    batch: int
    messages: int
    partitions: int

    @property
    def shape(self) -> str:
        return f"{self.batch} a request, {self.partitions} partition" + "s" * (self.partitions > 1)


@contextlib.asynccontextmanager
async def _clients(url: str) -> AsyncIterator[dict[str, Any]]:
    """Both clients, open. The official one prints and takes over signals; both is undone."""
    try:
        import queen as official
    except ImportError:
        raise BenchmarkError("the official client is missing; install the extra dev") from None
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    theirs = official.Queen(url)
    try:
        async with queenmq.Queen(url) as ours:
            with contextlib.closing(BareClient(url)) as bare:
                yield {_OURS: ours, _OFFICIAL: theirs, _BARE: bare}
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            await theirs.close()
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class Turn:
    """One side's turn."""

    messages_per_s: float
    cpu_us_per_message: float


async def _measure(context: Context, clients: dict[str, Any], task: Task) -> dict[str, list[Turn]]:
    """The turns of each side, round by round; the round before warms everything."""
    turns: dict[str, list[Turn]] = {name: [] for name in clients}
    loop = _push if task.what == "push" else _consume
    for number in range(context.rounds + 1):
        for name, client in clients.items():
            queue = f"{task.what}-{task.batch}-{task.partitions}-{number}-{name[:4]}"
            if task.what == "consume":
                await _fill(clients[_OURS], queue, task)
            work = _bare(client, queue, task) if name == _BARE else None
            begin, cpu = time.perf_counter(), time.process_time()
            if work is not None:
                work()
            else:
                await loop(client, queue, task)
            taken, cpu = time.perf_counter() - begin, time.process_time() - cpu
            if number:
                turns[name].append(Turn(task.messages / taken, cpu / task.messages * 1e6))
        context.say(f"{task.what}, {task.shape}: {number} of {context.rounds} rounds")
    return turns


async def _fill(ours: queenmq.Queen, queue: str, task: Task) -> None:
    items = [
        {"data": _PAYLOAD, "partition": f"p{number % task.partitions}"}
        for number in range(task.messages)
    ]
    for start in range(0, len(items), 500):
        await ours.push(queue, items[start : start + 500])


def _bare(client: BareClient, queue: str, task: Task) -> Callable[[], None]:
    if task.what == "push":
        return client.push(queue, _PAYLOAD, batch=task.batch, messages=task.messages)
    return client.consume(queue, batch=task.batch, messages=task.messages)


async def _push(client: Any, queue: str, task: Task) -> None:
    for _ in range(task.messages // task.batch):
        results = await client.queue(queue).push([{"data": _PAYLOAD}] * task.batch)
        if len(results) != task.batch or results[-1]["status"] != "queued":
            raise BenchmarkError(f"a push was answered {results[-1]}")


async def _consume(client: Any, queue: str, task: Task) -> None:
    seen = 0

    async def count(given: Any) -> None:
        nonlocal seen
        seen += len(given) if isinstance(given, list) else 1

    async with asyncio.timeout(60):
        await client.queue(queue).batch(task.batch).limit(task.messages).consume(count)
    if seen != task.messages:
        raise BenchmarkError(f"{seen} of {task.messages} messages were consumed")


def _rows(task: Task, turns: dict[str, list[Turn]]) -> list[Row]:
    shape = f"{task.shape}, {len(turns[_OURS])} rounds"
    rates = {name: [one.messages_per_s for one in found] for name, found in turns.items()}
    costs = {name: [one.cpu_us_per_message for one in found] for name, found in turns.items()}
    rows = [
        Row(
            what=f"{task.what}, {name}",
            shape=shape,
            measured=f"{with_spread(rates[name], ' messages/s', digits=0)}, "
            f"{median(costs[name]):,.0f} us of CPU each",
        )
        for name in turns
    ]
    gain = ratios(rates[_OURS], rates[_OFFICIAL])
    most = ratios(rates[_BARE], rates[_OFFICIAL])
    saving = ratios(costs[_OFFICIAL], costs[_OURS])
    return [
        *rows,
        Row(
            what=f"{task.what}, messages/s, bare socket against official",
            shape=shape,
            measured=with_spread(most, "x"),
        ),
        _target_row(f"{task.what}, messages/s, ours against official", shape, gain),
        _target_row(f"{task.what}, the client's CPU, official against ours", shape, saving),
    ]


def _target_row(what: str, shape: str, found: list[float]) -> Row:
    return Row(
        what=what,
        shape=shape,
        measured=with_spread(found, "x"),
        target=f">= {_TARGET:.0f}x",
        is_reached=median(found) >= _TARGET,
    )
