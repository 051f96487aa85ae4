"""Measure what leases over many partitions leave behind: rows and bytes after a minute of load."""

from __future__ import annotations

import asyncio
import json
import time

from benchmarks.client import Connection, check, connections
from benchmarks.database import BenchDatabase, queries, running_database
from benchmarks.experiment import Context, Row

ABOUT = "2,000 messages/s over 1,000 partitions, popped 20 partitions at a time and acked"

_QUEUE = "wide"
_PARTITIONS = 1_000
_RATE = 2_000
_PUSH_SIZE = 100
_SECONDS = 60
_CONSUMERS = 4
_POP = f"/api/v1/pop/queue/{_QUEUE}?batch=1000&partitions=20&wait=true&timeout=1000"
_BYTES_TARGET = 5_000_000


async def run(context: Context) -> list[Row]:
    async with running_database() as database:
        with context.broker(database) as broker:
            async with connections(broker.address, _CONSUMERS + 1) as [producer, *consumers]:
                begin, cpu_s = time.perf_counter(), broker.usage()
                end = begin + _SECONDS
                counts = await asyncio.gather(
                    _produce(producer, end), *(_consume(one, end) for one in consumers)
                )
                used = broker.usage()
                rows, size = await _left(database)
        acked = sum(counts[1:])
        shape = f"{acked / _SECONDS:,.0f} messages/s for {_SECONDS} s"
        postgres_us = (used.postgres_cpu_s - cpu_s.postgres_cpu_s) / acked * 1e6
        broker_us = (used.broker_cpu_s - cpu_s.broker_cpu_s) / acked * 1e6
        return [
            Row(
                what="lease_partitions",
                shape=shape,
                measured=f"{rows:,} rows, {size / 1e6:,.1f} MB",
                target=f"<= {_BYTES_TARGET / 1e6:.0f} MB",
                is_reached=size <= _BYTES_TARGET,
            ),
            Row(
                what="CPU per message: push, pop, ack",
                shape=shape,
                measured=f"{postgres_us:,.0f} us PostgreSQL, {broker_us:,.0f} us broker",
            ),
        ]


async def _produce(client: Connection, end: float) -> int:
    """Push at the rate until the end; how many messages it were."""
    count = 0
    begin = time.perf_counter()
    while (now := time.perf_counter()) < end:
        items = [
            {"queue": _QUEUE, "partition": f"p{(count + n) * 7 % _PARTITIONS}", "payload": n}
            for n in range(_PUSH_SIZE)
        ]
        check(await client.post("/api/v1/push", json.dumps({"items": items}).encode()), 201)
        count += _PUSH_SIZE
        await asyncio.sleep(max(0.0, begin + count / _RATE - now))
    return count


async def _consume(client: Connection, end: float) -> int:
    """Pop and ack until the end; how many messages it were."""
    count = 0
    while time.perf_counter() < end:
        answer = await client.get(_POP)
        if answer.status == 204:
            continue
        messages = json.loads(check(answer, 200).body)["messages"]
        acks = [
            {field: message[field] for field in ("transactionId", "partitionId", "leaseId")}
            for message in messages
        ]
        body = json.dumps({"acknowledgments": acks}).encode()
        check(await client.post("/api/v1/ack/batch", body), 200)
        count += len(messages)
    return count


async def _left(database: BenchDatabase) -> tuple[int, int]:
    async with database.connection() as connection:
        row = await connection.fetchrow(queries()["lease_lists"])
    assert row is not None
    return row["rows"], row["bytes"]
