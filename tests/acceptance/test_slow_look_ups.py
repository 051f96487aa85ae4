"""A look-up that takes too long is cancelled, and tried again later with more time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg

from tests.conformance.test_metrics import read
from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.waiting import wait_until_async

_SOON_MS = int(SOON_S * 1000)
_TIMEOUTS = "queen_smart_poll_preflight_timeouts_total"
#: Searches of one queue wait for a lock of the test.
_LOCK = 4711
_SLOW = """
ALTER FUNCTION queen.pending_partitions RENAME TO quick_partitions;
CREATE FUNCTION queen.pending_partitions(text, text, text, text, uuid[])
RETURNS TABLE (partition_id uuid, priority integer, last_served_at timestamptz,
               due_at timestamptz, why text)
LANGUAGE plpgsql AS $$
BEGIN
    IF $1 = '{queue}' THEN
        PERFORM pg_advisory_xact_lock_shared({lock});
    END IF;
    RETURN QUERY SELECT * FROM queen.quick_partitions($1, $2, $3, $4, $5);
END
$$;
"""
_BLOCKED = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@asynccontextmanager
async def _slow(session: asyncpg.Connection, queue: str) -> AsyncIterator[None]:
    """Searches of the queue end no sooner than this does."""
    await session.execute("SELECT pg_advisory_lock($1)", _LOCK)
    await session.execute(_SLOW.format(queue=queue, lock=_LOCK))
    try:
        yield
    finally:
        await session.execute("SELECT pg_advisory_unlock($1)", _LOCK)


async def _wait_for_timeouts(api: Api, count: int) -> None:
    async def are_counted() -> bool:
        return (await read(api))[_TIMEOUTS] >= count

    await wait_until_async(are_counted, timeout_s=SOON_S, what=f"{count} look-ups that time out")


async def test_a_slow_look_up_ends_and_its_pops_are_served_later(
    start_broker: Callable[..., BrokerProcess], database: asyncpg.Connection
) -> None:
    slow, other = unique(), unique()
    # Four connections, so that one that is not given back is missed.
    broker = start_broker(QUEEN_DB_POOL_SIZE="4")
    api = Api(broker.url)
    for queue in (slow, other):
        for place in "ab":
            await database.execute(
                "SELECT queen.push($1, payload => to_json($2::text), partition => $3)",
                queue,
                place,
                place,
            )
    async with _slow(database, slow):
        pops = [
            asyncio.create_task(api.data(slow)),
            asyncio.create_task(api.data(slow, wait=True, timeout=_SOON_MS)),
        ]
        await _wait_for_timeouts(api, 1)
        assert not any(pop.done() for pop in pops), "a pop failed because a look-up was slow"
        assert sorted(await api.data(other) + await api.data(other)) == ["a", "b"]
        assert (await api.push(other, 1))[0]["status"] == "queued"
    found = await asyncio.gather(*pops)
    assert sorted(payload for batch in found for payload in batch) == ["a", "b"]
    assert await database.fetchval(_BLOCKED) == 0
    samples = await read(api)
    assert samples.get("queen_pop_state_entries_total{state=failed}", 0) == 0
    assert (await api.http.get("/health")).json()["database"] == "connected"
    await api.close()
    assert broker.stop() == 0
    (line,) = [line for line in broker.log if "was cancelled" in line]
    assert "look-up" in line and "smart_poll_preflight_timeout_ms" in line


async def test_a_cancelled_look_up_leaves_no_statement_behind(
    start_broker: Callable[..., BrokerProcess], database: asyncpg.Connection
) -> None:
    queue = unique()
    api = Api(start_broker(QUEEN_SMART_POLL_PREFLIGHT_TIMEOUT_MS="20").url)
    async with _slow(database, queue):
        pop = asyncio.create_task(api.pop(queue, wait=True, timeout=_SOON_MS))
        await _wait_for_timeouts(api, 1)

        async def is_none_left() -> bool:
            return await database.fetchval(_BLOCKED) == 0

        # Between two tries, the lock is still held and no session waits for it.
        await wait_until_async(is_none_left, timeout_s=SOON_S, what="the end of the statement")
        pop.cancel()
    await api.close()
