"""Measure how much of what the database can do a broker delivers.

pgbench makes the same calls as a broker, of the size that its calls have with 64 connections, on as
many sessions as it has calls in flight, with nothing in between: no HTTP, no JSON, no waiting for
clients. Both sides run in turn on one database.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from benchmarks import scenario, wrk
from benchmarks.broker import BenchmarkError, Broker
from benchmarks.database import BenchDatabase, keys_of, queries, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread
from benchmarks.preload import preload
from benchmarks.scenario import HERE, PAYLOAD, Scenario
from queenmq.engine.requests import QUEUE_MODE
from queenmq.storage.embedded.binaries import find_binaries

ABOUT = "the broker against pgbench that makes the same calls on two sessions, without a broker"

_QUEUE = "ceiling"
_SESSIONS = 2
#: Requests that share a call, of 64 connections and two calls in flight.
_REQUESTS = 32
_SECONDS = 2
_SCENARIOS = ("push-1", "push-10", "push-100", "pop-1", "pop-10")
#: Messages of each partition that pgbench pops from, per message of a request.
_STOCK = 2_000
_TPS = re.compile(r"tps = ([\d.]+)")


async def run(context: Context) -> list[Row]:
    wrk.find()
    rows = []
    async with running_database() as database:
        partition_ids = await _set_up(database)
        with context.broker(database) as broker:
            for name in _SCENARIOS:
                one = scenario.load(name)
                ours, bare = [], []
                for number in range(context.rounds + 1):
                    delivered = await asyncio.to_thread(_deliver, broker, one, number)
                    if one.rate is not None:
                        await database.push(partition_ids, each=_STOCK * one.batch)
                    possible = await asyncio.to_thread(_bench, database, one)
                    # The first round warms caches and plans.
                    if number:
                        ours.append(delivered)
                        bare.append(possible)
                context.say(f"{name}: {median(ours):,.0f}/s of {median(bare):,.0f}/s")
                rows.append(_row(name, ours, bare))
    return rows


async def _set_up(database: BenchDatabase) -> list[UUID]:
    """Give every session of pgbench partitions of its own."""
    ids = await database.make_partitions(keys_of(_QUEUE, _SESSIONS * _REQUESTS))
    async with database.connection() as connection:
        await connection.execute(queries()["make_ceiling"])
        for client in range(_SESSIONS):
            part = sorted(ids[client * _REQUESTS : (client + 1) * _REQUESTS])
            await connection.execute(queries()["add_ceiling_target"], client, part, PAYLOAD)
    return ids


def _deliver(broker: Broker, one: Scenario, number: int) -> float:
    """Messages a second through the broker."""
    queue = f"{one.name}-{number}"
    if one.rate is not None:
        messages = one.rate * _SECONDS
        preload(broker.address, queue=queue, partitions=one.partitions, messages=messages)
    outcome = wrk.run(broker.url, one.script, one.arguments(queue), seconds=_SECONDS)
    if outcome.failed or outcome.broken:
        raise BenchmarkError(f"{one.name}: answers with errors: {outcome}")
    return outcome.messages_per_s


def _bench(database: BenchDatabase, one: Scenario) -> float:
    """Messages a second of the same calls without a broker."""
    program = Path(find_binaries().postgres).with_name("pgbench")
    if not program.exists():
        raise BenchmarkError(f"{program} does not exist; this PostgreSQL comes without pgbench")
    script = database.data_dir / f"{one.script}.sql"
    text = (HERE / "sql" / f"ceiling_{one.script}.sql").read_text()
    script.write_text(text.replace("__QUEUE_MODE__", QUEUE_MODE))
    command = [
        str(program), "--no-vacuum", "--protocol=prepared", f"--client={_SESSIONS}",
        f"--jobs={_SESSIONS}", f"--time={_SECONDS}", f"--define=requests={_REQUESTS}",
        f"--define=batch={one.batch}", f"--file={script}", database.url,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    found = _TPS.search(done.stdout)
    if done.returncode or found is None:
        raise BenchmarkError(f"pgbench failed: {done.stderr[-300:]}")
    return float(found[1]) * _REQUESTS * one.batch


def _row(name: str, ours: Sequence[float], bare: Sequence[float]) -> Row:
    share = with_spread([100 * one for one in ratios(ours, bare)], " %", digits=0)
    return Row(
        what=f"{name}: delivered of what the database can do",
        shape=f"{_SECONDS} s each, {len(ours)} rounds",
        measured=f"{share}; {median(ours):,.0f}/s of {median(bare):,.0f}/s",
    )
