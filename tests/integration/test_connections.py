"""Connections between two calls: used again, and replaced when they were lost meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from queenmq.engine.load.pressure import OperationType
from queenmq.errors import QueenError
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database

_PID = "SELECT pg_backend_pid()"


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url, Settings(db_pool_size=2))
    await opened.open()
    yield opened
    await opened.close()


async def _pid(pool: Database) -> int:
    found: int = await pool.fetch_value(_PID, priority=OperationType.PUSH)
    return found


async def test_calls_one_after_the_other_share_a_connection(pool: Database) -> None:
    assert len({await _pid(pool) for _ in range(5)}) == 1
    assert (pool.pool_use().idle, pool.pool_use().in_use) == (1, 0)


async def test_lost_connections_are_replaced(pool: Database, database: asyncpg.Connection) -> None:
    for _ in range(5):
        pids = await asyncio.gather(_pid(pool), _pid(pool))
        assert len(set(pids)) == 2
        # Comes back when the processes have ended.
        await database.fetch(
            "SELECT pg_terminate_backend(u.pid, 5000) FROM unnest($1::integer[]) AS u (pid)", pids
        )
        # Each of them may be noticed by a call, never by more than one.
        found = [await _try(pool) for _ in range(4)]
        assert found.count(None) <= 2
        assert found[-1] is not None
        assert set(found).isdisjoint(pids)
    assert pool.pool_use().in_use == 0


async def _try(pool: Database) -> int | None:
    try:
        return await _pid(pool)
    except QueenError:
        return None


async def test_a_failed_call_takes_no_connection_away(pool: Database) -> None:
    for _ in range(5):
        with pytest.raises(QueenError):
            await pool.fetch("SELECT 1 / 0", priority=OperationType.PUSH)
    assert len(set(await asyncio.gather(_pid(pool), _pid(pool)))) == 2


async def test_the_smallest_commit_is_timed_with_its_way_to_the_log(
    pool: Database, database: asyncpg.Connection
) -> None:
    flushed = "SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')"
    before = await database.fetchval(flushed)
    assert await pool.time_commit() > 0
    assert await database.fetchval(flushed) > before
    assert pool.pool_use().in_use == 0
