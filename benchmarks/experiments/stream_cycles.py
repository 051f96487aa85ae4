"""How many stream cycles a broker commits: state, pushes and the ack of a batch, all in one.

Cycles alone are sent under leases of many batches, so that nothing else is measured. The whole
round of a worker also pops its batch and reads its state.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from benchmarks.broker import Broker, Usage
from benchmarks.client import Connection, check, connections
from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, with_spread

ABOUT = "cycles of 100 messages, ten state keys and ten sink pushes, over 64 connections"

_CONNECTIONS = 64
_BATCH = 100
_KEYS = 10
_PUSHES = 10
#: Cycles of each connection in a round, cycles alone and whole rounds of a worker.
_CYCLES = 50
_TARGET = 2_000


async def run(context: Context) -> list[Row]:
    alone: list[float] = []
    whole: list[float] = []
    cost: list[tuple[Usage, Usage]] = []
    async with running_database() as database:
        with context.broker(database) as broker:
            for number in range(context.rounds):
                alone.append(await _measure(broker, f"alone-{number}", cost, is_whole=False))
                whole.append(await _measure(broker, f"whole-{number}", [], is_whole=True))
                context.say(f"{alone[-1]:,.0f} cycles/s alone, {whole[-1]:,.0f} whole rounds/s")
    cycles = context.rounds * _CONNECTIONS * _CYCLES
    postgres_us = sum(b.postgres_cpu_s - a.postgres_cpu_s for a, b in cost) / cycles * 1e6
    broker_us = sum(b.broker_cpu_s - a.broker_cpu_s for a, b in cost) / cycles * 1e6
    shape = f"{_BATCH} messages, {_KEYS} keys, {_PUSHES} pushes, {_CONNECTIONS} connections"
    return [
        Row(
            what="cycles/s",
            shape=shape,
            measured=with_spread(alone, "", digits=0),
            target=f">= {_TARGET:,}",
            is_reached=median(alone) >= _TARGET,
        ),
        Row(
            what="CPU per cycle",
            shape=shape,
            measured=f"{postgres_us:,.0f} us PostgreSQL, {broker_us:,.0f} us broker",
        ),
        Row(
            what="whole rounds of a worker/s: pop, read state, cycle",
            shape=shape,
            measured=with_spread(whole, "", digits=0),
        ),
    ]


async def _measure(
    broker: Broker, name: str, cost: list[tuple[Usage, Usage]], *, is_whole: bool
) -> float:
    async with connections(broker.address, 1) as [client]:
        body = {"name": name, "source_queue": name, "config_hash": "bench"}
        query = json.loads(check(await _post(client, "/streams/v1/queries", body), 200).body)
        await _fill(client, name)
    async with connections(broker.address, _CONNECTIONS) as clients:
        workers = [
            _Worker(client, name, query["query_id"], f"p{number}")
            for number, client in enumerate(clients)
        ]
        if not is_whole:
            await asyncio.gather(*(worker.prepare() for worker in workers))
        before, begin = broker.usage(), time.perf_counter()
        await asyncio.gather(
            *(worker.run_whole() if is_whole else worker.run() for worker in workers)
        )
        took = time.perf_counter() - begin
        cost.append((before, broker.usage()))
    return _CONNECTIONS * _CYCLES / took


async def _fill(client: Connection, queue: str) -> None:
    """Push what the cycles are about, one request after the other: none may be put off."""
    for number in range(_CONNECTIONS):
        place = {"queue": queue, "partition": f"p{number}"}
        for start in range(0, _CYCLES * _BATCH, 1_000):
            items = [{**place, "payload": {"n": n}} for n in range(start, start + 1_000)]
            check(await _post(client, "/api/v1/push", {"items": items}), 201)


class _Worker:
    """A connection with a partition of its own."""

    def __init__(self, client: Connection, queue: str, query_id: str, partition: str) -> None:
        self._client = client
        self._queue = queue
        self._query_id = query_id
        self._partition = partition
        self._bodies: list[bytes] = []

    async def prepare(self) -> None:
        """Lease all of it and make the cycles, each with the last of its messages."""
        messages = await self._pop(_CYCLES * _BATCH)
        self._bodies = [
            self._cycle(number, messages[(number + 1) * _BATCH - 1]) for number in range(_CYCLES)
        ]

    async def run(self) -> None:
        for body in self._bodies:
            answer = check(await self._client.post("/streams/v1/cycle", body), 200)
            assert answer.body.startswith(b'{"success":true'), answer.body

    async def run_whole(self) -> None:
        for number in range(_CYCLES):
            messages = await self._pop(_BATCH)
            ask = {"query_id": self._query_id, "partition_id": messages[0]["partitionId"]}
            check(await _post(self._client, "/streams/v1/state/get", ask), 200)
            body = self._cycle(number, messages[-1])
            answer = check(await self._client.post("/streams/v1/cycle", body), 200)
            assert answer.body.startswith(b'{"success":true'), answer.body

    async def _pop(self, batch: int) -> list[Any]:
        path = f"/api/v1/pop/queue/{self._queue}/partition/{self._partition}"
        query = f"?batch={batch}&consumerGroup=streams.{self._queue}&wait=true"
        answer = check(await self._client.get(path + query), 200)
        messages: list[Any] = json.loads(answer.body)["messages"]
        return messages

    def _cycle(self, number: int, last: Any) -> bytes:
        sink = {"queue": f"{self._queue}-sink", "partition": self._partition}
        value = {"acc": {"count": number, "sum": number}, "windowStart": 0, "windowEnd": 60_000}
        body = {
            "query_id": self._query_id,
            "partition_id": last["partitionId"],
            "consumer_group": f"streams.{self._queue}",
            "state_ops": [
                {"type": "upsert", "key": f"tumb:60\x1fwindow\x1fkey-{key}", "value": value}
                for key in range(_KEYS)
            ],
            "push_items": [{**sink, "payload": {"sum": n}} for n in range(_PUSHES)],
            "ack": {
                "transactionId": last["transactionId"],
                "leaseId": last["leaseId"],
                "status": "completed",
                "count": _BATCH,
            },
            "release_lease": False,
        }
        return json.dumps(body).encode()


async def _post(client: Connection, path: str, body: Any) -> Any:
    return await client.post(path, json.dumps(body).encode())
