"""Results of jobs on Spark, as the API serves them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries

#: Name in the path to name of the statement.
TABLES = {
    "timeline": "timeline",
    "partitions": "partitions",
    "hottest": "hottest",
    "queues": "queues",
    "groups": "groups",
    "dead-letters": "dead_letters",
    "producers": "producers",
    "payload-sizes": "payload_sizes",
}

Row = Mapping[str, Any]


class ResultFilter(NamedTuple):
    """Selects rows. None means all."""

    queue: str | None
    consumer_group: str | None
    start: datetime | None
    end: datetime | None


class PipelineStore:
    """Reads only; the job writes. What is asked here can wait for everything else."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("pipeline")

    async def _rows(self, name: str, *args: Any) -> list[Row]:
        rows = await self._database.fetch(self._sql[name], *args, priority=OperationType.ANALYTICS)
        return [dict(row) for row in rows]

    async def list_runs(self, *, limit: int, offset: int) -> list[Row]:
        """Runs of the analytics job, newest first."""
        return await self._rows("list_runs", limit, offset)

    async def find_run(self, run_id: UUID | None) -> Row | None:
        """Return a run, by default the newest, or None."""
        rows = await self._rows("find_run", run_id)
        return rows[0] if rows else None

    async def list_job_runs(self, job: str | None, *, limit: int, offset: int) -> list[Row]:
        """Return runs of one job, or of all, newest first."""
        return await self._rows("list_job_runs", job, limit, offset)

    async def show_job_run(self, run_id: UUID) -> Row | None:
        """Return one run with its tables, or None when it is not there."""
        rows = await self._rows("show_job_run", run_id)
        return rows[0] if rows else None

    async def list_archived(self) -> list[Row]:
        """Return how far each queue is archived in each lake, by queue."""
        return await self._rows("list_archived")

    async def list_archived_days(self) -> list[Row]:
        """Return the messages pushed on each day of the history, and how many are in a lake."""
        return await self._rows("list_archived_days")

    async def read(
        self, table: str, run_id: UUID, which: ResultFilter, *, limit: int, offset: int
    ) -> list[Row]:
        """Return a page of a table of a run, by its name in the path."""
        return await self._rows(TABLES[table], run_id, *which, limit, offset)
