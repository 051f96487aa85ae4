"""Mutated requests against a live broker, and what its other clients notice of them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from benchmarks.broker import BenchmarkError, Broker
from benchmarks.client import Connection, check, connections
from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, percentile, ratios, with_spread
from benchmarks.mutator import cut, mutate

ABOUT = "100,000 mutated requests, while other clients push at a steady pace"

_SEQUENCES = 100_000
_SEED = 18
#: Hostile clients at a time, and how many sequences a second they send together.
_HOSTILE = 16
_HOSTILE_PER_S = 1_000
#: What the others send.
_PUSHES_PER_S = 100
_PUSHERS = 4
_P99_TARGET = 2.0
_GROWTH_TARGET_MB = 10
#: A connection that is still open then hangs.
_HANGS_S = 60
_PUSH = b'{"items":[{"queue":"others","payload":1}]}'


async def run(context: Context) -> list[Row]:
    quiet: list[Sequence[float]] = []
    meanwhile: list[Sequence[float]] = []
    chance = random.Random(_SEED)
    each = _SEQUENCES // context.rounds
    async with running_database() as database:
        with context.broker(database) as broker:
            await _attack(broker, chance, each // 10)
            before = broker.usage().broker_rss_bytes
            for number in range(1, context.rounds + 1):
                quiet.append(await _push_until(broker, asyncio.sleep(each / _HOSTILE_PER_S)))
                meanwhile.append(await _push_until(broker, _attack(broker, chance, each)))
                context.say(f"{number} of {context.rounds} rounds")
            grown_mb = (broker.usage().broker_rss_bytes - before) / 1e6
            log = broker.read_log()
    return _rows(context.rounds, quiet, meanwhile, grown_mb, log)


def _rows(
    rounds: int,
    quiet: Sequence[Sequence[float]],
    meanwhile: Sequence[Sequence[float]],
    grown_mb: float,
    log: str,
) -> list[Row]:
    shape = f"{_SEQUENCES:,} sequences, {_HOSTILE} at a time, {rounds} rounds, seed {_SEED}"
    calm, troubled = ([percentile(one, 99) for one in side] for side in (quiet, meanwhile))
    slower = ratios(troubled, calm)
    broken = log.count("Traceback") + log.count("defect")
    return [
        _plain("p99 of other clients' pushes, quiet", shape, calm),
        _plain("p99 of other clients' pushes, meanwhile", shape, troubled),
        Row(
            what="p99 meanwhile / quiet",
            shape=shape,
            measured=with_spread(slower, "x"),
            target=f"<= {_P99_TARGET:g}x",
            is_reached=median(slower) <= _P99_TARGET,
        ),
        Row(
            what="growth of the broker's memory",
            shape=shape,
            measured=f"{grown_mb:.1f} MB",
            target=f"<= {_GROWTH_TARGET_MB} MB",
            is_reached=grown_mb <= _GROWTH_TARGET_MB,
        ),
        Row(
            what="exceptions in the log",
            shape=shape,
            measured=str(broken),
            target="0",
            is_reached=broken == 0,
        ),
    ]


def _plain(what: str, shape: str, values: Sequence[float]) -> Row:
    return Row(what=what, shape=shape, measured=with_spread(values, " ms"))


async def _push_until(broker: Broker, work: Coroutine[Any, Any, None]) -> list[float]:
    """Push at a steady pace while the work is done; milliseconds of each push."""
    task = asyncio.create_task(work)
    took: list[float] = []
    async with connections(broker.address, _PUSHERS) as opened:
        await asyncio.gather(*(_push_steadily(one, task, took) for one in opened))
    await task
    return took


async def _push_steadily(
    connection: Connection, until: asyncio.Task[None], took: list[float]
) -> None:
    due = time.perf_counter()
    while not until.done():
        due += _PUSHERS / _PUSHES_PER_S
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        began = time.perf_counter()
        check(await connection.post("/api/v1/push", _PUSH), 201)
        took.append((time.perf_counter() - began) * 1e3)


async def _attack(broker: Broker, chance: random.Random, count: int) -> None:
    """Send so many sequences, each on a connection of its own. Raise if one is left hanging."""
    began = time.perf_counter()
    sent = 0

    async def send_on() -> None:
        nonlocal sent
        while sent < count:
            sent += 1
            due = began + sent / _HOSTILE_PER_S
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await _send(broker, chance)

    await asyncio.gather(*(send_on() for _ in range(_HOSTILE)))


async def _send(broker: Broker, chance: random.Random) -> None:
    data = mutate(chance)
    is_patient = chance.random() < 0.3
    try:
        async with asyncio.timeout(_HANGS_S):
            reader, writer = await asyncio.open_connection(*broker.address)
            with contextlib.suppress(OSError):
                for piece in cut(chance, data):
                    writer.write(piece)
                    await writer.drain()
                if is_patient:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1), timeout=0.05)
                writer.write_eof()
                await reader.read()
            writer.close()
    except TimeoutError:
        raise BenchmarkError(f"the broker left a connection hanging after {data!r}") from None
