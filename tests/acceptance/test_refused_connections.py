"""The server lets nobody else in: what is connected goes on, and is not taken for an outage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from queenmq.engine.load.pressure import OperationType
from queenmq.engine.news import News
from queenmq.errors import AccessRefused, StorageUnavailable
from queenmq.settings import Settings
from queenmq.storage.connection.connecting import open_connection
from queenmq.storage.connection.database import Database
from tests.acceptance.load import Wire
from tests.support.broker import SOON_S, running_broker, unique
from tests.support.own_postgres import OwnPostgres
from tests.support.producers import Producers
from tests.support.waiting import wait_until_async

_GRANTS = (
    "CREATE ROLE app LOGIN PASSWORD 'hush'",
    "GRANT ALL ON SCHEMA queen TO app",
    "GRANT ALL ON ALL TABLES IN SCHEMA queen TO app",
)
#: What keeps the role from connecting, and what it is called.
_BARS = {
    "no_connection_slot": "ALTER ROLE app CONNECTION LIMIT 0",
    "access_refused": "ALTER ROLE app NOLOGIN",
    "missing_privilege": "REVOKE CONNECT ON DATABASE queen FROM PUBLIC",
}


@pytest.fixture
async def app_url(server: OwnPostgres) -> str:
    """The database for a role that has no privileges to connect beyond those of everybody."""
    await server.execute(*_GRANTS)
    return server.url.replace("queen@", "app:hush@")


@pytest.fixture
def news() -> News:
    return News()


@pytest.fixture
async def pool(app_url: str, news: News) -> AsyncIterator[Database]:
    """Open, with one connection that is idle."""
    opened = Database(app_url, Settings(db_pool_size=8, db_hang_ms=200), news)
    await opened.open()
    yield opened
    await opened.close()


async def _call(pool: Database, query: str = "SELECT 1") -> int:
    found: int = await pool.fetch_value(query, priority=OperationType.PUSH)
    return found


@pytest.mark.parametrize("bar", _BARS.values(), ids=_BARS)
async def test_open_connection_is_proof_that_the_database_is_up(
    bar: str, server: OwnPostgres, pool: Database, news: News
) -> None:
    await server.execute(bar)
    await pool.probe()
    # Also while a call is on it.
    outcomes: list[bool] = []
    news.database_down.declare(lambda: outcomes.append(True))
    call = asyncio.create_task(_call(pool, "SELECT 1 FROM pg_sleep(1)"))
    await asyncio.gather(call, pool.probe())
    assert not pool.watch.is_down and outcomes == []


async def test_calls_share_the_connections_there_are(server: OwnPostgres, pool: Database) -> None:
    await server.execute(_BARS["no_connection_slot"])
    found = await asyncio.gather(*(_call(pool, f"SELECT {number}") for number in range(50)))
    assert found == list(range(50))


async def test_calls_fail_when_there_are_none(server: OwnPostgres, pool: Database) -> None:
    await server.execute(_BARS["no_connection_slot"])
    calls = [asyncio.create_task(_call(pool, "SELECT 1 FROM pg_sleep(600)")) for _ in range(8)]

    async def is_cut() -> bool:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'"
        await server.execute(cut)
        return all(call.done() for call in calls)

    await wait_until_async(is_cut, timeout_s=SOON_S, what="all calls to fail")
    errors = [call.exception() for call in calls]
    assert all(isinstance(error, StorageUnavailable) for error in errors), errors
    with pytest.raises(StorageUnavailable) as caught:
        await pool.probe()
    assert caught.value.reason == "no_connection_slot"


@pytest.mark.parametrize(("reason", "bar"), _BARS.items(), ids=_BARS)
async def test_refusal_says_which_and_what_to_do(
    reason: str, bar: str, server: OwnPostgres, app_url: str
) -> None:
    await server.execute(bar)
    with pytest.raises(StorageUnavailable) as caught:
        async with open_connection(app_url):
            pass
    error = caught.value
    assert error.reason == reason
    assert isinstance(error, AccessRefused) == (reason != "no_connection_slot")
    assert server.address in str(error)
    for secret in ("app", "hush", "127.0.0.1", "queen"):
        assert secret not in error.public
    assert "hush" not in str(error)


async def test_full_server_is_no_outage(server: OwnPostgres) -> None:
    """All of max_connections is taken by others."""
    with running_broker(database_url=server.url, QUEEN_DB_HANG_MS="200") as broker:
        async with Producers([broker.url], unique(), 4) as producers:
            await producers.more(5)
            sessions: list[asyncpg.Connection] = []
            try:
                with pytest.raises(asyncpg.TooManyConnectionsError):
                    while True:
                        sessions.append(await asyncpg.connect(server.url_of("postgres")))
                # A call that takes long has the database probed.
                await sessions[0].close()
                sessions[0] = await asyncpg.connect(server.url)
                await _hold_up(broker.url, sessions[0], producers.queue)
                await producers.more(20)
            finally:
                for session in sessions:
                    await session.close()
            await producers.stop()
            assert set(producers.seen) == {201, "queued"}
        broker.stop()
    assert not [line for line in broker.log if "is down" in line]


async def _hold_up(url: str, session: asyncpg.Connection, queue: str) -> None:
    """Have a call of the broker wait for a while, for a lock on a queue that is no producer's."""
    async with Wire(url) as wire:
        other = f"{queue}-other"
        assert (await wire.push(other, 1)).status == 201
        held = session.transaction()
        await held.start()
        await session.execute("SELECT FROM queen.queues WHERE name = $1 FOR UPDATE", other)
        wire.send("DELETE", f"/api/v1/resources/queues/{other}")
        await session.execute("SELECT pg_sleep(1)")
        await held.rollback()
        assert (await wire.receive()).status == 200
