"""What waiting costs: 1,000 parked long polls against 1,000 clients that ask twice a second.

The other side is really run, with the cheapest question a poller can ask: one pop of one known
partition. Both sides are counted by the server itself.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from benchmarks.broker import BenchmarkError, Broker
from benchmarks.client import Connection, check, connections
from benchmarks.database import BenchDatabase, queries, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread
from queenmq.engine.requests import QUEUE_MODE, PartitionKey
from queenmq.ids import new_lease_id

ABOUT = "1,000 waiting consumers on 100 empty queues, parked and polling"

_CLIENTS = 1_000
_QUEUES = 100
_INTERVAL_S = 0.5
#: Seconds of one turn. The parked side does so little that it needs a longer look.
_PARKED_S = 8.0
_POLLING_S = 3.0
#: Re-checks of a parked poll have slowed down to their largest distance after this.
_SETTLED_S = 3.0
_POLLING_CONNECTIONS = 16
_FEWER_TARGET = 0.99
_CPU_TARGET = 0.03


@dataclass(frozen=True)
class Cost:
    """What a turn used, per second."""

    statements: float
    #: Milliseconds inside statements.
    busy_ms: float
    #: Cores of broker and PostgreSQL.
    cpu: float


async def run(context: Context) -> list[Row]:
    async with running_database(preload="pg_stat_statements") as database:
        partition_ids = await _set_up(database)
        with context.broker(database) as broker:
            async with (
                database.connection() as counter,
                database.connections(_POLLING_CONNECTIONS) as pollers,
                connections(broker.address, _CLIENTS) as clients,
            ):
                await counter.execute(queries()["count_statements"])
                costs = Costs(broker, counter)
                nobody = await costs.during(asyncio.sleep(_PARKED_S))
                parked, polling = [], []
                waiting = await _park(clients)
                for number in range(1, context.rounds + 1):
                    parked.append(await costs.during(asyncio.sleep(_PARKED_S)))
                    polling.append(await costs.during(_poll(pollers, partition_ids)))
                    context.say(f"{number} of {context.rounds} rounds")
                await _wake(broker, waiting)
                return _rows(nobody, parked, polling)


async def _set_up(database: BenchDatabase) -> list[UUID]:
    keys = [PartitionKey(f"quiet-{number}", "Default") for number in range(_QUEUES)]
    partition_ids = await database.make_partitions(keys)
    await database.push(partition_ids, each=1)
    async with database.connection() as connection:
        # What is there has been consumed: cursors exist, as on any queue that is in use.
        for partition_id in partition_ids:
            await _pop(connection, partition_id, is_auto_ack=True)
    await database.settle()
    return partition_ids


async def _park(clients: Sequence[Connection]) -> list[asyncio.Task[None]]:
    """Have everybody wait, until the broker is quiet."""
    waiting = [
        asyncio.create_task(_wait(client, f"quiet-{number % _QUEUES}"))
        for number, client in enumerate(clients)
    ]
    await asyncio.sleep(_SETTLED_S)
    return waiting


async def _wait(client: Connection, queue: str) -> None:
    path = f"/api/v1/pop/queue/{queue}?batch=1&autoAck=true&wait=true&timeout=600000"
    check(await client.get(path), 200)


async def _wake(broker: Broker, waiting: Sequence[asyncio.Task[None]]) -> None:
    """A message for everybody: all of them must have been waiting until now."""
    if any(one.done() for one in waiting):
        raise BenchmarkError("a poll that should have been parked was answered")
    items = [
        {"queue": f"quiet-{number % _QUEUES}", "payload": number} for number in range(_CLIENTS)
    ]
    async with connections(broker.address, 1) as [producer]:
        check(await producer.post("/api/v1/push", json.dumps({"items": items}).encode()), 201)
        await asyncio.wait_for(asyncio.gather(*waiting), timeout=30)


async def _poll(pollers: Sequence[asyncpg.Connection], partition_ids: Sequence[UUID]) -> None:
    """Each client asks every half second; the connections share the clients among them."""
    each = len(pollers)
    turns = range(int(_POLLING_S / _INTERVAL_S))
    await asyncio.gather(
        *(
            _poll_share(connection, partition_ids, range(first, _CLIENTS, each), turns)
            for first, connection in enumerate(pollers)
        )
    )


async def _poll_share(
    connection: asyncpg.Connection, partition_ids: Sequence[UUID], clients: range, turns: range
) -> None:
    begin = time.perf_counter()
    for turn in turns:
        for place, client in enumerate(clients):
            due = begin + (turn + place / len(clients)) * _INTERVAL_S
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await _pop(connection, partition_ids[client % _QUEUES], is_auto_ack=False)


async def _pop(connection: asyncpg.Connection, partition_id: UUID, *, is_auto_ack: bool) -> None:
    await connection.fetch(
        queries()["pop"],
        [1],
        [partition_id],
        [QUEUE_MODE],
        [1],
        [is_auto_ack],
        [new_lease_id(partition_id)],
    )


class Costs:
    """Looks at the meters before and after."""

    def __init__(self, broker: Broker, counter: asyncpg.Connection) -> None:
        self._broker = broker
        self._counter = counter

    async def during(self, work: Awaitable[None]) -> Cost:
        """What everything used while the work went on."""
        before, cpu_s = await self._statements(), self._broker.usage().cpu_s
        begin = time.perf_counter()
        await work
        seconds = time.perf_counter() - begin
        used = self._broker.usage().cpu_s - cpu_s
        after = await self._statements()
        return Cost(
            statements=(after["calls"] - before["calls"]) / seconds,
            busy_ms=(after["busy_ms"] - before["busy_ms"]) / seconds,
            cpu=used / seconds,
        )

    async def _statements(self) -> asyncpg.Record:
        row = await self._counter.fetchrow(queries()["statements"])
        assert row is not None
        return row


def _rows(nobody: Cost, parked: Sequence[Cost], polling: Sequence[Cost]) -> list[Row]:
    shape = f"{_CLIENTS:,} clients, {_QUEUES} queues, {len(parked)} rounds"
    asked = _CLIENTS / _INTERVAL_S
    left = ratios([one.statements for one in parked], [one.statements for one in polling])
    fewer = [100 * (1 - one) for one in left]
    cpu = [100 * one.cpu for one in parked]
    return [
        _cost_row("parked (ours)", shape, parked),
        _cost_row(f"polling; {asked:,.0f}/s were due", shape, polling),
        _cost_row("the broker with nobody waiting", f"{_PARKED_S:.0f} s", [nobody]),
        Row(
            what="fewer statements when parked",
            shape=shape,
            measured=with_spread(fewer, " %"),
            target=f">= {_FEWER_TARGET:.0%}",
            is_reached=median(fewer) >= 100 * _FEWER_TARGET,
        ),
        Row(
            what="CPU of broker and PostgreSQL, parked",
            shape=shape,
            measured=with_spread(cpu, " % of a core"),
            target=f"< {_CPU_TARGET:.0%}",
            is_reached=median(cpu) < 100 * _CPU_TARGET,
        ),
    ]


def _cost_row(what: str, shape: str, costs: Sequence[Cost]) -> Row:
    statements = with_spread([one.statements for one in costs], " statements/s", digits=1)
    busy = median([one.busy_ms for one in costs])
    cpu = 100 * median([one.cpu for one in costs])
    measured = f"{statements}, {busy:,.1f} ms/s in them, {cpu:.1f} % of a core"
    return Row(what=what, shape=shape, measured=measured)
