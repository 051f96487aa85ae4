"""Retention over PostgreSQL: removes messages, and lists removals."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import asyncpg

from queenmq.engine.load.pressure import OperationType
from queenmq.engine.requests import RemovedMessages
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries


class RetentionStore:
    """Implements the stores of retention and of idle partitions, and what their page reads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("retention")

    async def claim_pass(self, pause_s: float) -> bool:
        rows = await self._database.fetch(
            self._sql["claim_retention"], pause_s, priority=OperationType.BACKGROUND
        )
        return bool(rows)

    async def list_queues(self) -> list[UUID]:
        rows = await self._database.fetch(
            self._sql["list_retention_queues"], priority=OperationType.BACKGROUND
        )
        return [row[0] for row in rows]

    async def remove_messages(
        self, queue_id: UUID, after: str, *, partitions_max: int, messages_max: int
    ) -> RemovedMessages:
        row = await self._database.fetch_row(
            self._sql["apply_retention"],
            queue_id,
            after,
            partitions_max,
            messages_max,
            priority=OperationType.BACKGROUND,
        )
        return RemovedMessages(*row)

    async def remove_dead_letters(self, *, limit: int) -> int:
        removed: int = await self._database.fetch_value(
            self._sql["sweep_dead_letters"], limit, priority=OperationType.BACKGROUND
        )
        return removed

    async def sweep_history(self, *, older_than_s: int) -> None:
        await self._database.fetch(
            self._sql["sweep_retention_history"], older_than_s, priority=OperationType.BACKGROUND
        )

    async def claim_partition_removal(self, pause_s: float) -> bool:
        rows = await self._database.fetch(
            self._sql["claim_partition_removal"], pause_s, priority=OperationType.BACKGROUND
        )
        return bool(rows)

    async def list_queues_with_idle_rule(self) -> list[UUID]:
        rows = await self._database.fetch(
            self._sql["list_queues_with_idle_rule"], priority=OperationType.BACKGROUND
        )
        return [row[0] for row in rows]

    async def remove_idle_partitions(
        self, queue_id: UUID, after: UUID, *, partitions_max: int, removals_max: int
    ) -> tuple[int, UUID | None, bool]:
        row = await self._database.fetch_row(
            self._sql["remove_idle_partitions"],
            queue_id,
            after,
            partitions_max,
            removals_max,
            priority=OperationType.BACKGROUND,
        )
        return row["removed"], row["next_after"], row["is_held"]

    async def show_history(
        self, start: datetime, end: datetime, *, bucket_minutes: int, queue: str | None
    ) -> list[asyncpg.Record]:
        """Return removed messages by time and rule, oldest first."""
        return await self._database.fetch(
            self._sql["show_retention"],
            start,
            end,
            bucket_minutes,
            queue,
            priority=OperationType.ANALYTICS,
        )
