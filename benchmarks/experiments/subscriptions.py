"""Measure what it costs when consumer groups subscribe to a queue of very many partitions."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.broker import Broker
from benchmarks.client import Connection, check, connections
from benchmarks.database import BenchDatabase, keys_of, queries, running_database
from benchmarks.experiment import Context, Row
from benchmarks.experiments import latency
from benchmarks.figures import percentile

ABOUT = "new groups subscribe at once to 100,000 partitions, beside a queue that is in use"

_QUEUE = "wide"
_PARTITIONS = 100_000
_GROUPS = (20, 200)
#: Pushed once the groups have subscribed: what each of them then gets.
_NEW = 10
#: The neighbour is in use for this long, and alone for the first part of it.
_SECONDS = 6
_ALONE_S = 1
_TARGET_S = 1.0
#: Against the neighbour alone: what one pop of every group at once may do on two cores.
_NEIGHBOUR_TARGET = 3.0


@dataclass(frozen=True)
class Side:
    """One number of groups."""

    groups: int
    #: Until the last group knows that there is nothing for it, and until it has what is new.
    subscribed_s: float
    served_s: float
    #: Of the database's log, by the subscriptions alone.
    bytes: int
    cursors: int
    neighbour: latency.Round


async def run(context: Context) -> list[Row]:
    async with running_database() as database:
        places = await database.make_partitions(keys_of(_QUEUE, _PARTITIONS))
        await database.push(places, each=1)
        await database.settle()
        with context.broker(database) as broker:
            alone = await latency.measure(broker, "alone", _SECONDS)
            context.say("the neighbour was measured alone")
            sides = []
            for groups in _GROUPS:
                sides.append(await _side(database, broker, groups))
                context.say(f"{groups} groups are done")
    return [
        _neighbour_row("alone", alone, alone=None),
        *(row for side in sides for row in _rows(side, alone)),
    ]


async def _side(database: BenchDatabase, broker: Broker, groups: int) -> Side:
    async with connections(broker.address, groups) as clients, database.connection() as session:
        neighbour = asyncio.create_task(latency.measure(broker, f"beside-{groups}", _SECONDS))
        await asyncio.sleep(_ALONE_S)
        (before,) = await session.fetch(queries()["written"])
        subscribed_s = await _pops(clients, groups, status=204)
        (after,) = await session.fetch(queries()["written"])
        items = [{"queue": _QUEUE, "partition": f"p{n}", "payload": n} for n in range(_NEW)]
        check(await clients[0].post("/api/v1/push", json.dumps({"items": items}).encode()), 201)
        served_s = await _pops(clients, groups, status=200)
        (last,) = await session.fetch(queries()["written"])
        return Side(
            groups=groups,
            subscribed_s=subscribed_s,
            served_s=served_s,
            bytes=after["bytes"] - before["bytes"],
            cursors=last["cursors"] - before["cursors"],
            neighbour=await neighbour,
        )


async def _pops(clients: Sequence[Connection], groups: int, *, status: int) -> float:
    """One pop of every group at once; seconds until the last is answered."""
    begin = time.perf_counter()
    paths = (
        f"/api/v1/pop/queue/{_QUEUE}?consumerGroup=g{groups}-{n}&subscriptionMode=new"
        f"&batch=100&partitions=100&autoAck=true"
        for n in range(groups)
    )
    for answer in await asyncio.gather(*map(Connection.get, clients, paths)):
        check(answer, status)
    return time.perf_counter() - begin


def _rows(side: Side, alone: latency.Round) -> list[Row]:
    shape = f"{side.groups} groups, {_PARTITIONS:,} partitions"
    return [
        Row(
            what="first pop of all, with nothing to get",
            shape=shape,
            measured=f"{side.subscribed_s:.2f} s",
            target=f"< {_TARGET_S:.0f} s",
            is_reached=side.subscribed_s < _TARGET_S,
        ),
        Row(what="written by that", shape=shape, measured=f"{side.bytes / 1e6:,.1f} MB of log"),
        Row(
            what=f"next pop of all, with {_NEW} new messages",
            shape=shape,
            measured=f"{side.served_s:.2f} s, {side.cursors:,} cursors made",
        ),
        _neighbour_row(f"beside {side.groups} groups", side.neighbour, alone=alone),
    ]


def _neighbour_row(shape: str, one: latency.Round, *, alone: latency.Round | None) -> Row:
    p50, p99 = (percentile(one.received, percent) for percent in (50, 99))
    times = p99 / percentile(alone.received, 99) if alone else None
    return Row(
        what="push to receive of another queue",
        shape=f"{shape}, {_SECONDS} s",
        measured=f"p50 {p50:.1f} ms, p99 {p99:.1f} ms",
        target=f"p99 <= {_NEIGHBOUR_TARGET:.0f}x" if times else "",
        is_reached=times <= _NEIGHBOUR_TARGET if times else None,
    )
