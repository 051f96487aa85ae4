"""The broker against an older one of the same repository: CPU, throughput, latency.

`QUEEN_BENCH_BEFORE` names the `src` directory of the older one, for instance of
`git archive a9f2a95 | tar -x -C <directory>`, the last commit that served with uvicorn.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks import wrk
from benchmarks.broker import BenchmarkError, Broker, running_broker
from benchmarks.client import Connection, check, connections
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, percentile, ratios, with_spread
from benchmarks.pairs import SECONDS, Side

ABOUT = "CPU, throughput and latency per request, against an older broker"

_BEFORE = "QUEEN_BENCH_BEFORE"
#: CPU of the broker per request, by the kind of request.
_CPU_TARGETS = {"live": 0.2, "push-1": 0.7, "pop-1": 0.7, "ack-1": 0.7}
_THROUGHPUT_TARGETS = {"push-1": 1.2, "pop-1": 1.2}
_PUSHERS = 32


@dataclass
class Compared(Side):
    """One of the two, with its latency round by round."""

    p99_ms: list[float] = field(default_factory=list)


async def run(context: Context) -> list[Row]:
    source = os.environ.get(_BEFORE)
    if not source:
        raise BenchmarkError(f"set {_BEFORE} to the src directory of the broker to compare with")
    with contextlib.ExitStack() as stack:

        def start(**settings: str) -> Compared:
            broker = running_broker(workers=context.workers, settings=settings)
            return Compared(stack.enter_context(broker))

        before, after = start(PYTHONPATH=source), start()
        for number in range(context.rounds + 1):
            for side in (before, after):
                for kind in _CPU_TARGETS:
                    side.take_turn(kind, f"{kind}-{number}")
            rate = 0.5 * min(side.per_s["push-1"][-1] for side in (before, after))
            for side in (before, after):
                side.p99_ms.append(await _push_at(side.broker, rate))
            context.say(f"{number} of {context.rounds} rounds; the first one warms up")
    return _rows(context.rounds, before, after)


async def _push_at(broker: Broker, rate: float) -> float:
    """Push at this rate, whatever the answers take; the 99th percentile in milliseconds."""
    count = int(rate * SECONDS)
    took: list[float] = []
    begin = time.perf_counter()
    body = b'{"items":[{"queue":"paced","partition":"p%d","payload":1}]}'

    async def push_every(connection: Connection, first: int) -> None:
        for number in range(first, count, _PUSHERS):
            due = begin + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            check(await connection.post("/api/v1/push", body % (number % 100)), 201)
            # From when it was due: a wait behind a slow answer counts.
            took.append((time.perf_counter() - due) * 1e3)

    async with connections(broker.address, _PUSHERS) as opened:
        await asyncio.gather(*(push_every(one, at) for at, one in enumerate(opened)))
    return percentile(took, 99)


def _rows(rounds: int, before: Compared, after: Compared) -> list[Row]:
    shape = f"{wrk.CONNECTIONS} connections, {SECONDS} s, {rounds} alternating rounds"
    rows = []
    for kind, target in _CPU_TARGETS.items():
        sides = after.cpu_us[kind][1:], before.cpu_us[kind][1:]
        rows.append(_ratio(f"{kind}: CPU per request", shape, *sides, "us", target))
    for kind, target in _THROUGHPUT_TARGETS.items():
        sides = after.per_s[kind][1:], before.per_s[kind][1:]
        rows.append(_ratio(f"{kind}: requests a second", shape, *sides, "/s", -target))
    paced = f"half the rate of the slower one, {_PUSHERS} connections"
    sides = after.p99_ms[1:], before.p99_ms[1:]
    rows.append(_ratio("push-1: p99 at half load", paced, *sides, "ms", 1.0))
    return rows


def _ratio(
    what: str,
    shape: str,
    now: Sequence[float],
    then: Sequence[float],
    unit: str,
    target: float,
) -> Row:
    """Compare the sides; a target below zero is to be passed, any other not to be."""
    found = ratios(now, then)
    is_floor = target < 0
    return Row(
        what=what,
        shape=shape,
        measured=f"{with_spread(found, 'x')}; {median(then):,.1f} {unit} before,"
        f" {median(now):,.1f} {unit} now",
        target=f"{'>=' if is_floor else '<='} {abs(target):g}x",
        is_reached=median(found) >= -target if is_floor else median(found) <= target,
    )
