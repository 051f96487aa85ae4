"""Dead letters for operators: list, push again, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from queenmq.engine.load.pressure import OperationType
from queenmq.engine.outcomes import ItemOutcome
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries
from queenmq.storage.stores.outcomes import decode_item


class DeadLetterFilter(NamedTuple):
    """Selects dead letters. None means all."""

    queue: str | None = None
    consumer_group: str | None = None
    partition: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    #: The start of the error text.
    error: str | None = None


class RetriedMessage(NamedTuple):
    """The result of pushing the dead letters of one message again."""

    queue: str
    partition: str
    partition_id: str
    transaction_id: str
    #: Of the new message, or of the operation that it waits as; None when it was refused.
    new_id: str | None
    #: None while the message waits as an operation and has no id of its own.
    new_transaction_id: str | None
    outcome: ItemOutcome
    dead_letters: int
    #: Whether others match the filter.
    has_more: bool


class SealedLetter(NamedTuple):
    """An encrypted dead letter that cannot keep its transaction id."""

    partition_id: UUID
    seq: int
    queue: str
    partition: str
    transaction_id: str
    payload: str


class ResealedLetter(NamedTuple):
    """The same, encrypted for a new transaction id."""

    partition_id: UUID
    seq: int
    transaction_id: str
    payload: str


class Purge(NamedTuple):
    """The number of dead letters removed, and whether others match the filter."""

    purged: int
    has_more: bool


class DeadLetterStore:
    """Dead letters in the database.

    Lists can wait. Changes are urgent, because an operator waits.
    """

    def __init__(self, database: Database, *, lock_timeout_ms: int) -> None:
        self._database = database
        self._lock_timeout_ms = lock_timeout_ms
        self._sql = load_queries("dead_letters")

    async def list_dead_letters(
        self, which: DeadLetterFilter, *, limit: int, offset: int
    ) -> tuple[list[Mapping[str, Any]], int]:
        """Return a page of dead letters, latest failure first, and how many there are in all."""
        rows = await self._database.fetch(
            self._sql["list_dead_letters"], *which, limit, offset, priority=OperationType.BACKGROUND
        )
        total = await self._database.fetch_value(
            self._sql["count_dead_letters"], *which, priority=OperationType.BACKGROUND
        )
        return [dict(row) for row in rows], total

    async def list_sealed(
        self,
        which: DeadLetterFilter,
        *,
        partition_id: UUID | None,
        transaction_id: str | None,
        limit: int,
    ) -> list[SealedLetter]:
        """Return the dead letters that must be encrypted again before a retry."""
        rows = await self._database.fetch(
            self._sql["list_sealed_letters"],
            *which,
            partition_id,
            transaction_id,
            limit,
            priority=OperationType.SYSTEM_EVENT,
        )
        return [SealedLetter(*row) for row in rows]

    async def retry(
        self,
        which: DeadLetterFilter,
        *,
        partition_id: UUID | None = None,
        transaction_id: str | None = None,
        limit: int,
        queue_max: int,
        resealed: Sequence[ResealedLetter] = (),
    ) -> list[RetriedMessage]:
        """Push dead letters again, oldest failure first, and delete them."""
        rows = await self._database.fetch(
            self._sql["retry_dead_letters"],
            *which,
            partition_id,
            transaction_id,
            limit,
            queue_max,
            self._lock_timeout_ms,
            [one.partition_id for one in resealed],
            [one.seq for one in resealed],
            [one.transaction_id for one in resealed],
            [one.payload for one in resealed],
            priority=OperationType.SYSTEM_EVENT,
        )
        return [RetriedMessage(*row)._replace(outcome=decode_item(row["outcome"])) for row in rows]

    async def purge(self, which: DeadLetterFilter, *, limit: int) -> Purge:
        """Delete dead letters, oldest failure first."""
        row = await self._database.fetch_row(
            self._sql["purge_dead_letters"], *which, limit, priority=OperationType.SYSTEM_EVENT
        )
        return Purge(*row)
