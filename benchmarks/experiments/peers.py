"""Other queues and ours through their Python clients, each on a server of its own.

16 producers and 16 consumers in one process. Rates are limited by the Python client where that is
slower than the server; the CPU time of all server processes per message is what a server costs.
What is measured of a peer comes in one piece, because its server runs only for that time.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType

from benchmarks.broker import BenchmarkError, cpu_s_of
from benchmarks.experiment import Context, Row
from benchmarks.figures import percentile
from benchmarks.peers.peer import Missing, Peer

ABOUT = "16 producers and 16 consumers in one Python process, ours and other queues"

_PEERS = (
    "ours", "pgmq", "pgqueuer_jobs", "procrastinate_jobs", "redis_streams", "rabbitmq",
    "nats_jetstream",
)  # fmt: skip
_LANES = 16
_BATCHES = (1, 10, 100)
_SECONDS = 2.0
#: Messages a second at which latency is measured, and for how long.
_RATE, _RATE_SECONDS = 200, 3.0
#: How long a consumer that finds nothing pauses; those that can wait for messages do that.
_POLL_S = 0.1
_DRAIN_SECONDS = 10.0
_PAD = "a message of about a hundred bytes, the size of an order or a chat line"

Worker = Callable[[int], Awaitable[int]]


async def run(context: Context) -> list[Row]:
    rows: list[Row] = []
    for name in _PEERS:
        first = len(rows)
        module = importlib.import_module(f"benchmarks.peers.{name}")
        with tempfile.TemporaryDirectory(prefix="queen-peer-", ignore_cleanup_errors=True) as home:
            try:
                rows += await _measure(context, module, Path(home))
            except Missing as missing:
                rows.append(Row(what=module.NAME, shape="skipped", measured=str(missing)))
            except Exception as error:
                # One peer that fails does not take the others with it.
                text = f"INVALID: {type(error).__name__}: {error}"
                rows.append(Row(what=module.NAME, shape="failed", measured=text))
        for row in rows[first:]:
            context.say(f"{row.what}: {row.shape}: {row.measured}")
    return rows


async def _measure(context: Context, module: ModuleType, home: Path) -> list[Row]:
    # Producers have lanes of their own, then consumers.
    async with module.open_peer(home, 2 * _LANES) as peer:
        rows = [Row(what=module.NAME, shape="what it promises", measured=module.PROMISES)]
        # Connections, plans and the queue itself are made before anything is measured.
        await _timed(peer, {"push": _producer(peer, 10), "pop": _consumer(peer, 10)})
        await _drain(peer)
        for batch in _BATCHES:
            pushed = await _timed(peer, {"push": _producer(peer, batch)})
            rows.append(_row(module, f"push {batch}", pushed))
            # Nothing is left by slower peers, and faster ones do not run dry.
            await _fill(peer, batch)
            popped = await _timed(peer, {"pop": _consumer(peer, batch)})
            rows.append(_row(module, f"pop + ack {batch}", popped))
            await _drain(peer)
        both = await _timed(peer, {"push": _producer(peer, 10), "pop": _consumer(peer, 10)})
        rows.append(_row(module, "both at once, 10", both))
        await _drain(peer)
        rows.append(await _latency_row(module, peer))
        return rows


class Timed(dict[str, float]):
    """Messages a second by kind of worker, and CPU microseconds of the server per message."""

    cpu_us: float = 0.0


async def _timed(peer: Peer, kinds: dict[str, Worker]) -> Timed:
    counts = dict.fromkeys(kinds, 0)
    end = time.perf_counter() + _SECONDS

    async def work(kind: str, lane: int) -> None:
        while time.perf_counter() < end:
            # In two steps: `+=` with the await would add to a count from before the wait.
            done = await kinds[kind](lane)
            counts[kind] += done

    cpu_before, began = cpu_s_of(peer.server_pid), time.perf_counter()
    await asyncio.gather(*(work(kind, lane) for kind in kinds for lane in range(_LANES)))
    took = time.perf_counter() - began
    cpu_s = cpu_s_of(peer.server_pid) - cpu_before
    timed = Timed({kind: count / took for kind, count in counts.items()})
    # A message that is pushed and popped at the same time is one message.
    timed.cpu_us = cpu_s / max(1, max(counts.values())) * 1e6
    return timed


def _body() -> str:
    return json.dumps({"at": time.perf_counter(), "text": _PAD})


def _producer(peer: Peer, batch: int) -> Worker:
    async def push(lane: int) -> int:
        await peer.push(lane, [_body() for _ in range(batch)])
        return batch

    return push


def _consumer(peer: Peer, batch: int) -> Worker:
    async def pop(lane: int) -> int:
        received = await peer.receive(_LANES + lane, batch)
        if not received:
            await asyncio.sleep(_POLL_S)
            return 0
        await peer.ack(_LANES + lane, received)
        return len(received)

    return pop


async def _fill(peer: Peer, batch: int) -> None:
    """Push what the consumers could want at most, beside what the producers have left."""
    requests = {1: 4, 10: 20, 100: 60}[batch]
    for _ in range(requests):
        bodies = [_body() for _ in range(100)]
        await asyncio.gather(*(peer.push(lane, bodies) for lane in range(_LANES)))


async def _drain(peer: Peer) -> None:
    """Take what is left. A peer that needs too long for that goes on with a backlog."""
    pop = _consumer(peer, 100)
    end = time.perf_counter() + _DRAIN_SECONDS
    while time.perf_counter() < end:
        if not sum(await asyncio.gather(*(pop(lane) for lane in range(_LANES)))):
            return


async def _latency_row(module: ModuleType, peer: Peer) -> Row:
    """One producer at a steady rate, one consumer; milliseconds from push to receive."""
    delays: list[float] = []
    count = int(_RATE * _RATE_SECONDS)

    async def consume() -> None:
        while len(delays) < count:
            received = await peer.receive(_LANES, 10)
            now = time.perf_counter()
            for one in received:
                body = json.loads(one.body) if isinstance(one.body, str) else one.body
                delays.append((now - body["at"]) * 1e3)
            if received:
                await peer.ack(_LANES, received)
            else:
                await asyncio.sleep(_POLL_S)

    await _drain(peer)
    consumer = asyncio.create_task(consume())
    began = time.perf_counter()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / _RATE - time.perf_counter()))
        await peer.push(0, [_body()])
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(consumer, 10)
    if not delays:
        raise BenchmarkError("nothing was received")
    measured = f"p50 {percentile(delays, 50):.1f} ms, p99 {percentile(delays, 99):.1f} ms"
    return Row(what=module.NAME, shape=f"{_RATE}/s, push to receive", measured=measured)


def _row(module: ModuleType, shape: str, timed: Timed) -> Row:
    rates = ", ".join(f"{rate:,.0f}/s" for rate in timed.values())
    return Row(what=module.NAME, shape=shape, measured=f"{rates} ({timed.cpu_us:,.0f} us)")
