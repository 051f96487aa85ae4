"""How many messages one connection moves: our client against the official one.

Both run in this process, in turns, against one broker. A push loop sends the next request when it
has the answer to the last; a consume loop pops, calls a handler that only counts, acks, and so on.
Much of the time of such a loop is the broker's, whichever client waits for it; the CPU time of this
process is what the client itself costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import queenmq
from benchmarks.broker import BenchmarkError
from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread

ABOUT = "push and consume loops on one connection, our client against the official one"

_OURS, _OFFICIAL = "ours", "official"
_TARGET = 2.0
_PAYLOAD = {"customer": 4711, "total": 19.9, "lines": ["a", "b", "c"], "note": "x" * 60}
#: Messages of a request, and requests of a turn.
_PUSHES = ((1, 400), (10, 200), (100, 60))
#: Messages of a pop, and messages of a turn.
_POPS = ((1, 300), (10, 2_000), (100, 6_000))

Loop = Callable[[Any, str, int, int], Awaitable[None]]


async def run(context: Context) -> list[Row]:
    rows = []
    async with running_database() as database:
        with context.broker(database) as broker:
            async with _clients(broker.url) as clients:
                for batch, requests in _PUSHES:
                    turns = await _measure(context, clients, _push, batch, requests * batch)
                    rows += _rows("push", batch, turns)
                for batch, messages in _POPS:
                    turns = await _measure(context, clients, _consume, batch, messages)
                    rows += _rows("consume", batch, turns)
    return rows


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
            yield {_OURS: ours, _OFFICIAL: theirs}
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


async def _measure(
    context: Context, clients: dict[str, Any], loop: Loop, batch: int, messages: int
) -> dict[str, list[Turn]]:
    """The turns of each side, round by round; the round before warms everything."""
    turns: dict[str, list[Turn]] = {name: [] for name in clients}
    for number in range(context.rounds + 1):
        for name, client in clients.items():
            queue = f"{loop.__name__}-{batch}-{number}-{name}"
            if loop is _consume:
                await _fill(clients[_OURS], queue, messages)
            begin, cpu = time.perf_counter(), time.process_time()
            await loop(client, queue, batch, messages)
            taken, cpu = time.perf_counter() - begin, time.process_time() - cpu
            if number:
                turns[name].append(Turn(messages / taken, cpu / messages * 1e6))
        context.say(f"{loop.__name__.strip('_')} {batch}: {number} of {context.rounds} rounds")
    return turns


async def _fill(ours: queenmq.Queen, queue: str, messages: int) -> None:
    for start in range(0, messages, 500):
        await ours.push(queue, [{"data": _PAYLOAD}] * min(500, messages - start))


async def _push(client: Any, queue: str, batch: int, messages: int) -> None:
    for _ in range(messages // batch):
        results = await client.queue(queue).push([{"data": _PAYLOAD}] * batch)
        if len(results) != batch or results[-1]["status"] != "queued":
            raise BenchmarkError(f"a push was answered {results[-1]}")


async def _consume(client: Any, queue: str, batch: int, messages: int) -> None:
    seen = 0

    async def count(given: Any) -> None:
        nonlocal seen
        seen += len(given) if isinstance(given, list) else 1

    async with asyncio.timeout(60):
        await client.queue(queue).batch(batch).limit(messages).consume(count)
    if seen != messages:
        raise BenchmarkError(f"{seen} of {messages} messages were consumed")


def _rows(what: str, batch: int, turns: dict[str, list[Turn]]) -> list[Row]:
    shape = f"{batch} a request, one connection, {len(turns[_OURS])} rounds"
    rates = {name: [one.messages_per_s for one in found] for name, found in turns.items()}
    costs = {name: [one.cpu_us_per_message for one in found] for name, found in turns.items()}
    rows = [
        Row(
            what=f"{what}, {name}",
            shape=shape,
            measured=f"{with_spread(rates[name], ' messages/s', digits=0)}, "
            f"{median(costs[name]):,.0f} us of CPU each",
        )
        for name in turns
    ]
    gain = ratios(rates[_OURS], rates[_OFFICIAL])
    saving = ratios(costs[_OFFICIAL], costs[_OURS])
    return [
        *rows,
        _target_row(f"{what}, messages/s, ours against official", shape, gain),
        _target_row(f"{what}, the client's CPU, official against ours", shape, saving),
    ]


def _target_row(what: str, shape: str, found: list[float]) -> Row:
    return Row(
        what=what,
        shape=shape,
        measured=with_spread(found, "x"),
        target=f">= {_TARGET:.0f}x",
        is_reached=median(found) >= _TARGET,
    )
