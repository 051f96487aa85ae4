"""The operation queue and the shared switches over PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from queenmq.engine.load.pressure import OperationType
from queenmq.engine.requests import ClaimedOperation, WaitingOperations
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries


class PostgresOperationStore:
    """Implements `queenmq.engine.ports.OperationStore`, and what operators read and decide."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("operations")

    async def claim(
        self, worker: str, token: UUID, *, partitions_max: int, items_max: int
    ) -> list[ClaimedOperation]:
        rows = await self._database.fetch(
            self._sql["claim_operations"],
            worker,
            token,
            partitions_max,
            items_max,
            priority=OperationType.PUSH,
        )
        return [ClaimedOperation(*row) for row in rows]

    async def run(self, ids: Sequence[UUID], token: UUID, *, lock_timeout_ms: int) -> int:
        stored: int = await self._database.fetch_value(
            self._sql["run_operations"], ids, token, lock_timeout_ms, priority=OperationType.PUSH
        )
        return stored

    async def release(
        self,
        ids: Sequence[UUID],
        token: UUID,
        *,
        failed_id: UUID | None = None,
        error: str | None = None,
        is_counted: bool = False,
        delay_ms: int = 0,
    ) -> None:
        await self._database.fetch(
            self._sql["release_operations"],
            ids,
            token,
            failed_id,
            error,
            is_counted,
            delay_ms,
            priority=OperationType.PUSH,
        )

    async def count_waiting(self) -> WaitingOperations:
        row = await self._database.fetch_row(
            self._sql["count_waiting_operations"], priority=OperationType.SYSTEM_EVENT
        )
        return WaitingOperations(*row)

    async def decide(self, operation_id: UUID, action: str) -> str | None:
        """Retry or discard an operation, if its status allows it.

        Return its previous status, or None if there is no such operation.
        """
        status: str | None = await self._database.fetch_value(
            self._sql["settle_operation"], operation_id, action, priority=OperationType.SYSTEM_EVENT
        )
        return status

    async def retry_failed(self, *, limit: int) -> int:
        """Retry failed operations, oldest first. Return how many."""
        rows = await self._database.fetch(
            self._sql["failed_operations"], limit, priority=OperationType.SYSTEM_EVENT
        )
        statuses = [await self.decide(row["id"], "retry") for row in rows]
        return statuses.count("failed")

    async def stats(self) -> list[Mapping[str, Any]]:
        """Counts, sizes and the oldest age by status."""
        return [
            dict(row)
            for row in await self._database.fetch(
                self._sql["operation_stats"], priority=OperationType.SYSTEM_EVENT
            )
        ]

    async def find(self, operation_id: UUID) -> Mapping[str, Any] | None:
        """Return one operation with its result."""
        rows = await self._database.fetch(
            self._sql["find_operation"], operation_id, priority=OperationType.SYSTEM_EVENT
        )
        return dict(rows[0]) if rows else None

    async def list(
        self, status: str | None, queue: str | None, *, limit: int, offset: int
    ) -> tuple[list[Mapping[str, Any]], int]:
        """Return a page of operations, newest first, and how many there are in all."""
        rows = await self._database.fetch(
            self._sql["list_operations"],
            status,
            queue,
            limit,
            offset,
            priority=OperationType.BACKGROUND,
        )
        total: int = await self._database.fetch_value(
            self._sql["count_operations"], status, queue, priority=OperationType.BACKGROUND
        )
        return [dict(row) for row in rows], total

    async def sweep(self, *, older_than_s: int, limit: int) -> int:
        """Remove operations that were completed long ago. Return how many."""
        status: int = await self._database.fetch_value(
            self._sql["sweep_operations"], older_than_s, limit, priority=OperationType.BACKGROUND
        )
        return status

    async def read_state(self) -> dict[str, Any]:
        """Return all switches by name."""
        rows = await self._database.fetch(
            self._sql["read_system_state"], priority=OperationType.SYSTEM_EVENT
        )
        return {row["name"]: json.loads(row["value"]) for row in rows}

    async def remove_state(self, name: str) -> None:
        """Forget a switch."""
        await self._database.fetch(
            self._sql["remove_system_state"], name, priority=OperationType.SYSTEM_EVENT
        )

    async def write_state(self, name: str, value: Any) -> None:
        """Set a switch for all brokers."""
        await self._database.fetch(
            self._sql["write_system_state"],
            name,
            json.dumps(value),
            priority=OperationType.SYSTEM_EVENT,
        )
