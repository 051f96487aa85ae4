"""Owns `queen.pipeline`: results of jobs on Spark."""

from __future__ import annotations

from typing import Unpack

from queenmq import wire
from queenmq.client.admin.queries import PageQuery, PipelineQuery
from queenmq.client.calls import quote_name, with_query
from queenmq.client.http.transport import Transport

_PATH = "/api/v1/analytics/pipeline"


class Pipeline:
    """Runs of `queen pipeline analytics` and their tables."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list_runs(self, **query: Unpack[PageQuery]) -> wire.PipelineRunList:
        """List runs, newest first.

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
