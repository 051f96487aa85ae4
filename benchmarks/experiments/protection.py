"""Measure what TLS and encrypted queues cost: push-1 and push-10 of a kilobyte, with and without.

Two brokers share one database, one of them with TLS, and the sides take turns. Only ratios of one
round are compared.
"""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

import httpx
import trustme

from benchmarks import wrk
from benchmarks.broker import BenchmarkError, Broker
from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import ratios, with_spread

ABOUT = "push of 1 KB with TLS, with an encrypted queue, and without either"

_PARTITIONS = 100
_SECONDS = 3
_PLAIN = "without"
_BATCHES = (1, 10)


async def run(context: Context) -> list[Row]:
    with tempfile.TemporaryDirectory() as home:
        leaf = trustme.CA().issue_cert("127.0.0.1")
        cert, key = Path(home) / "cert.pem", Path(home) / "key.pem"
        leaf.cert_chain_pems[0].write_to_path(str(cert))
        leaf.private_key_pem.write_to_path(str(key))
        keys = {"QUEEN_ENCRYPTION_KEY": secrets.token_hex(32)}
        tls = {"QUEEN_TLS_CERT": str(cert), "QUEEN_TLS_KEY": str(key)}
        async with running_database() as bench:
            with context.broker(bench, **keys) as free, context.broker(bench, **tls) as secure:
                body = {"queue": "sealed", "options": {"encryptionEnabled": True}}
                httpx.post(f"{free.url}/api/v1/configure", json=body).raise_for_status()
                sides = {
                    _PLAIN: (free, "plain"),
                    "TLS": (secure, "plain"),
                    "encrypted": (free, "sealed"),
                }
                return _measure(context, sides)


def _measure(context: Context, sides: dict[str, tuple[Broker, str]]) -> list[Row]:
    rates: dict[tuple[str, int], list[float]] = {}
    costs: dict[tuple[str, int], list[float]] = {}
    for number in range(context.rounds + 1):
        for batch in _BATCHES:
            for name, (broker, queue) in sides.items():
                rate, cost = _turn(broker, queue, batch)
                if number:
                    rates.setdefault((name, batch), []).append(rate)
                    costs.setdefault((name, batch), []).append(cost)
        context.say(f"{number} of {context.rounds} rounds")
    rows = []
    for (name, batch), found in rates.items():
        if name == _PLAIN:
            continue
        shape = f"push-{batch} of 1 KB, 64 connections, {context.rounds} rounds"
        for what, mine, others in (
            ("messages/s", found, rates[_PLAIN, batch]),
            ("broker CPU for a message", costs[name, batch], costs[_PLAIN, batch]),
        ):
            rows.append(
                Row(
                    what=f"{name} against without: {what}",
                    shape=shape,
                    measured=with_spread(sorted(ratios(mine, others)), "x", digits=2),
                )
            )
    return rows


def _turn(broker: Broker, queue: str, batch: int) -> tuple[float, float]:
    """Messages a second, and microseconds of the broker's processor for each."""
    before = broker.usage().broker_cpu_s
    payload = '{"text":"' + "x" * 1_000 + '"}'
    arguments = [f"queue={queue}", f"partitions={_PARTITIONS}", f"batch={batch}", "spread=0"]
    arguments.append(f"payload={payload}")
    seen = wrk.run(broker.url, "push", arguments, seconds=_SECONDS)
    if seen.failed or not seen.messages:
        raise BenchmarkError(f"{seen.failed} of {seen.requests} pushes failed")
    used = broker.usage().broker_cpu_s - before
    return seen.messages_per_s, used / seen.messages * 1e6
