"""Single messages for operators, and the facts behind a diagnosis."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from queenmq.engine.diagnosis.facts import QueueFacts
from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries

#: Messages that a list over several partitions scans, whatever the size of the queue.
SCAN_MAX = 20_000
#: Partitions that a diagnosis describes.
_DETAILS = 10

_facts = msgspec.json.Decoder(QueueFacts)


class MessageFilter(NamedTuple):
    """Selects messages. None means all. A partition needs its queue."""

    queue: str | None
    namespace: str | None
    task: str | None
    partition: str | None
    status: str | None
    start: datetime
    end: datetime
    transaction_id: str | None = None
    #: A part of the payload, as it is stored.
    text: str | None = None


class DeadLettered(NamedTuple):
    """The result of dead-lettering one message. See bury_message."""

    queue: str | None
    consumer_groups: list[str] | None


class InspectionStore:
    """Reads that no consumer waits for, and changes of one message."""

    def __init__(self, database: Database, *, lock_timeout_ms: int) -> None:
        self._database = database
        self._lock_timeout_ms = lock_timeout_ms
        self._sql = load_queries("inspection")

    async def list_messages(
        self, which: MessageFilter, *, limit: int, offset: int
    ) -> tuple[list[asyncpg.Record], bool]:
        """Return a page, newest first, and whether messages further back were left out."""
        rows = await self._database.fetch(
            self._sql["list_messages"],
            *which,
            limit,
            offset,
            SCAN_MAX,
            priority=OperationType.ANALYTICS,
        )
        return [row for row in rows if row["id"] is not None], rows[0]["is_cut"]

    async def show_message(self, partition_id: UUID, transaction_id: str) -> asyncpg.Record | None:
        """Return a message with its payload and its state in each group, or None."""
        rows = await self._database.fetch(
            self._sql["show_message"],
            partition_id,
            transaction_id,
            priority=OperationType.BACKGROUND,
        )
        return rows[0] if rows else None

    async def delete_message(self, partition_id: UUID, transaction_id: str) -> str | None:
        """Remove a message and its dead letters. Return its queue, or None if there was none."""
        queue: str | None = await self._database.fetch_value(
            self._sql["delete_message"],
            partition_id,
            transaction_id,
            self._lock_timeout_ms,
            priority=OperationType.SYSTEM_EVENT,
        )
        return queue

    async def dead_letter_message(
        self, partition_id: UUID, transaction_id: str, error: str
    ) -> DeadLettered:
        """Move a message to the dead letters of the groups that have not passed it."""
        row = await self._database.fetch_row(
            self._sql["bury_message"],
            partition_id,
            transaction_id,
            error,
            self._lock_timeout_ms,
            priority=OperationType.SYSTEM_EVENT,
        )
        return DeadLettered(*row)

    async def queue_facts(
        self, queue: str, partition: str | None, consumer_group: str | None
    ) -> QueueFacts | None:
        """Return what the database knows about why a group does or does not move on, or None
        without a queue.
        """
        text: str | None = await self._database.fetch_value(
            self._sql["queue_facts"],
            queue,
            partition,
            consumer_group,
            _DETAILS,
            priority=OperationType.BACKGROUND,
        )
        return _facts.decode(text) if text is not None else None
