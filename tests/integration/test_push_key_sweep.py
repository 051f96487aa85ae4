"""Idempotency keys of pushes are forgotten in time, but not while a spool may hold a copy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from queenmq.settings import load
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.admin import AdminStore
from queenmq.storage.stores.operations import PostgresOperationStore

_SPOOL = "spool:one"


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url, load({}))
    await opened.open()
    yield opened
    await opened.close()


async def _note(database: asyncpg.Connection, age_s: int) -> None:
    await database.execute(
        "INSERT INTO queen.push_keys (key, digest, origin, created_at)"
        " VALUES ($1, $1, $1, clock_timestamp() - make_interval(secs => $2))",
        uuid4(),
        age_s,
    )


async def test_only_old_keys_are_removed(database: asyncpg.Connection, pool: Database) -> None:
    for age_s in (700, 500):
        await _note(database, age_s)
    assert await AdminStore(pool).sweep_push_keys(older_than_s=600, limit=5_000) == 1
    assert await AdminStore(pool).sweep_push_keys(older_than_s=400, limit=0) == 0


async def test_keys_are_kept_while_a_spool_may_hold_a_copy(
    database: asyncpg.Connection, pool: Database
) -> None:
    admin, states = AdminStore(pool), PostgresOperationStore(pool)
    for age_s in (2_000, 1_000):
        await _note(database, age_s)
    await states.write_state(_SPOOL, {"waiting": 1, "aside": 0})
    assert await admin.sweep_push_keys(older_than_s=600, limit=5_000) == 0
    # A spool that was heard of last before a key was noted has no copy of that request.
    await database.execute(
        "UPDATE queen.system_state SET updated_at = now() - interval '1500 seconds'"
        " WHERE name = $1",
        _SPOOL,
    )
    assert await admin.sweep_push_keys(older_than_s=600, limit=5_000) == 1
    await states.write_state(_SPOOL, {"waiting": 0, "aside": 1})
    assert await admin.sweep_push_keys(older_than_s=600, limit=5_000) == 1
