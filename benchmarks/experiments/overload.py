"""Measure what load management is worth when producers send more than the database can take.

A hundred producers push large requests as fast as they are answered, against a pool of four
connections; once without load management, where everybody waits in line, and once with it, where
what cannot be stored soon is accepted as an operation or refused with a time to come back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from dataclasses import dataclass, field

from benchmarks.broker import Broker
from benchmarks.client import Connection, check, connections
from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import percentile
from benchmarks.scenario import PAYLOAD

ABOUT = "100 producers, 1,000 messages a request, against a pool of 4 connections"

_PRODUCERS = 100
_MESSAGES = 1_000
_SECONDS = 8.0
_POOL = "4"
#: A refused producer comes back after this, or as told.
_PAUSE_S = 0.2
_DRAIN_S = 120.0
_SIDES = {"limits off": "false", "limits on": "true"}


@dataclass
class Tally:
    """What the producers of one side saw."""

    answers: Counter[int] = field(default_factory=Counter)
    took_ms: list[float] = field(default_factory=list)
    drain_s: float = 0.0

    @property
    def accepted(self) -> int:
        return self.answers[201] + self.answers[202]

    @property
    def failed(self) -> int:
        return self.answers.total() - self.accepted - self.answers[429]


async def run(context: Context) -> list[Row]:
    tallies: dict[str, Tally] = {}
    for side, is_enabled in _SIDES.items():
        async with running_database() as database:
            with context.broker(
                database, QUEEN_DB_POOL_SIZE=_POOL, QUEEN_ENABLE_LOAD_MANAGEMENT=is_enabled
            ) as broker:
                tallies[side] = await _measure(broker)
        context.say(f"{side}: {dict(tallies[side].answers)}")
    return [row for side, tally in tallies.items() for row in _rows(side, tally)]


async def _measure(broker: Broker) -> Tally:
    tally = Tally()
    async with connections(broker.address, _PRODUCERS) as opened:
        end = time.perf_counter() + _SECONDS
        await asyncio.gather(
            *(_produce(one, f"p{number}", end, tally) for number, one in enumerate(opened))
        )
        began = time.perf_counter()
        await _drained(opened[0])
        tally.drain_s = time.perf_counter() - began
    return tally


async def _produce(connection: Connection, partition: str, end: float, tally: Tally) -> None:
    item = f'{{"queue":"overload","partition":"{partition}","payload":{PAYLOAD}}}'
    body = ('{"items":[' + ",".join([item] * _MESSAGES) + "]}").encode()
    while time.perf_counter() < end:
        began = time.perf_counter()
        answer = await connection.post("/api/v1/push", body)
        tally.answers[answer.status] += 1
        tally.took_ms.append((time.perf_counter() - began) * 1e3)
        if answer.status not in (201, 202):
            await asyncio.sleep(_PAUSE_S)


async def _drained(connection: Connection) -> None:
    """Wait until nothing is queued any more."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            while True:
                answer = check(await connection.get("/api/v1/operations/stats"), 200)
                if json.loads(answer.body)["depth"] == 0:
                    return
                await asyncio.sleep(0.1)


def _rows(side: str, tally: Tally) -> list[Row]:
    shape = f"{_SECONDS:.0f} s, {tally.answers.total()} requests"
    stored, queued, refused = (tally.answers[status] for status in (201, 202, 429))
    return [
        Row(
            what=f"{side}: requests accepted",
            shape=shape,
            measured=f"{tally.accepted / _SECONDS:,.0f}/s: {stored} stored, {queued} queued;"
            f" {refused} refused, {tally.failed} failed",
        ),
        Row(
            what=f"{side}: time to an answer",
            shape=shape,
            measured=f"p50 {percentile(tally.took_ms, 50):,.0f} ms,"
            f" p99 {percentile(tally.took_ms, 99):,.0f} ms;"
            f" all stored {tally.drain_s:.1f} s after the last",
        ),
    ]
