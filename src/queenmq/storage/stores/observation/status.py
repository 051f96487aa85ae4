"""Counts of queues for dashboards, computed on request."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import asyncpg

from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries

#: Dead letters from which the most frequent errors are taken.
_ERRORS_FROM = 10_000

Rows = list[asyncpg.Record]


class QueueScope(NamedTuple):
    """Selects queues by name, or by namespace and task. None means any."""

    queue: str | None = None
    namespace: str | None = None
    task: str | None = None


class Counts(NamedTuple):
    """Messages by the start of the step in which they were pushed."""

    by_start: dict[datetime, int]
    #: Whether partitions were left out because there are too many.
    is_cut: bool


class StatusStore:
    """Read models; the last to get a connection when many want one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("observation/status")

    async def _fetch(self, name: str, *args: Any) -> Rows:
        return await self._database.fetch(self._sql[name], *args, priority=OperationType.ANALYTICS)

    async def overview(self) -> asyncpg.Record:
        """Return the sums of everything."""
        return (await self._fetch("overview"))[0]

    async def queues(self, scope: QueueScope, *, limit: int, offset: int) -> Rows:
        """Return a page of queues with their counts, newest first."""
        return await self._fetch("status_queues", *scope, limit, offset)

    async def leases(self, scope: QueueScope) -> asyncpg.Record:
        """Return live leases."""
        return (await self._fetch("status_leases", *scope))[0]

    async def dead_letters(self, scope: QueueScope) -> tuple[asyncpg.Record, Rows]:
        """Return how many there are, and the most frequent errors of the latest ones."""
        (counts,) = await self._fetch("status_dead_letters", *scope)
        return counts, await self._fetch("status_top_errors", *scope, _ERRORS_FROM)

    async def count_by_time(
        self,
        scope: QueueScope,
        start: datetime,
        end: datetime,
        *,
        step_s: int,
        partitions_max: int,
    ) -> Counts:
        """Return messages that are kept, by the step in which they were pushed."""
        rows = await self._fetch(
            "count_by_time", *scope, start, end, step_s, partitions_max
        )  # fmt: skip
        by_start = {row["starts_at"]: row["messages"] for row in rows}
        return Counts(by_start, any(row["is_cut"] for row in rows))

    async def queue(self, name: str) -> asyncpg.Record | None:
        """Return a queue with its options, or None when it does not exist."""
        rows = await self._fetch("status_queue", name)
        return rows[0] if rows else None

    async def partitions(
        self, queue_id: Any, *, limit: int, offset: int
    ) -> tuple[Rows, asyncpg.Record]:
        """Return a page of a queue's partitions, and the counts of all of them."""
        rows = await self._fetch("status_partitions", queue_id, limit, offset)
        return rows, (await self._fetch("status_queue_totals", queue_id))[0]
