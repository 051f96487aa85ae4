"""Queries of a scrape: queues, groups, and PostgreSQL itself."""

from __future__ import annotations

from typing import NamedTuple

import asyncpg

from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.schema.foreign import own_relations
from queenmq.storage.sql_files import load_queries

Rows = list[asyncpg.Record]
#: A scrape must not wait for a database that is busy.
_TIMEOUT_S = 5.0


class PostgresFacts(NamedTuple):
    """The health of PostgreSQL."""

    server: asyncpg.Record
    tables: Rows
    holders: Rows
    standbys: Rows


class MetricsStore:
    """Read models; the last to get a connection when many want one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("observation/metrics")
        self._vacuum = load_queries("schema/vacuum_report")

    async def _fetch(self, query: str, *args: object) -> Rows:
        return await self._database.fetch(
            query, *args, priority=OperationType.ANALYTICS, timeout_s=_TIMEOUT_S
        )

    async def queues(self, *, limit: int) -> Rows:
        """Return the queues with the most to do; the row without a name has all others."""
        return await self._fetch(self._sql["queue_gauges"], limit)

    async def groups(self, *, limit: int) -> Rows:
        """Return the groups that are furthest behind; the row without a name has all others."""
        return await self._fetch(self._sql["group_gauges"], limit)

    async def server(self) -> asyncpg.Record:
        """Return what the server counts and measures of the database."""
        (server,) = await self._fetch(self._sql["postgres_gauges"])
        return server

    async def postgres(self) -> PostgresFacts:
        """Return sizes, dead rows and what keeps them, and how far standbys are behind."""
        server = await self.server()
        return PostgresFacts(
            server,
            await self._fetch(self._vacuum["tables"], own_relations()),
            await self._fetch(self._vacuum["holders"]),
            await self._fetch(self._sql["replication_gauges"]),
        )
