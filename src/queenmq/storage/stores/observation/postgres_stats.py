"""The health of PostgreSQL, for dashboards."""

from __future__ import annotations

from typing import Any

from queenmq.clock import utc_now
from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.schema.foreign import own_relations
from queenmq.storage.sql_files import load_queries


class PostgresStatsStore:
    """Reads PostgreSQL's own statistics, as far as the broker's role may see them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("observation/postgres_stats")
        self._vacuum = load_queries("schema/vacuum_report")

    async def _rows(self, query: str, *args: object) -> list[dict[str, Any]]:
        rows = await self._database.fetch(query, *args, priority=OperationType.ANALYTICS)
        return [dict(row) for row in rows]

    async def read(self) -> dict[str, Any]:
        """Return caches, dead rows, autovacuum, queries and sizes."""
        (server,) = await self._rows(self._sql["database_cache"])
        table_cache = await self._rows(self._sql["table_cache"])
        index_cache = await self._rows(self._sql["index_cache"])
        tables = await self._rows(self._vacuum["tables"], own_relations())
        config = await self._rows(self._sql["buffer_config"])
        database = server.pop("database")
        return {
            "timestamp": utc_now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "database": database,
            "databaseCache": server,
            "tableCache": table_cache,
            "indexCache": index_cache,
            "cacheSummary": {"tables": _sum(table_cache), "indexes": _sum(index_cache)},
            "deadTuples": [_pick(row, "liveRows", "deadRows", "lastVacuum") for row in tables],
            "hotUpdates": [_pick(row, "updates", "hotUpdates") for row in tables],
            "activeQueries": await self._rows(self._sql["active_queries"]),
            "autovacuumStatus": [
                _pick(row, "isAutovacuumed", "vacuums", "vacuumAtDeadRows", "lastVacuum", "xidAge")
                for row in tables
            ],
            "bufferConfig": {row["name"]: row["value"] for row in config},
            # Needs an extension that only a superuser can install.
            "bufferUsage": [],
            "tableSizes": [_pick(row, "tableBytes", "indexBytes", "totalBytes") for row in tables],
            "xminHolders": await self._rows(self._vacuum["holders"]),
            "slowStatements": await self._list_slow_statements(),
        }

    async def _list_slow_statements(self) -> list[dict[str, Any]] | None:
        """Return the statements that took most of the server's time; None if it does not count."""
        (found,) = await self._rows(self._sql["has_statements"])
        return await self._rows(self._sql["slow_statements"]) if found["is_there"] else None


def _pick(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {"table": row["table"], **{name: row[name] for name in names}}


def _sum(rows: list[dict[str, Any]]) -> dict[str, Any]:
    hit, read = (sum(row[name] for row in rows) for name in ("blocksHit", "blocksRead"))
    ratio = round(100 * hit / (hit + read), 2) if hit + read else None
    return {"blocksHit": hit, "blocksRead": read, "hitRatio": ratio}
