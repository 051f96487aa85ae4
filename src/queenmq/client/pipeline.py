"""Owns `queen.pipeline`: what jobs on Spark have found. Answers are the server's JSON."""

from __future__ import annotations

from typing import Any

from queenmq.client.calls import quoted, with_query
from queenmq.client.http.transport import Transport

_PATH = "/api/v1/analytics/pipeline"


class Pipeline:
    """Runs of `queen pipeline analytics` and their tables."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list_runs(self, **query: Any) -> Any:
        """Newest first; `limit`, `offset`."""
        return await self._transport.call("GET", with_query(_PATH, query))

    async def get_table(self, table: str, **query: Any) -> Any:
        """Rows of one table, of the newest run unless `run` names another.

        `queue`, `consumerGroup`, `from`, `to`, `limit`, `offset` narrow them; `from` is a word of
        Python, so it is given as `**{"from": ...}`.
        """
        path = f"{_PATH}/{quoted(table)}"
        return await self._transport.call("GET", with_query(path, query))
