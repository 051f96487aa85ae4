"""Check whether anything grows under a steady load with retention and history on.

QUEEN_BENCH_MINUTES says how long; half an hour tells more than the minute it takes unless set. With
QUEEN_BENCH_CHART the chart is written to that file.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from benchmarks.broker import Broker
from benchmarks.charts import lines_chart
from benchmarks.client import Connection, check, connections
from benchmarks.database import BenchDatabase, queries, running_database
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, percentile

ABOUT = "200 messages a second pushed and popped; retention, idle partitions and history on"

_SECONDS = 60 * float(os.environ.get("QUEEN_BENCH_MINUTES", "1"))
_CHART = os.environ.get("QUEEN_BENCH_CHART", "")
_RATE = 200
_RATE_NAME = "pushes and pops a second"
_CONNECTIONS = 4
_SAMPLE_S = 1.0
#: Of the last third against the first.
_TARGET = 1.25
_SETTINGS = {
    "QUEEN_RETENTION_INTERVAL_S": "5",
    "QUEEN_PARTITION_REMOVAL_INTERVAL_S": "5",
}
_OPTIONS = (
    b'{"queue":"steady","options":{"retentionEnabled":true,"completedRetentionSeconds":10,'
    b'"partitionIdleSeconds":20}}'
)


async def run(context: Context) -> list[Row]:
    async with running_database() as database:
        with context.broker(database, **_SETTINGS) as broker:
            async with connections(broker.address, _CONNECTIONS + 1) as [control, *clients]:
                check(await control.post("/api/v1/configure", _OPTIONS), 200)
                series = await _watch(context, database, broker, clients)
    if _CHART:
        Path(_CHART).write_text(lines_chart(ABOUT, series, seconds=_SECONDS))
    return [_row(name, values) for name, values in series.items()]


def _row(name: str, values: Sequence[float]) -> Row:
    third = max(1, len(values) // 3)
    first, last = median(values[:third]), median(values[-third:])
    growth = last / first if first else 1.0
    if name == _RATE_NAME:
        shape = f"{_SECONDS:.0f} s, first and last third"
        return Row(what=name, shape=shape, measured=f"{first:,.1f} and {last:,.1f}")
    return Row(
        what=name,
        shape=f"{_SECONDS:.0f} s, first and last third",
        measured=f"{first:,.1f} and {last:,.1f}: {growth:.2f}x",
        target=f"<= {_TARGET:.2f}x",
        # Dead rows come and go with autovacuum; a few are no growth.
        is_reached=growth <= _TARGET or (last < 10_000 and name == "dead rows"),
    )


async def _watch(
    context: Context, database: BenchDatabase, broker: Broker, clients: Sequence[Connection]
) -> dict[str, list[float]]:
    """Keep the load up and measure once a second."""
    taken: list[float] = []
    series: dict[str, list[float]] = defaultdict(list)
    ends = time.perf_counter() + _SECONDS
    working = [
        asyncio.create_task(_work(client, number, ends, taken))
        for number, client in enumerate(clients)
    ]
    async with database.connection() as session:
        while time.perf_counter() < ends:
            await asyncio.sleep(_SAMPLE_S)
            some, taken[:] = list(taken), []
            if some:
                series["latency p99 ms"].append(percentile(some, 99))
                series[_RATE_NAME].append(len(some) / _SAMPLE_S)
            series["memory MB"].append(broker.usage().broker_rss_bytes / 1e6)
            series["descriptors"].append(broker.count_descriptors())
            series["dead rows"].append(await session.fetchval(queries()["dead_rows"]))
    await asyncio.gather(*working)
    context.say("done")
    return series


async def _work(client: Connection, number: int, ends: float, taken: list[float]) -> None:
    """Push and pop one message again and again, at this connection's share of the rate."""
    pause_s = _CONNECTIONS / _RATE
    turn = 0
    due = time.perf_counter()
    while due < ends:
        turn += 1
        place = f"lane-{number}-{turn % 500}"
        began = time.perf_counter()
        body = f'{{"items":[{{"queue":"steady","partition":"{place}","payload":{turn}}}]}}'
        check(await client.post("/api/v1/push", body.encode()), 201)
        path = f"/api/v1/pop/queue/steady/partition/{place}?autoAck=true&wait=true&timeout=5000"
        check(await client.get(path), 200)
        taken.append((time.perf_counter() - began) * 1e3)
        due += pause_s
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
