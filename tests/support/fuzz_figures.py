"""Measure the cost of hostile requests for other clients: p99 with and without, memory, 5xx.

`python -m tests.support.fuzz_figures --count 100000 --seed 1`. Rounds alternate between quiet and
fuzzed, so that both see the same machine. `--rate 0` fuzzes as fast as it goes; then the broker is
busy all the time, and the ratio tells of that as well.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx
import psutil

from tests.support.api_fuzz import ApiFuzz, Report, fuzz
from tests.support.broker import BrokerProcess
from tests.support.steady_client import Sample, running_client

_TARGET = 2.0
#: Pairs of a push and a pop of the steady client.
_PAIRS_PER_S = 40.0
_WARM_UP = 2_000
#: They stop pushes or pops for everybody, which is what they are for. The warm-up has them.
_SWITCHES = ("/api/v1/system/maintenance",)


class Round(NamedTuple):
    """When it was quiet, when not, and how the machine was then."""

    quiet: tuple[float, float]
    fuzzed: tuple[float, float]
    load: float
    memory_mb: float


async def _measure(broker: BrokerProcess, asked: argparse.Namespace) -> None:
    warm = await fuzz(broker.url, count=min(asked.count, _WARM_UP), seed=asked.seed + 1)
    async with httpx.AsyncClient(base_url=broker.url, timeout=60) as http:
        document = (await http.get("/openapi.json")).json()
    attack = ApiFuzz(broker.url, document, asked.seed, without=_SWITCHES)
    before_mb = _memory_mb(broker.pid)
    rounds = []
    with running_client(broker.url, per_s=_PAIRS_PER_S) as client:
        for number in range(1, asked.rounds + 1):
            rounds.append(await _run_round(broker, attack, asked))
            last = rounds[-1]
            print(
                f"round {number} of {asked.rounds}: load average {last.load:.1f},"
                f" broker {last.memory_mb:.0f} MB",
                flush=True,
            )
    _print(rounds, client.samples, attack.report)
    print(f"memory of the broker: {before_mb:.0f} MB before, {rounds[-1].memory_mb:.0f} MB after")
    for failure in (*warm.failures, *attack.report.failures)[:20]:
        print(failure)


async def _run_round(broker: BrokerProcess, attack: ApiFuzz, asked: argparse.Namespace) -> Round:
    began = time.monotonic()
    await asyncio.sleep(asked.quiet)
    turned = time.monotonic()
    await attack.run(asked.count // asked.rounds, per_s=asked.rate or float("inf"))
    ended = time.monotonic()
    load, memory_mb = os.getloadavg()[0], _memory_mb(broker.pid)
    return Round((began, turned), (turned, ended), load, memory_mb)


def _memory_mb(pid: int) -> float:
    family = [psutil.Process(pid), *psutil.Process(pid).children()]
    return sum(one.memory_info().rss for one in family if "python" in one.name()) / 1e6


def _print(rounds: Sequence[Round], samples: Sequence[Sample], report: Report) -> None:
    took_s = sum(one.fuzzed[1] - one.fuzzed[0] for one in rounds)
    bad = sum(count for status, count in report.statuses.items() if status >= 500)
    print(f"{report.count} requests in {took_s:.0f} s: {dict(sorted(report.statuses.items()))}")
    print(
        f"5xx: {bad}, of which failures: {len(report.failures)}; hung up on: {report.hung_up}"
        " (501 and 505 are right for broken framing, and so is hanging up)"
    )
    odd = Counter((one.kind, one.status) for one in samples if not one.is_served)
    print(f"steady client: {len(samples)} requests, not served as ever: {dict(odd)}")
    for kind in ("push", "pop"):
        mine = [one for one in samples if one.kind == kind]
        pairs = [(_p99_ms(mine, one.quiet), _p99_ms(mine, one.fuzzed)) for one in rounds]
        quiet, fuzzed = median(one for one, _ in pairs), median(one for _, one in pairs)
        ratios = sorted(one / other for other, one in pairs)
        print(
            f"p99 of its {kind}: quiet {quiet:.1f} ms, fuzzed {fuzzed:.1f} ms; ratio by round"
            f" {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}), target {_TARGET:g}"
        )


def _p99_ms(samples: Sequence[Sample], span: tuple[float, float]) -> float:
    took = sorted(one.took_ms for one in samples if span[0] <= one.began_s < span[1])
    return took[int(len(took) * 0.99)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--rate", type=float, default=200.0, help="requests a second; 0: all it can"
    )
    parser.add_argument("--quiet", type=float, default=30.0, help="seconds without, per round")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        # Errors alone: its log is read at the end, and a pipe that is full would stop the broker.
        broker = BrokerProcess(["--log-level", "error", "--data-dir", str(Path(home) / "data")])
        try:
            asyncio.run(_measure(broker, asked))
        finally:
            broker.stop()
    print(f"errors in the broker's log: {len(broker.log)}", *broker.log[:10], sep="\n")


if __name__ == "__main__":
    main()
