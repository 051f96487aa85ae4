"""The store of traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import asyncpg

from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries

#: Traces of one message in one answer.
_MESSAGE_MAX = 10_000
#: Named traces, newest first, that the list of names is made from.
NAMES_SCAN_MAX = 50_000
#: Steps of a queue's history that are searched for those of one message, and those that are given.
STEPS_SCAN_MAX = 100_000
_STEPS_MAX = 1_000
#: A larger payload is left out of a list.
PAYLOAD_SHOWN_MAX = 64 * 1024


class Trace(NamedTuple):
    """A trace to record."""

    partition_id: UUID
    transaction_id: str
    consumer_group: str
    event_type: str
    data: str
    names: Sequence[str]


class TraceStore:
    """Traces are never urgent."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("traces")

    async def add(self, trace: Trace) -> UUID | None:
        """Record a trace. Return None if the message does not exist."""
        trace_id: UUID | None = await self._database.fetch_value(
            self._sql["add_trace"], *trace, priority=OperationType.BACKGROUND
        )
        return trace_id

    async def of_message(self, partition_id: UUID, transaction_id: str) -> list[asyncpg.Record]:
        """Return all of a message, oldest first."""
        return await self._database.fetch(
            self._sql["list_message_traces"],
            partition_id,
            transaction_id,
            _MESSAGE_MAX,
            priority=OperationType.ANALYTICS,
        )

    async def deliveries(self, partition_id: UUID, transaction_id: str) -> list[asyncpg.Record]:
        """Return when groups got and passed a message, oldest first; one row without a group for
        a message that none got, and none when there is no such message.
        """
        return await self._database.fetch(
            self._sql["list_deliveries"],
            partition_id,
            transaction_id,
            STEPS_SCAN_MAX,
            _STEPS_MAX,
            priority=OperationType.ANALYTICS,
        )

    async def by_name(
        self, name: str, *, limit: int, offset: int
    ) -> tuple[list[asyncpg.Record], int]:
        """Return a page of the traces with a name, newest first, and how many there are."""
        rows = await self._database.fetch(
            self._sql["list_named_traces"],
            name,
            limit,
            offset,
            PAYLOAD_SHOWN_MAX,
            priority=OperationType.ANALYTICS,
        )
        total: int = await self._database.fetch_value(
            self._sql["count_named_traces"], name, priority=OperationType.ANALYTICS
        )
        return rows, total

    async def names(self, *, limit: int, offset: int) -> tuple[list[asyncpg.Record], int]:
        """Return names, last used first, with their counts among the newest traces; and how
        many.
        """
        rows = await self._database.fetch(
            self._sql["list_trace_names"],
            limit,
            offset,
            NAMES_SCAN_MAX,
            priority=OperationType.ANALYTICS,
        )
        total: int = await self._database.fetch_value(
            self._sql["count_trace_names"], NAMES_SCAN_MAX, priority=OperationType.ANALYTICS
        )
        return rows, total

    async def sweep_traces(self, *, older_than_s: int, limit: int) -> int:
        """Remove old traces, and notes about removed messages. Return the number of traces."""
        await self._database.fetch(
            self._sql["sweep_removed_messages"], limit, priority=OperationType.BACKGROUND
        )
        removed: int = await self._database.fetch_value(
            self._sql["sweep_traces"], older_than_s, limit, priority=OperationType.BACKGROUND
        )
        return removed
