"""The audit log of administrators."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries


class AuditEntry(NamedTuple):
    """One action; see the table audit_log."""

    who: str | None
    how: str
    role: str | None
    action: str
    target: str
    details: str | None
    address: str
    status: int


class AuditFilter(NamedTuple):
    """Selects entries. An action may be its first word: `queue` for `queue.delete`."""

    start: datetime
    end: datetime
    who: str | None
    action: str | None


class AuditStore:
    """Adds entries one by one and removes them by age."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("access/audit")

    async def add(self, entry: AuditEntry) -> None:
        """Store an entry."""
        await self._database.fetch(
            self._sql["add_entry"], *entry, priority=OperationType.SYSTEM_EVENT
        )

    async def list(self, which: AuditFilter, *, limit: int, offset: int) -> list[Mapping[str, Any]]:
        """Return a page, newest first."""
        rows = await self._database.fetch(
            self._sql["list_entries"], *which, limit, offset, priority=OperationType.BACKGROUND
        )
        return [dict(row) for row in rows]

    async def sweep_audit(self, *, older_than_s: int, limit: int) -> int:
        """Remove old entries. Return how many."""
        removed: int = await self._database.fetch_value(
            self._sql["sweep_audit"], older_than_s, limit, priority=OperationType.BACKGROUND
        )
        return removed
