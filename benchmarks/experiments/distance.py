"""Measure how many calls in flight serve a database that is not next door.

One broker per setting, all on one database behind one proxy that plays the distance; in every cell
they take turns. The broker that adapts has to find its number by itself, for each cell anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence

from benchmarks import wrk
from benchmarks.broker import BenchmarkError, Broker
from benchmarks.database import BenchDatabase, running_database
from benchmarks.distance import Distance, distant
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios
from benchmarks.preload import preload
from benchmarks.scenario import Scenario

ABOUT = "fixed and adaptive numbers of calls in flight, the database 0, 1 and 5 ms away"

_CLIENTS = (1, 16, 64, 256)
_DISTANCES_MS = (0, 1, 5)
_FIXED = ("2", "4", "8", "16")
_ADAPTIVE = "adaptive"
_SECONDS = 1
#: For the adaptive broker to learn a distance: the shortest of its last five measurements counts,
#: and it makes one a second.
_LEARNING_SECONDS = 7
#: Never more than a tenth below the best fixed setting of a cell.
_NEAR_BEST = 0.9
#: Of the rate without a distance, with 5 ms.
_KEPT = 0.7
#: Messages a second that a pop is stocked for.
_STOCK_RATE = {1: 8_000, 16: 40_000, 64: 60_000, 256: 75_000}

_PUSH = Scenario(name="push 10", about="", script="push", partitions=500, batch=10)
_POP = Scenario(name="pop + ack 10", about="", script="pop_ack", partitions=500, batch=10)

#: Messages a second of each setting, round by round.
Cell = dict[str, list[float]]


async def run(context: Context) -> list[Row]:
    wrk.find()
    rows: list[Row] = []
    async with running_database() as database:
        with distant(database.tcp_url) as distance, contextlib.ExitStack() as stack:
            far = dataclasses.replace(database, url=distance.url)
            brokers = {
                name: stack.enter_context(context.broker(far, **_settings(name)))
                for name in (*_FIXED, _ADAPTIVE)
            }
            for side in (_PUSH, _POP):
                rows += await _measure_side(context, side, brokers, distance, database)
    return rows


def _settings(name: str) -> dict[str, str]:
    """Fixed numbers as an operator sets them; the default adapts."""
    if name == _ADAPTIVE:
        return {}
    variables = ("QUEEN_PUSH_CALLS_MAX", "QUEEN_POP_SLOTS", "QUEEN_ACK_CALLS_MAX")
    return dict.fromkeys(variables, name)


async def _measure_side(
    context: Context,
    side: Scenario,
    brokers: Mapping[str, Broker],
    distance: Distance,
    database: BenchDatabase,
) -> list[Row]:
    rows, local = [], {}
    for clients in _CLIENTS:
        for distance_ms in _DISTANCES_MS:
            await database.settle()
            distance.round_trip_ms = distance_ms
            cell = await _measure_cell(context, side, brokers, distance, clients)
            context.say(f"{side.name}, {clients} clients, {distance_ms} ms: {_told(cell)}")
            if not distance_ms:
                local[clients] = cell[_ADAPTIVE]
            rows += _cell_rows(side, clients, distance_ms, cell, local[clients])
    return rows


async def _measure_cell(
    context: Context,
    side: Scenario,
    brokers: Mapping[str, Broker],
    distance: Distance,
    clients: int,
) -> Cell:
    cell: Cell = {name: [] for name in brokers}
    # The round before the first warms caches and plans, and shows the adaptive one the distance.
    for number in range(context.rounds + 1):
        for name, broker in brokers.items():
            queue = f"{side.script}-{clients}-{distance.round_trip_ms}-{name}-{number}"
            is_learning = name == _ADAPTIVE and not number
            seconds = _LEARNING_SECONDS if is_learning else _SECONDS
            turn = functools.partial(_rate, side, broker, queue, distance, clients, seconds)
            rate = await asyncio.to_thread(turn)
            if number:
                cell[name].append(rate)
    return cell


def _rate(
    side: Scenario, broker: Broker, queue: str, distance: Distance, clients: int, seconds: int
) -> float:
    """Messages a second of one turn."""
    if side is _POP:
        away_ms, distance.round_trip_ms = distance.round_trip_ms, 0
        messages = _STOCK_RATE[clients] * seconds
        preload(broker.address, queue=queue, partitions=side.partitions, messages=messages)
        distance.round_trip_ms = away_ms
    outcome = wrk.run(
        broker.url, side.script, side.arguments(queue), seconds=seconds, connections=clients
    )
    if outcome.failed or outcome.broken:
        raise BenchmarkError(f"{side.name}: answers with errors: {outcome}")
    return outcome.messages_per_s


def _cell_rows(
    side: Scenario, clients: int, distance_ms: int, cell: Cell, local: Sequence[float]
) -> list[Row]:
    shape = f"{clients} clients, {distance_ms} ms"
    best = max(_FIXED, key=lambda name: median(cell[name]))
    kept = median(ratios(cell[_ADAPTIVE], cell[best]))
    rows = [
        Row(
            what=f"{side.name}: adaptive against the best fixed ({best})",
            shape=shape,
            measured=f"{kept:.2f}x; {_told(cell)}",
            target=f">= {_NEAR_BEST}x",
            is_reached=kept >= _NEAR_BEST,
        )
    ]
    if side is _PUSH and distance_ms == max(_DISTANCES_MS):
        share = median(ratios(cell[_ADAPTIVE], local))
        rows.append(
            Row(
                what=f"{side.name}: adaptive against itself without a distance",
                shape=shape,
                measured=f"{share:.2f}x",
                target=f">= {_KEPT}x" if clients > 1 else "",
                is_reached=share >= _KEPT if clients > 1 else None,
            )
        )
    return rows


def _told(cell: Cell) -> str:
    return ", ".join(f"{name}: {median(rates):,.0f}/s" for name, rates in cell.items())
