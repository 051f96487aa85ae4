"""Finds the queue of an id, for tokens that are limited to some queues."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries

#: Remembered partitions; some 200 bytes each.
_ENTRIES_MAX = 50_000


class OwnerStore:
    """Remembers partitions, because an id always belongs to the same queue."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("schema/owners")
        self._queues: dict[UUID, str] = {}

    async def queues_of(self, partition_ids: Collection[UUID]) -> dict[UUID, str]:
        """Return the queues of those partitions that exist."""
        unknown = [one for one in set(partition_ids) if one not in self._queues]
        if unknown:
            rows = await self._database.fetch(
                self._sql["queues_of_partitions"], unknown, priority=OperationType.SYSTEM_EVENT
            )
            if len(self._queues) + len(rows) > _ENTRIES_MAX:
                self._queues.clear()
                return await self._query_owners(partition_ids)
            self._queues.update((row[0], row[1]) for row in rows)
        return {one: self._queues[one] for one in partition_ids if one in self._queues}

    async def _query_owners(self, partition_ids: Collection[UUID]) -> dict[UUID, str]:
        rows = await self._database.fetch(
            self._sql["queues_of_partitions"],
            list(partition_ids),
            priority=OperationType.SYSTEM_EVENT,
        )
        return {row[0]: row[1] for row in rows}

    async def queues_of_leases(self, lease_ids: Collection[UUID]) -> dict[UUID, list[str]]:
        """Return the queues in which each lease that exists covers partitions."""
        rows = await self._database.fetch(
            self._sql["queues_of_leases"],
            list(set(lease_ids)),
            priority=OperationType.SYSTEM_EVENT,
        )
        queues: dict[UUID, list[str]] = {}
        for lease_id, queue in rows:
            queues.setdefault(lease_id, []).append(queue)
        return queues

    async def queue_of_stream(self, query_id: UUID) -> str | None:
        """Return the queue that a stream reads now, or None when there is no such stream."""
        rows = await self._database.fetch(
            self._sql["queue_of_stream"], query_id, priority=OperationType.SYSTEM_EVENT
        )
        return rows[0][0] if rows else None

    async def queue_of_operation(self, operation_id: UUID) -> str | None:
        """Return the queue that an operation pushes to, or None when there is no such operation."""
        rows = await self._database.fetch(
            self._sql["queue_of_operation"], operation_id, priority=OperationType.SYSTEM_EVENT
        )
        return rows[0][0] if rows else None
