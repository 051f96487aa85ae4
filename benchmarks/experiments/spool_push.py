"""Measure how fast pushes are accepted while they are kept on disk, against storing them at once.

Maintenance mode is what an outage is for pushes, without one.
"""

from __future__ import annotations

import asyncio
import json

from benchmarks import wrk
from benchmarks.broker import Broker
from benchmarks.client import check, connections
from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread
from benchmarks.scenario import Scenario

ABOUT = "single-message pushes to the spool and to the database"

_SECONDS = 3
_PUSH = Scenario(name="push", about="", script="push", partitions=500)
_SWITCH = "/api/v1/system/maintenance"


async def run(context: Context) -> list[Row]:
    wrk.find()
    stored: list[float] = []
    kept: list[float] = []
    drained: list[float] = []
    async with running_database() as database:
        with context.broker(database) as broker:
            # The first round warms plans and files.
            for number in range(context.rounds + 1):
                stored.append(await _push(broker, f"stored-{number}"))
                await _switch(broker, True)
                kept.append(await _push(broker, f"kept-{number}"))
                await _switch(broker, False)
                drained.append(await _drain(broker))
                context.say(f"{number} of {context.rounds} rounds")
    return _rows(stored[1:], kept[1:], drained[1:])


async def _push(broker: Broker, queue: str) -> float:
    outcome = await asyncio.to_thread(
        wrk.run, broker.url, _PUSH.script, _PUSH.arguments(queue), seconds=_SECONDS
    )
    return outcome.requests_per_s


async def _switch(broker: Broker, is_on: bool) -> None:
    async with connections(broker.address, 1) as (connection,):
        check(await connection.post(_SWITCH, json.dumps({"enabled": is_on}).encode()), 200)


async def _drain(broker: Broker) -> float:
    """Records stored per second, until none is left."""
    loop = asyncio.get_running_loop()
    async with connections(broker.address, 1) as (connection,):

        async def left() -> int:
            answer = check(await connection.get(_SWITCH), 200)
            count: int = json.loads(answer.body)["bufferedMessages"]
            return count

        began, first = loop.time(), await left()
        while await left():
            await asyncio.sleep(0.05)
    return first / (loop.time() - began)


def _rows(stored: list[float], kept: list[float], drained: list[float]) -> list[Row]:
    shape = f"{_SECONDS} s each, {wrk.CONNECTIONS} connections, {len(kept)} rounds"
    against = ratios(kept, stored)
    return [
        Row(what="stored at once", shape=shape, measured=with_spread(stored, "/s", digits=0)),
        Row(what="kept on disk", shape=shape, measured=with_spread(kept, "/s", digits=0)),
        Row(what="drained", shape=shape, measured=with_spread(drained, "/s", digits=0)),
        Row(
            what="kept against stored",
            shape=shape,
            measured=with_spread(against, "x"),
            target=">= 1x",
            is_reached=median(against) >= 1,
        ),
    ]
