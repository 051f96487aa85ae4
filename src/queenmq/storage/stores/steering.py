"""Single partitions and cursors for operators."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg

from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries

#: Groups of one partition that are shown.
_CURSORS_MAX = 1_000
#: Partitions of one queue that are counted.
COUNTED_MAX = 100_000
#: Dead letters that a summary reads, and errors that it shows.
_LETTERS_MAX = 100_000
_ERRORS_MAX = 200
#: A preview searches each partition for its time, as the seek does.
_PREVIEW_TIMEOUT_S = 60.0


class SeekTarget(NamedTuple):
    """The target of a seek: a time, a message, or the end if neither is given."""

    time: datetime | None = None
    seq: int | None = None


class SteeringStore:
    """Reads can wait. Changes are urgent, because an operator waits for them."""

    def __init__(self, database: Database, *, lock_timeout_ms: int) -> None:
        self._database = database
        self._lock_timeout_ms = lock_timeout_ms
        self._sql = load_queries("steering")

    async def show_partition(
        self, queue: str, partition: str
    ) -> tuple[asyncpg.Record, list[asyncpg.Record]] | None:
        """Return a partition and the cursors of its groups, or None."""
        found = await self._fetch("show_partition", queue, partition)
        if not found:
            return None
        return found[0], await self._fetch("list_cursors", found[0]["id"], _CURSORS_MAX)

    async def list_partitions(
        self,
        queue: str,
        search: str | None,
        *,
        order: str,
        only_blocked: bool,
        limit: int,
        offset: int,
    ) -> tuple[list[asyncpg.Record], int]:
        """Return a page of partitions, and how many there are, counted up to COUNTED_MAX."""
        rows = await self._fetch(
            "list_partitions_by", queue, search, order, only_blocked, limit, offset
        )
        counted = await self._fetch("count_partitions", queue, search, only_blocked, COUNTED_MAX)
        return rows, counted[0][0]

    async def list_group_partitions(
        self,
        group: str,
        queue: str,
        search: str | None,
        *,
        order: str,
        only_leased: bool,
        limit: int,
        offset: int,
    ) -> tuple[list[asyncpg.Record], int]:
        """Return a page of the partitions of a group on a queue, and how many there are."""
        chosen = (group, queue, search, order, only_leased)
        rows = await self._fetch("list_group_partitions", *chosen, limit, offset)
        # Each row has the number of all. A page beyond the end has no row.
        counted = rows or (
            await self._fetch("list_group_partitions", *chosen, 1, 0) if offset else []
        )
        return rows, counted[0]["total"] if counted else 0

    async def preview_seek(
        self, group: str, queue: str, partition: str | None, target: SeekTarget
    ) -> asyncpg.Record:
        """Count the messages that a seek would redeliver or skip, without changing anything."""
        rows = await self._database.fetch(
            self._sql["preview_seek"],
            group,
            queue,
            partition,
            target.time,
            target.seq,
            timeout_s=_PREVIEW_TIMEOUT_S,
            priority=OperationType.ANALYTICS,
        )
        return rows[0]

    async def end_lease(self, group: str, queue: str, partition: str) -> datetime | None:
        """End a live lease. Return when it would have expired, or None if there was none."""
        ended: datetime | None = await self._database.fetch_value(
            self._sql["end_lease"],
            group,
            queue,
            partition,
            self._lock_timeout_ms,
            priority=OperationType.SYSTEM_EVENT,
        )
        return ended

    async def list_queues_with_dead_letters(self) -> list[str]:
        """Return the names of queues that have any."""
        return [row["name"] for row in await self._fetch("list_queues_with_dead_letters")]

    async def summarize_dead_letters(
        self, queues: Sequence[str] | None, group: str | None
    ) -> list[asyncpg.Record]:
        """Count dead letters of these queues, or of all, by queue, group and error. The most
        frequent come first.
        """
        return await self._fetch("summarize_dead_letters", queues, group, _LETTERS_MAX, _ERRORS_MAX)

    async def _fetch(self, name: str, *args: object) -> list[asyncpg.Record]:
        return await self._database.fetch(self._sql[name], *args, priority=OperationType.ANALYTICS)
