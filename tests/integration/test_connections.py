"""Connections between two calls: used again, and replaced when they were lost meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from queenmq.engine.load.pressure import OperationType
from queenmq.errors import QueenError, StorageUnavailable
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from tests.support.waiting import wait_until_async

_PID = "SELECT pg_backend_pid()"
SOON_S = 30.0


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


_RUNNING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND pid = $1"


@pytest.mark.parametrize("ends_by", ["cancellation", "timeout"])
async def test_a_call_that_is_given_up_ends_on_the_server_and_its_connection_goes_on(
    ends_by: str, pool: Database, database: asyncpg.Connection
) -> None:
    pid = await _pid(pool)
    call = asyncio.create_task(
        pool.fetch(
            "SELECT pg_sleep(600)",
            priority=OperationType.PUSH,
            timeout_s=0.5 if ends_by == "timeout" else None,
        )
    )

    async def is_running() -> bool:
        found: int = await database.fetchval(_RUNNING, pid)
        return found == 1

    await wait_until_async(is_running, timeout_s=SOON_S, what="the call")
    if ends_by == "cancellation":
        call.cancel()
    with pytest.raises((asyncio.CancelledError, StorageUnavailable)):
        await call
    await wait_until_async(
        lambda: pool.pool_use().in_use == 0, timeout_s=SOON_S, what="the connection to be mended"
    )
    assert await database.fetchval(_RUNNING, pid) == 0
    assert await _pid(pool) == pid, "the connection is as good as before"


async def test_calls_get_connections_by_their_urgency(database_url: str) -> None:
    pool = Database(database_url, Settings(db_pool_size=1))
    await pool.open()
    order: list[OperationType] = []

    async def call(kind: OperationType) -> None:
        await pool.fetch("SELECT 1", priority=kind)
        order.append(kind)

    running = asyncio.create_task(
        pool.fetch("SELECT 1 FROM pg_sleep(0.2)", priority=OperationType.POP)
    )
    await wait_until_async(lambda: pool.pool_use().in_use, timeout_s=SOON_S, what="a call")
    kinds = [
        OperationType.ANALYTICS,
        OperationType.POP,
        OperationType.PUSH,
        OperationType.ACK_BATCH,
    ]
    await asyncio.gather(running, *map(call, kinds))
    assert order == sorted(kinds)
    await pool.close()
    with pytest.raises(StorageUnavailable):
        await pool.fetch("SELECT 1", priority=OperationType.PUSH)
