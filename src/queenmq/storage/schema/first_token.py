"""Stores an API token without a broker: the first one, or one after all others are lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queenmq.storage.connection.connecting import open_connection
from queenmq.storage.connection.driver_errors import translate_error
from queenmq.storage.sql_files import load_queries
from queenmq.storage.stores.access.audit import AuditEntry
from queenmq.storage.stores.access.tokens import NewToken


async def store_token(url: str, token: NewToken, *, target: str) -> Mapping[str, Any]:
    """Store the token and an audit entry. Return the token's row."""
    tokens, audit = load_queries("access/tokens"), load_queries("access/audit")
    entry = AuditEntry(
        token.created_by, "database", None, "token.create", target, None, "local", 201
    )
    async with open_connection(url) as connection:
        with translate_error():
            async with connection.transaction():
                row = await connection.fetchrow(tokens["create_token"], *token)
                await connection.execute(audit["add_entry"], *entry)
    assert row is not None
    return dict(row)
