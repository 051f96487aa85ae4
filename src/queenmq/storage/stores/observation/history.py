"""The history of brokers: written once a minute, rolled up, read by span."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries

Rows = list[asyncpg.Record]
#: Points of one answer.
ROWS_MAX = 100_000
#: The busiest queues of a span are those of this last part of it.
_LOOK_BACK = timedelta(minutes=15)
_LOOK_BACK_HOURS = timedelta(hours=3)


class Stretch(NamedTuple):
    """A span, cut where hours end and minutes begin."""

    start: datetime
    hours_end: datetime
    minutes_start: datetime
    end: datetime


class HistoryStore:
    """Implements `queenmq.services.history.Store`, and what the routes read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = {
            name: text
            for file in ("history", "history_recording", "history_upkeep")
            for name, text in load_queries(f"observation/{file}").items()
        }

    async def _fetch(self, name: str, *args: Any) -> Rows:
        return await self._database.fetch(self._sql[name], *args, priority=OperationType.ANALYTICS)

    async def record(
        self,
        queues: Sequence[Mapping[str, Any]],
        worker: Mapping[str, Any],
        totals: Mapping[str, int],
        *,
        writer: UUID,
        number: int,
    ) -> None:
        """Write the minute of a worker. A repeated number changes nothing."""
        await self._database.fetch(
            self._sql["record_minute"],
            json.dumps(list(queues)),
            json.dumps(worker),
            json.dumps(totals),
            writer,
            number,
            priority=OperationType.BACKGROUND,
        )

    async def claim_pass(self, pause_s: float) -> bool:
        """Claim the roll-up. Return False if another broker made one within that time."""
        return bool(await self._fetch("claim_history", pause_s))

    async def roll_up(self, *, hours: int) -> None:
        """Roll up the minutes of the last hours."""
        await self._fetch("roll_up_queues", hours)
        await self._fetch("roll_up_workers", hours)
        await self._fetch("roll_up_groups", hours)

    async def claim_groups(self, pause_s: float, *, rest: float) -> bool:
        """Return whether it is ours to look at the lag of groups: after the pause, and `rest` times
        as long as the last look took.
        """
        return bool(await self._fetch("claim_groups", pause_s, rest))

    async def record_groups(self, at: datetime, *, limit: int) -> None:
        """Write the lag of groups as that of a minute."""
        await self._fetch("record_groups", at, limit)

    async def note_groups(self, took_ms: float) -> None:
        """Remember how long a look at all groups takes."""
        await self._fetch("note_groups", took_ms)

    async def sweep(self, step_minutes: int, *, older_than_s: int, limit: int) -> int:
        """Remove at most this many old rows of a kind. Return how many."""
        (row,) = await self._fetch("sweep_history", step_minutes, older_than_s, limit)
        return int(row[0])

    async def totals(self) -> dict[str, int]:
        """Return what all brokers have counted since the first of them."""
        return {row["name"]: row["value"] for row in await self._fetch("history_totals")}

    async def cut(self, start: datetime, end: datetime, *, bucket_minutes: int) -> Stretch:
        """Cut a span so that wide buckets are read from hours as far as those go."""
        if bucket_minutes < 60:
            return Stretch(start, start, start, end)
        (row,) = await self._fetch("rolled_until")
        border = min(max(row[0], start), end)
        return Stretch(start, border, border, end)

    async def busiest(self, stretch: Stretch, *, limit: int) -> list[str]:
        """Return the queues with most to do in the last part of a span."""
        if stretch.minutes_start < stretch.end:
            span = (1, max(stretch.minutes_start, stretch.end - _LOOK_BACK), stretch.end)
            rows = await self._fetch("busiest_queues", *span, limit)
            if rows or stretch.hours_end <= stretch.start:
                return [row[0] for row in rows]
        span = (60, max(stretch.start, stretch.hours_end - _LOOK_BACK_HOURS), stretch.hours_end)
        return [row[0] for row in await self._fetch("busiest_queues", *span, limit)]

    async def in_scope(
        self, queue: str | None, namespace: str | None, task: str | None, *, limit: int
    ) -> list[str]:
        """Return the queues of a scope by name."""
        rows = await self._fetch("queues_of_scope", queue, namespace, task, limit)
        return [row[0] for row in rows]

    async def queues(self, names: Sequence[str], stretch: Stretch, *, bucket_minutes: int) -> Rows:
        """Return a row per bucket and queue."""
        start, hours_end, minutes_start, end = stretch
        return await self._fetch(
            "queue_history", names, start, hours_end, minutes_start, end, bucket_minutes
        )

    async def groups(
        self,
        queue: str | None,
        group: str | None,
        stretch: Stretch,
        *,
        bucket_minutes: int,
        limit: int,
    ) -> Rows:
        """Return a row per bucket and group, of the groups with the most before them."""
        return await self._fetch("group_history", queue, group, *stretch, bucket_minutes, limit)

    async def workers(
        self, stretch: Stretch, *, hostname: str | None = None, worker_id: int | None = None
    ) -> Rows:
        """Return a row per minute or hour and worker."""
        start, hours_end, minutes_start, end = stretch
        return await self._fetch(
            "worker_history", start, hours_end, minutes_start, end, hostname, worker_id, ROWS_MAX
        )

    async def parked(self, start: datetime, end: datetime, *, queue: str | None) -> Rows:
        """Return waiting pops by minute, queue and worker."""
        return await self._fetch("parked_history", start, end, queue, ROWS_MAX)

    async def last_minute(self, *, limit: int) -> Rows:
        """Return the busiest queues of the last whole minute."""
        return await self._fetch("last_minute", limit)
