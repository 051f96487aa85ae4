"""Measure what authentication costs: push-1 with a token that is checked, and without.

Two brokers share one database and take turns. All requests carry the same header, so that only the
check differs.
"""

from __future__ import annotations

import time

import jwt

from benchmarks import wrk
from benchmarks.broker import BenchmarkError, Broker
from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import ratios, with_spread

ABOUT = "push-1 with a JWT (HS256) that is checked, and without authentication"

_SECRET = "a secret for benchmarks of more than 32 bytes"
_PARTITIONS = 100
_SECONDS = 5
_TARGET = 0.93


async def run(context: Context) -> list[Row]:
    token = jwt.encode(
        {"sub": "bench", "role": "read-write", "exp": int(time.time()) + 86_400}, _SECRET
    )
    async with running_database() as bench:
        guarded = {"QUEEN_AUTH_ENABLED": "true", "QUEEN_JWT_SECRET": _SECRET}
        with context.broker(bench) as free, context.broker(bench, **guarded) as checked:
            sides = {"without": (free, token), "HS256": (checked, token)}
            rates: dict[str, list[float]] = {name: [] for name in sides}
            costs: dict[str, list[float]] = {name: [] for name in sides}
            for number in range(context.rounds + 1):
                for name, (broker, sent) in sides.items():
                    rate, cost = _turn(broker, sent)
                    if number:
                        rates[name].append(rate)
                        costs[name].append(cost)
                context.say(f"{number} of {context.rounds} rounds")
    return _rows(rates, costs)


def _turn(broker: Broker, token: str) -> tuple[float, float]:
    """Messages a second, and microseconds of the broker's processor for each."""
    before = broker.usage().broker_cpu_s
    arguments = [
        "queue=access", f"partitions={_PARTITIONS}", "batch=1", "spread=0", 'payload={"n":1}',
    ]  # fmt: skip
    header = f"Authorization: Bearer {token}"
    seen = wrk.run(broker.url, "push", arguments, seconds=_SECONDS, headers=[header])
    if seen.failed or not seen.messages:
        raise BenchmarkError(f"{seen.failed} of {seen.requests} pushes failed")
    used = broker.usage().broker_cpu_s - before
    return seen.messages_per_s, used / seen.messages * 1e6


def _rows(rates: dict[str, list[float]], costs: dict[str, list[float]]) -> list[Row]:
    shape = f"push-1, 64 connections, {len(rates['HS256'])} rounds"
    rows = [
        Row(what=f"{name}: messages/s", shape=shape, measured=with_spread(found, "", digits=0))
        for name, found in rates.items()
    ]
    rows += [
        Row(
            what=f"{name}: broker CPU for a message",
            shape=shape,
            measured=with_spread(found, " us", digits=1),
        )
        for name, found in costs.items()
    ]
    share = sorted(ratios(rates["HS256"], rates["without"]))
    middle = share[len(share) // 2]
    return [
        *rows,
        Row(
            what="HS256 against without",
            shape=shape,
            measured=with_spread(share, "x", digits=3),
            target=f">= {_TARGET}x",
            is_reached=middle >= _TARGET,
        ),
    ]
