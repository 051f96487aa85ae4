"""Stores an API token without a broker: the first one, or one after all others are lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queenmq.storage.connection.connecting import connected
from queenmq.storage.connection.driver_errors import translated
from queenmq.storage.sql_files import load_queries
from queenmq.storage.stores.audit import AuditEntry
from queenmq.storage.stores.tokens import NewToken


async def store_token(url: str, token: NewToken, *, target: str) -> Mapping[str, Any]:
    """Store the token and an entry of the audit log; the token's row."""
    tokens, audit = load_queries("tokens"), load_queries("audit")
    entry = AuditEntry(
        token.created_by, "database", None, "token.create", target, None, "local", 201
    )
    async with connected(url) as connection:
        with translated():
            async with connection.transaction():
                row = await connection.fetchrow(tokens["create_token"], *token)
                await connection.execute(audit["add_entry"], *entry)
    assert row is not None
    return dict(row)
