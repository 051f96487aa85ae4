"""Dead letters as operators see them: listed, pushed again, forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries


class LetterFilter(NamedTuple):
    """Which dead letters; None means all."""

    queue: str | None = None
    consumer_group: str | None = None
    partition: str | None = None
    start: datetime | None = None
    end: datetime | None = None


class RetriedMessage(NamedTuple):
    """What became of one message whose dead letters were to be pushed again."""

    queue: str
    partition: str
    partition_id: str
    transaction_id: str
    #: Of the new message, or of the operation that it waits as; None when it was refused.
    new_id: str | None
    #: None while the message waits as an operation and has no id of its own.
    new_transaction_id: str | None
    #: q stored, b behind operations, f refused because the queue is full.
    outcome: str
    letters: int
    #: Whether others match the filter.
    has_more: bool


class Purge(NamedTuple):
    """How many dead letters were removed, and whether others match the filter."""

    purged: int
    has_more: bool


class LetterStore:
    """Lists can wait; what changes something is urgent, since somebody is looking."""

    def __init__(self, database: Database, *, lock_timeout_ms: int) -> None:
        self._database = database
        self._lock_timeout_ms = lock_timeout_ms
        self._sql = load_queries("letters")

    async def list_letters(
        self, which: LetterFilter, *, limit: int, offset: int
    ) -> tuple[list[Mapping[str, Any]], int]:
        """A page of dead letters, latest failure first, and how many there are in all."""
        rows = await self._database.fetch(
            self._sql["list_dead_letters"], *which, limit, offset, priority=OperationType.BACKGROUND
        )
        total = await self._database.fetch_value(
            self._sql["count_dead_letters"], *which, priority=OperationType.BACKGROUND
        )
        return [dict(row) for row in rows], total

    async def retry(
        self,
        which: LetterFilter,
        *,
        partition_id: UUID | None = None,
        transaction_id: str | None = None,
        limit: int,
        queue_max: int,
    ) -> list[RetriedMessage]:
        """Push dead letters again, longest dead first, and forget them."""
        rows = await self._database.fetch(
            self._sql["retry_dead_letters"],
            *which,
            partition_id,
            transaction_id,
            limit,
            queue_max,
            self._lock_timeout_ms,
            priority=OperationType.SYSTEM_EVENT,
        )
        return [RetriedMessage(*row) for row in rows]

    async def purge(self, which: LetterFilter, *, limit: int) -> Purge:
        """Forget dead letters, longest dead first."""
        row = await self._database.fetch_row(
            self._sql["purge_dead_letters"], *which, limit, priority=OperationType.SYSTEM_EVENT
        )
        return Purge(*row)
