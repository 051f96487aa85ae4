"""Measure a dashboard that stays open on Overview: CPU of the broker, memory of the page.

`QUEEN_BENCH_MINUTES=30 make bench ARGS=dashboard-open` is the whole measurement. It needs Chromium.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from typing import Any, NamedTuple

from benchmarks.broker import BenchmarkError, Broker
from benchmarks.database import BenchDatabase, queries, running_database
from benchmarks.experiment import Context, Row
from queenmq.engine.requests import PartitionKey

ABOUT = "A dashboard open on Overview, over 20 queues with 2,000 partitions"

_SECONDS = 60 * float(os.environ.get("QUEEN_BENCH_MINUTES", "1"))
#: Without a page, so that what the broker does by itself can be taken off.
_IDLE_S = min(60.0, _SECONDS / 2)
#: Looks at the memory of the page.
_LOOKS = 10
#: Looks before the page has drawn everything once. The others are compared.
_WARM = 2
_QUEUES, _PARTITIONS = 20, 100
_CPU_TARGET = 0.01
_GROWTH_TARGET = 0.05
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


class Memory(NamedTuple):
    """The memory of a page after a garbage collection."""

    heap_bytes: int
    nodes: int
    listeners: int


async def run(context: Context) -> list[Row]:
    async with running_database() as database:
        await _set_up(database)
        with context.broker(database) as broker:
            idle = await _share(broker, asyncio.sleep(_IDLE_S))
            context.say(f"without a page: {100 * idle:.2f} % of a core")
            looks: list[Memory] = []
            share = await _share(broker, _watch(context, broker, looks))
    return _rows(idle, share, looks[_WARM:])


async def _set_up(database: BenchDatabase) -> None:
    keys = [
        PartitionKey(f"queue-{queue}", f"p{number}")
        for queue in range(_QUEUES)
        for number in range(_PARTITIONS)
    ]
    await database.push(await database.make_partitions(keys), each=5)
    async with database.connection() as connection:
        await connection.execute(queries()["fill_history"], _QUEUES)
    await database.settle()


async def _share(broker: Broker, work: Any) -> float:
    """Return the share of a core that the broker takes while something goes on."""
    before, begin = broker.usage(), time.perf_counter()
    await work
    after, seconds = broker.usage(), time.perf_counter() - begin
    return (after.broker_cpu_s - before.broker_cpu_s) / seconds


async def _watch(context: Context, broker: Broker, looks: list[Memory]) -> None:
    try:
        from playwright.async_api import async_playwright
    except ImportError as error:
        raise BenchmarkError("Playwright is not installed; run make setup") from error
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise BenchmarkError("no browser is installed; run apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=_FLAGS)
        page = await browser.new_page()
        host, port = broker.address
        await page.goto(f"http://{host}:{port}/#/")
        await page.get_by_role("heading", level=1, name="Overview").wait_for()
        debugger = await page.context.new_cdp_session(page)
        for number in range(_LOOKS):
            await asyncio.sleep(_SECONDS / _LOOKS)
            looks.append(await _look(debugger))
            context.say(f"{number + 1} of {_LOOKS}: {looks[-1].heap_bytes / 1e6:.2f} MB")
        await browser.close()


async def _look(debugger: Any) -> Memory:
    await debugger.send("HeapProfiler.collectGarbage")
    heap = await debugger.send("Runtime.getHeapUsage")
    counts = await debugger.send("Memory.getDOMCounters")
    return Memory(int(heap["usedSize"]), counts["nodes"], counts["jsEventListeners"])


def _rows(idle: float, share: float, looks: list[Memory]) -> list[Row]:
    shape = f"open for {_SECONDS / 60:.0f} min"
    first, last = looks[0], looks[-1]
    growth = last.heap_bytes / first.heap_bytes - 1
    cost = share - idle
    return [
        Row(
            what="CPU of the broker for the page",
            shape=shape,
            measured=f"{100 * cost:.2f} % of a core ({100 * share:.2f} with it)",
            target=f"< {_CPU_TARGET:.0%}",
            is_reached=cost < _CPU_TARGET,
        ),
        Row(
            what="Memory of the page",
            shape=shape,
            measured=f"{first.heap_bytes / 1e6:.2f} to {last.heap_bytes / 1e6:.2f} MB"
            f" ({100 * growth:+.1f} %)",
            target=f"< +{_GROWTH_TARGET:.0%}",
            is_reached=growth < _GROWTH_TARGET,
        ),
        Row(
            what="Nodes and listeners of the page",
            shape=shape,
            measured=f"{first.nodes} to {last.nodes}, {first.listeners} to {last.listeners}",
        ),
    ]
