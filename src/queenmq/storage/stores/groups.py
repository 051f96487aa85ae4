"""Consumer groups as operators see and move them, and the lists of queues, namespaces and tasks."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries

#: A seek searches each partition for its time; both ends of it lock one row per partition.
_CHANGE_TIMEOUT_S = 600.0

Rows = list[asyncpg.Record]


class GroupStore:
    """Changes are urgent. Lists are not, because they can be requested again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("groups")

    async def seek(
        self, group: str, queue: str, partition: str | None, time: datetime | None
    ) -> list[tuple[UUID, datetime | None]]:
        """Move cursors to a time, or without one to the end. Return each with its time."""
        rows = await self._database.fetch(
            self._sql["seek_group"],
            group,
            queue,
            partition,
            time,
            timeout_s=_CHANGE_TIMEOUT_S,
            priority=OperationType.SYSTEM_EVENT,
        )
        return [(row[0], row[1]) for row in rows]

    async def move_cursor(self, group: str, queue: str, partition: str, seq: int) -> int | None:
        """Make a message the next one of a group. Return its seq, or None if nothing was moved."""
        moved: int | None = await self._database.fetch_value(
            self._sql["move_cursor"],
            group,
            queue,
            partition,
            seq,
            priority=OperationType.SYSTEM_EVENT,
        )
        return moved

    async def find_place(self, queue: str, partition: str | None) -> tuple[bool, bool]:
        """Return whether the queue and its partition exist."""
        row = await self._database.fetch_row(
            self._sql["find_place"], queue, partition, priority=OperationType.SYSTEM_EVENT
        )
        return row[0], row[1]

    async def list_partitions(self, queue: str | None, *, limit: int, offset: int) -> Rows:
        """Return a page of partitions, of one queue or of all, by queue and name."""
        return await self._database.fetch(
            self._sql["list_partitions"], queue, limit, offset, priority=OperationType.ANALYTICS
        )

    async def find_group_queues(self, group: str) -> list[str]:
        """Return the queues on which a group has a cursor or a remembered start."""
        rows = await self._database.fetch(
            self._sql["find_group_queues"], group, priority=OperationType.SYSTEM_EVENT
        )
        return [row[0] for row in rows]

    async def delete(self, group: str, queue: str, *, deletes_start: bool) -> int:
        """Delete a group on one queue. Return how many cursors it had."""
        removed: int = await self._database.fetch_value(
            self._sql["delete_group"],
            group,
            queue,
            deletes_start,
            timeout_s=_CHANGE_TIMEOUT_S,
            priority=OperationType.SYSTEM_EVENT,
        )
        return removed

    async def set_start(self, group: str, time: datetime) -> int:
        """Change the stored starts of a group. Return how many there were."""
        changed: int = await self._database.fetch_value(
            self._sql["set_group_start"], group, time, priority=OperationType.SYSTEM_EVENT
        )
        return changed

    async def _list(self, name: str, *args: Any) -> Rows:
        return await self._database.fetch(self._sql[name], *args, priority=OperationType.BACKGROUND)

    async def list_groups(self) -> Rows:
        """Return a row per group and queue."""
        return await self._list("list_groups")

    async def list_streams(self) -> Rows:
        """Return a row per queue and group of Spark streams."""
        return await self._list("list_streams")

    async def show_streams(self, group: str) -> Rows:
        """Return a row per queue and Spark stream of a group."""
        return await self._list("show_streams", group)

    async def delete_streams(self, group: str) -> int:
        """Forget the positions of a group's Spark streams. Return how many."""
        removed: int = await self._database.fetch_value(
            self._sql["delete_streams"], group, priority=OperationType.SYSTEM_EVENT
        )
        return removed

    async def list_lagging(self, lag_s: int, *, limit: int) -> Rows:
        """Return partitions in which a group is at least that far behind, worst first."""
        return await self._list("list_lagging", lag_s, limit)

    async def show_group(self, group: str) -> Rows:
        """Return a row per cursor of a group."""
        return await self._list("show_group", group)

    async def list_queues(self, search: str | None, *, limit: int, offset: int) -> Rows:
        """Return queues with their counts, newest first."""
        return await self._list("list_queues", search, limit, offset)

    async def show_queue(
        self, name: str, *, has_partitions: bool
    ) -> tuple[asyncpg.Record, Rows] | None:
        """Return a queue with its partitions or their sum, or None if there is none."""
        queues = await self._list("show_queue", name)
        if not queues:
            return None
        counts = "list_queue_partitions" if has_partitions else "sum_queue_partitions"
        return queues[0], await self._list(counts, queues[0]["id"])

    async def list_namespaces(self) -> Rows:
        """Return namespaces with their counts."""
        return await self._list("list_namespaces")

    async def list_tasks(self) -> Rows:
        """Return tasks with their counts."""
        return await self._list("list_tasks")
