"""What a test does to a broker from a SQL session: hold what its calls need, see who waits, take
leases, end connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import asyncpg

from tests.isolation.sessions import Connect
from tests.support.broker import SOON_S
from tests.support.waiting import wait_until_async

#: A broker that never looks by itself: whatever it delivers, something told it to.
PATIENT = {
    "QUEEN_SMART_POLL_MIN_INTERVAL_MS": "600000",
    "QUEEN_SMART_POLL_MAX_INTERVAL_MS": "600000",
}


class Hold(NamedTuple):
    """A table lock that stops a pop on its way."""

    table: str
    mode: str


#: Nothing of a pop gets through.
LOOKING = Hold("queen.partition_consumers", "ACCESS EXCLUSIVE")
#: Reading gets through, leasing does not.
LEASING = Hold("queen.partition_consumers", "EXCLUSIVE")
#: What can be leased has been decided, the messages are not read yet.
FETCHING = Hold("queen.partitions", "ACCESS EXCLUSIVE")

STATES = {"looking": LOOKING, "leasing": LEASING, "fetching": FETCHING}


@asynccontextmanager
async def held(session: asyncpg.Connection, hold: Hold) -> AsyncIterator[None]:
    """Pops stop at this point for the length of the context."""
    async with session.transaction():
        await session.execute(f"LOCK TABLE {hold.table} IN {hold.mode} MODE")
        yield


async def wait_for_waiters(session: asyncpg.Connection, count: int = 1) -> list[int]:
    """Come back once that many sessions wait for this one; their process ids."""
    # Not pg_stat_activity: in a transaction it does not show sessions opened since the first look.
    query = (
        "SELECT DISTINCT pid FROM pg_locks WHERE NOT granted AND $1 = ANY (pg_blocking_pids(pid))"
    )
    pid = session.get_server_pid()

    async def waiters() -> list[int] | None:
        rows = await session.fetch(query, pid)
        return [row["pid"] for row in rows] if len(rows) >= count else None

    found = await wait_until_async(waiters, timeout_s=SOON_S, what="the broker to wait")
    assert found is not None
    return found


async def listen_for_wakes(connect: Connect, word: str) -> Callable[[], Awaitable[None]]:
    """Return a call that comes back when one more notification with this word in it has come."""
    listener, count = await connect(), asyncio.Semaphore(0)

    def note(*told: object) -> None:
        if word in str(told[-1]):
            count.release()

    await listener.add_listener("queen_wake", note)

    async def heard() -> None:
        async with asyncio.timeout(SOON_S):
            await count.acquire()

    return heard
