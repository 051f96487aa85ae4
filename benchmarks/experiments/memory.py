"""Measure what a broker remembers, in bytes: partitions, parked polls, consumer groups.

Its own objects in a process of their own for each row, without sockets and database:
`edge-connections` measures parked polls with their connections.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast
from uuid import UUID

from benchmarks.experiment import Context, Row
from queenmq.clock import now_ms
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.pop.board.board import PopBoard
from queenmq.engine.pop.board.poll_schedule import PollSchedule
from queenmq.engine.pop.desk import PopDesk
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.ports import MessageStore
from queenmq.engine.requests import PartitionKey, PartitionRef, PopRequest, Scope
from queenmq.metrics.registry import Registry
from queenmq.server.wiring.limits import pop_limits
from queenmq.settings import load

ABOUT = "memory of a broker per partition, parked poll and consumer group"

_COUNTS = (100_000, 1_000_000)
_PER_CALL = 500
_HOUR_MS = 3_600_000


class _Partitions:
    """Stands for the database: every partition that is asked for exists."""

    async def ensure_partitions(
        self, keys: Sequence[PartitionKey], *, lock_timeout_ms: int
    ) -> list[PartitionRef]:
        refs = []
        for key in keys:
            partition_id = UUID(int=0x0190 << 112 | hash(key) & (1 << 64) - 1)
            text = str(partition_id)
            ref = PartitionRef(key, partition_id, text, UUID(int=1), "", "", False, text[:11])
            refs.append(ref)
        return refs


async def _know_partitions(count: int) -> object:
    catalogue = Catalogue(cast(MessageStore, _Partitions()), lock_timeout_ms=100, wait_ms=1_000)
    for begin in range(0, count, _PER_CALL):
        names = range(begin, begin + _PER_CALL)
        await catalogue.ensure([PartitionKey("orders", f"customer-{name}") for name in names])
    return catalogue


async def _park_polls(count: int) -> object:
    return _park([Scope("orders")] * count, ["workers"] * count)


async def _park_groups(count: int) -> object:
    return _park([Scope("orders")] * count, [f"group-{number}" for number in range(count)])


def _park(scopes: Sequence[Scope], groups: Sequence[str]) -> object:
    """Take in a pop for each, and let it wait."""
    limits, metrics = pop_limits(load({})), PopMetrics(Registry(), slots=2)
    schedule = PollSchedule(
        min_interval_ms=limits.min_interval_ms,
        max_interval_ms=limits.max_interval_ms,
        listening_interval_ms=limits.listening_interval_ms,
    )
    board = PopBoard(limits.board, schedule, metrics, find_known=lambda key: None)
    desk = PopDesk(waiting_max=len(scopes), metrics=metrics)
    for scope, group in zip(scopes, groups, strict=True):
        # Routes share the requests of consumers that repeat themselves; here none does.
        request = PopRequest(scope, group, batch=1, wait_ms=_HOUR_MS)
        now = now_ms()
        intention = desk.admit(request, tick=board.tick, now=now)
        desk.set_deadline(intention, lambda _: None)
        board.arrived(intention, now)
    return board, desk


_KINDS: dict[str, Callable[[int], Awaitable[object]]] = {
    "partition that was pushed to": _know_partitions,
    "parked poll of one group": _park_polls,
    "consumer group with one parked poll": _park_groups,
}


async def run(context: Context) -> list[Row]:
    rows = []
    # Each in a new process: memory that one frees would be used by the next.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as processes:
        for count in _COUNTS:
            for what in _KINDS:
                took = processes.apply(_measure, (what, count))
                measured = f"{took / 1e6:,.0f} MB, {took / count:,.0f} bytes each"
                rows.append(Row(what=what, shape=f"{count:,}", measured=measured))
                context.say(f"{count:,} of {what}: {measured}")
    return rows


def _measure(what: str, count: int) -> int:
    """Return by how many bytes this process grows."""
    return asyncio.run(_grow(_KINDS[what], count))


async def _grow(make: Callable[[int], Awaitable[object]], count: int) -> int:
    # Once for what the first of them load for all.
    await make(_PER_CALL)
    gc.collect()
    before = _rss_bytes()
    kept = await make(count)
    gc.collect()
    took = _rss_bytes() - before
    del kept
    return took


def _rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
