"""Batches that are leased first and read apart: what happens between the two steps."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.waiting import wait_until_async

Connect = Callable[[], Awaitable[asyncpg.Connection]]
SOON_MS = int(SOON_S * 1000) - 5000
#: A partition by name is leased without a look-up, which would need the held table, too.
LARGE: dict[str, Any] = {
    "partition": "Default",
    "batch": 50,
    "wait": True,
    "timeout": SOON_MS,
}
READING = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    " AND query LIKE '%pop_sm_fetch%' AND wait_event_type = 'Lock'"
)


@pytest.fixture
async def api(start_broker: Callable[..., BrokerProcess]) -> AsyncIterator[Api]:
    """A broker that reads every batch of more than ten messages apart."""
    client = Api(start_broker(QUEEN_POP_APART_COUNT="10").url)
    yield client
    await client.close()


@contextlib.asynccontextmanager
async def held_reads(connect: Connect) -> AsyncIterator[None]:
    """Leases can be taken, messages cannot be read."""
    # A session of its own: within a transaction the view of activity stands still.
    session = await connect()
    async with session.transaction():
        await session.execute("LOCK TABLE queen.partitions IN ACCESS EXCLUSIVE MODE")
        yield


async def reader_pid(database: asyncpg.Connection) -> int:
    """The session that is about to read a leased batch."""
    return await wait_until_async(
        lambda: database.fetchval(READING), timeout_s=SOON_S, what="a batch to be read apart"
    )


async def test_large_batch_comes_whole_and_in_order(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(500))
    messages = await api.pop(queue, batch=400)
    assert [message["data"] for message in messages] == list(range(400))
    assert len({message["leaseId"] for message in messages}) == 1
    results = await api.ack(*messages)
    assert all(result["success"] for result in results)
    assert await api.data(queue, batch=400) == list(range(400, 500))


async def test_session_killed_between_lease_and_read_leaves_no_lease_behind(
    api: Api, database: asyncpg.Connection, connect: Connect
) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=600)
    # The first pop makes the cursor, and would have to wait for the table that is held below.
    await api.push(queue, "first")
    assert await api.data(queue, autoAck=True) == ["first"]
    await api.push(queue, *range(50))
    async with held_reads(connect):
        pop = asyncio.create_task(api.data(queue, **LARGE))
        await database.execute("SELECT pg_terminate_backend($1)", await reader_pid(database))
    # Long before the lease would have run out.
    assert await pop == list(range(50))


async def test_caller_that_leaves_between_lease_and_read_frees_the_messages(
    api: Api, database: asyncpg.Connection, connect: Connect
) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=600)
    # The first pop makes the cursor, and would have to wait for the table that is held below.
    await api.push(queue, "first")
    assert await api.data(queue, autoAck=True) == ["first"]
    await api.push(queue, *range(50))
    async with held_reads(connect):
        pop = asyncio.create_task(api.pop(queue, **LARGE))
        await reader_pid(database)
        pop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pop
    assert await api.data(queue, batch=50, wait=True, timeout=SOON_MS) == list(range(50))


async def test_batch_of_deleted_messages_is_passed(api: Api, database: asyncpg.Connection) -> None:
    queue = unique()
    await api.push(queue, *range(20))
    await database.execute("DELETE FROM queen.messages")
    await api.push(queue, "next")
    # The range is leased, found empty when it is read, and passed.
    assert await api.data(queue, batch=20, wait=True, timeout=SOON_MS) == ["next"]
