"""Owns `queen.pipeline`: results of jobs on Spark."""

from __future__ import annotations

from typing import Unpack

from queenmq import wire
from queenmq.client.admin.queries import JobRunQuery, PageQuery, PipelineQuery
from queenmq.client.calls import quote_name, with_query
from queenmq.client.http.transport import Transport

_PATH = "/api/v1/analytics/pipeline"
_JOBS = "/api/v1/analytics/runs"


class Pipeline:
    """Runs of all jobs, and the tables of `queen pipeline analytics`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list_runs(self, **query: Unpack[PageQuery]) -> wire.PipelineRunList:
        """List runs of analytics, newest first.

        Args:
            query: `limit`, `offset`.
        """
        return await self._transport.fetch("GET", with_query(_PATH, query), wire.PipelineRunList)

    async def get_table(self, table: str, **query: Unpack[PipelineQuery]) -> wire.PipelineTable:
        """Return rows of one table, of the newest run unless `run` names another.

        Args:
            table: The table's name, as `list_runs` lists it.
            query: `run`, `queue`, `consumerGroup`, `from_`, `to`, `limit`, `offset`.
        """
        path = with_query(f"{_PATH}/{quote_name(table)}", query)
        return await self._transport.fetch("GET", path, wire.PipelineTable)

    async def list_job_runs(self, **query: Unpack[JobRunQuery]) -> wire.JobRunList:
        """List runs of all jobs, newest first.

        Args:
            query: `job`, `limit`, `offset`.
        """
        return await self._transport.fetch("GET", with_query(_JOBS, query), wire.JobRunList)

    async def get_job_run(self, run: str) -> wire.JobRunDetail:
        """Return one run of a job with its figures and findings.

        Args:
            run: Its id, as `list_job_runs` lists it.
        """
        return await self._transport.fetch("GET", f"{_JOBS}/{quote_name(run)}", wire.JobRunDetail)
