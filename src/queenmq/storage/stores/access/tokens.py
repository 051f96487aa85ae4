"""API tokens and sessions, stored as hashes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from queenmq.auth.tokens import StoredToken
from queenmq.engine.load.pressure import OperationType
from queenmq.storage.connection.database import Database
from queenmq.storage.sql_files import load_queries


class NewToken(NamedTuple):
    """A token to store; see the table api_tokens."""

    kind: str
    name: str
    token_hash: bytes
    shown: str
    subject: str | None
    role: str
    queues: Sequence[str] | None
    verbs: Sequence[str] | None
    created_by: str | None
    expires_at: datetime | None
    parent_id: UUID | None = None


class TokenStore:
    """Stores tokens. Requests wait for these queries, so they go first."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load_queries("access/tokens")

    async def create(self, token: NewToken) -> Mapping[str, Any]:
        """Store a token. Return the row without its hash."""
        row = await self._database.fetch_row(
            self._sql["create_token"], *token, priority=OperationType.SYSTEM_EVENT
        )
        return dict(row)

    async def find(self, token_hash: bytes) -> StoredToken | None:
        """Return a valid token, or None."""
        rows = await self._database.fetch(
            self._sql["find_token"], token_hash, priority=OperationType.SYSTEM_EVENT
        )
        if not rows:
            return None
        row = dict(rows[0])
        if row["expires_s"] is None:
            row["expires_s"] = math.inf
        return StoredToken(**row)

    async def still_good(self, ids: Collection[str]) -> set[str]:
        """Return which of these are neither revoked nor expired."""
        rows = await self._database.fetch(
            self._sql["still_good"], list(ids), priority=OperationType.SYSTEM_EVENT
        )
        return {row[0] for row in rows}

    async def note_use(self, ids: Collection[str]) -> None:
        """Record that these were used just now."""
        await self._database.fetch(
            self._sql["note_use"], list(ids), priority=OperationType.BACKGROUND
        )

    async def list(self, *, has_sessions: bool, limit: int, offset: int) -> list[Mapping[str, Any]]:
        """Return a page of tokens, newest first."""
        rows = await self._database.fetch(
            self._sql["list_tokens"],
            has_sessions,
            limit,
            offset,
            priority=OperationType.BACKGROUND,
        )
        return [dict(row) for row in rows]

    async def revoke(self, token_id: UUID) -> str | None:
        """Revoke a token. Return its name, or None if there is none."""
        rows = await self._database.fetch(
            self._sql["revoke_token"], token_id, priority=OperationType.SYSTEM_EVENT
        )
        return rows[0][0] if rows else None

    async def sweep_tokens(self, *, older_than_s: int, limit: int) -> int:
        """Remove ended sessions and tokens that ended long ago. Return the number of rows."""
        removed: int = await self._database.fetch_value(
            self._sql["sweep_tokens"], older_than_s, limit, priority=OperationType.BACKGROUND
        )
        return removed
