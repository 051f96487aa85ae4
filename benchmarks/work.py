"""Count the work of a database: bytes of log and disk, commits and statements."""

from __future__ import annotations

from typing import NamedTuple, Self

import asyncpg

from benchmarks.database import queries

#: The library that counts statements; PostgreSQL ships it.
STATEMENTS = "pg_stat_statements"


class DatabaseWork(NamedTuple):
    """Done so far, or between two readings."""

    wal_bytes: float
    disk_bytes: float
    commits: float
    statements: float

    @classmethod
    async def read(cls, connection: asyncpg.Connection) -> Self:
        """Read the counters of the connection's database."""
        row = await connection.fetchrow(queries()["work"])
        assert row is not None
        return cls(*row)

    def since(self, before: DatabaseWork) -> DatabaseWork:
        return DatabaseWork(*(now - then for now, then in zip(self, before, strict=True)))

    def per(self, messages: int) -> DatabaseWork:
        return DatabaseWork(*(one / max(1, messages) for one in self))
