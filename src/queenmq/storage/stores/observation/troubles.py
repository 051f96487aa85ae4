"""Finds problems of all queues in the database."""

from __future__ import annotations

from typing import Any

from queenmq.engine.diagnosis.overall import DeadLetters, LateGroup, XminHolder
from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries

#: A message that is due for longer than this is late.
_LATE_S = 60.0
#: More than any answer has, because a limited caller gets only its own queues.
_GROUPS_MAX = 1_000
#: Dead letters count as news for this long; more than so many of a queue are not counted.
_NEWS_S = 3_600.0
_LETTERS_MAX = 10_000
_QUEUES_MAX = 1_000


class TroubleStore:
    """Read models; the last to get a connection when many want one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("observation/troubles")
        self._vacuum = load_queries("schema/vacuum_report")

    async def _fetch(self, query: str, *args: Any) -> list[Any]:
        return await self._database.fetch(query, *args, priority=OperationType.ANALYTICS)

    async def late_groups(self) -> list[LateGroup]:
        """Return groups that leave messages waiting, the latest first."""
        rows = await self._fetch(self._sql["late_groups"], _LATE_S, _GROUPS_MAX)
        return [
            LateGroup(
                queue=row["queue"],
                consumer_group=row["consumer_group"],
                messages=row["messages"],
                partitions=row["partitions"],
                oldest_s=row["oldest_s"],
            )
            for row in rows
        ]

    async def dead_letters(self) -> list[DeadLetters]:
        """Return queues with dead letters of the last hour, the most first."""
        rows = await self._fetch(
            self._sql["recent_dead_letters"], _NEWS_S, _LETTERS_MAX, _QUEUES_MAX
        )
        return [DeadLetters(row["queue"], row["letters"], row["error"]) for row in rows]

    async def xmin_holders(self) -> list[XminHolder]:
        """Return what keeps dead rows from being removed, the oldest first."""
        rows = await self._fetch(self._vacuum["holders"])
        return [XminHolder(row["what"], row["xidAge"], row["seconds"]) for row in rows]
