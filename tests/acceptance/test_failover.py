"""The primary is lost and a standby promoted: the broker follows, and nothing answered is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.support.black_hole import BlackHole, black_hole
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.own_postgres import OwnPostgres, running_standby
from tests.support.producers import Producers
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow

_PRODUCERS = 8
StartBroker = Callable[..., BrokerProcess]


class Pair:
    """A primary behind a network that can be cut, and its standby."""

    def __init__(self, primary: OwnPostgres, standby: OwnPostgres, network: BlackHole) -> None:
        self.primary = primary
        self.standby = standby
        self.network = network

    @property
    def url(self) -> str:
        return f"postgresql://queen@{self.network.address},{self.standby.address}/queen"


@pytest.fixture
async def pair(server: OwnPostgres) -> AsyncIterator[Pair]:
    """Commits wait for the standby, so that it has whatever was answered."""
    with contextlib.ExitStack() as stack:
        standby = await asyncio.to_thread(stack.enter_context, running_standby(server))
        await server.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await server.execute("SELECT pg_reload_conf()")
        async with black_hole(server.address) as network:
            yield Pair(server, standby, network)


@pytest.fixture
def start(pair: Pair, tmp_path: Path) -> Iterator[StartBroker]:
    """Starts brokers on both servers."""
    brokers: list[BrokerProcess] = []

    def start_broker(*arguments: str, **environ: str) -> BrokerProcess:
        words = ["--log-level", "error", "--database-url", pair.url, *arguments]
        environ = {"QUEEN_SPOOL_DIR": str(tmp_path / f"spool-{len(brokers)}"), **environ}
        brokers.append(BrokerProcess(words, environ=environ))
        return brokers[-1]

    yield start_broker
    for broker in brokers:
        broker.close()


async def kill(pair: Pair) -> None:
    await asyncio.to_thread(pair.primary.kill)


async def freeze(pair: Pair) -> None:
    pair.primary.freeze()


async def cut(pair: Pair) -> None:
    pair.network.cut()


LOSSES = [kill, freeze, cut]


@pytest.mark.parametrize("lose", LOSSES, ids=[one.__name__ for one in LOSSES])
async def test_broker_follows_a_promotion(
    lose: Callable[[Pair], Awaitable[None]], pair: Pair, start: StartBroker
) -> None:
    broker = await asyncio.to_thread(start)
    async with Producers([broker.url], unique(), _PRODUCERS) as producers:
        await producers.more(20)
        await lose(pair)
        await pair.standby.promote()
        await producers.saw("queued")
        await producers.more(20)
        await producers.stop()
        await producers.assert_complete(broker.url)


async def test_broker_follows_a_promotion_that_comes_late(pair: Pair, start: StartBroker) -> None:
    broker = await asyncio.to_thread(start, QUEEN_DB_HANG_MS="300")
    async with Producers([broker.url], unique(), _PRODUCERS) as producers:
        await producers.more(20)
        await freeze(pair)
        await producers.saw("buffered")
        await producers.more(20)
        await pair.standby.promote()
        await producers.saw("queued")
        await producers.stop()
        await producers.assert_complete(broker.url)


async def test_old_primary_that_comes_back_gets_nothing(pair: Pair, start: StartBroker) -> None:
    # Without a standby to wait for it would take whatever comes.
    await _reset_replication(pair)
    broker = await asyncio.to_thread(start)
    async with Producers([broker.url], unique(), _PRODUCERS) as producers:
        await producers.more(5)
        await freeze(pair)
        await pair.standby.promote()
        await producers.saw("queued")
        pair.primary.thaw()
        await _wait_until_alone(pair.primary)
        before = await _count_messages(pair.primary)
        await producers.more(20)
        # A broker that knows nothing of all this: the old primary stands first in its URL.
        other = await asyncio.to_thread(start)
        producers.urls = [other.url]
        await producers.more(20)
        await producers.stop()
        assert await _count_messages(pair.primary) == before
        assert await _count_messages(pair.standby) >= 40 * _PRODUCERS


async def test_promotion_is_followed_while_the_old_primary_answers(
    pair: Pair, start: StartBroker
) -> None:
    broker = await asyncio.to_thread(start)
    async with Producers([broker.url], unique(), _PRODUCERS) as producers:
        await producers.more(20)
        await pair.standby.promote()
        await _wait_until_alone(pair.primary)
        await producers.more(20)
        await producers.stop()
        await producers.assert_complete(broker.url)


async def test_broker_on_a_primary_that_becomes_read_only_finds_the_other(
    pair: Pair, start: StartBroker
) -> None:
    broker = await asyncio.to_thread(start)
    await _reset_replication(pair)
    async with Producers([broker.url], unique(), _PRODUCERS) as producers:
        await producers.more(20)
        await pair.primary.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        await pair.primary.execute("SELECT pg_reload_conf()")
        await producers.saw("buffered")
        await pair.standby.promote()
        await producers.saw("queued")
        await producers.stop()


async def _reset_replication(pair: Pair) -> None:
    await pair.primary.execute("ALTER SYSTEM RESET synchronous_standby_names")
    await pair.primary.execute("SELECT pg_reload_conf()")


async def _count_messages(server: OwnPostgres) -> int:
    return await _fetch_value(server, "SELECT count(*) FROM queen.messages")


async def _wait_until_alone(server: OwnPostgres) -> None:
    """Come back when no broker is connected to the server.

    Sessions that wait for the standby do not notice that their client has gone.
    """
    sessions = (
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        " AND pid <> pg_backend_pid() AND wait_event IS DISTINCT FROM 'SyncRep'"
    )

    async def is_alone() -> bool:
        return await _fetch_value(server, sessions) == 0

    await wait_until_async(is_alone, timeout_s=SOON_S, what="the broker to leave")


async def _fetch_value(server: OwnPostgres, query: str) -> int:
    connection = await asyncpg.connect(server.url, timeout=SOON_S)
    try:
        found: int = await connection.fetchval(query)
        return found
    finally:
        await connection.close()
