"""A broker starts while its database is away: pushes are kept, and it becomes whole by itself."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.acceptance.load import Wire, pop_path
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.own_postgres import OwnPostgres
from tests.support.producers import Producers, pop_all
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow

StartBroker = Callable[..., BrokerProcess]
#: A server that hangs is given up soon.
_QUICK = {"QUEEN_DB_HANG_MS": "500", "QUEEN_DB_CONNECT_TIMEOUT_MS": "500"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartBroker]:
    """Starts brokers that share a spool, one after the other."""
    brokers: list[BrokerProcess] = []

    def start_broker(url: str, *arguments: str, **environ: str) -> BrokerProcess:
        words = ["--log-level", "error", "--database-url", url, *arguments]
        environ = {"QUEEN_SPOOL_DIR": str(tmp_path / "spool"), **_QUICK, **environ}
        brokers.append(BrokerProcess(words, environ=environ))
        return brokers[-1]

    yield start_broker
    for broker in brokers:
        broker.close()


async def stop(server: OwnPostgres) -> None:
    await asyncio.to_thread(server.stop)


async def start_again(server: OwnPostgres) -> None:
    await asyncio.to_thread(server.start)


async def freeze(server: OwnPostgres) -> None:
    server.freeze()


async def thaw(server: OwnPostgres) -> None:
    server.thaw()


Change = Callable[[OwnPostgres], Awaitable[None]]


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(("leave", "come"), [(stop, start_again), (freeze, thaw)])
async def test_broker_becomes_whole_when_the_database_comes(
    leave: Change, come: Change, workers: str, server: OwnPostgres, start: StartBroker
) -> None:
    # A database that no broker has seen yet.
    await server.execute("CREATE DATABASE fresh OWNER queen")
    await leave(server)
    broker = await asyncio.to_thread(start, server.url_of("fresh"), "--workers", workers)
    async with Producers([broker.url], unique(), 4) as producers:
        await producers.more(5)
        assert set(producers.seen) == {202, "buffered"}
        await _assert_says_what_works(broker.url)
        await come(server)
        await producers.saw("queued")
        await producers.more(5)
        await producers.stop()
        await producers.assert_complete(broker.url)
    await _wait_until_healthy(broker.url)


async def _assert_says_what_works(url: str) -> None:
    async with Wire(url) as wire:
        answer = await wire.call("GET", "/health")
        assert answer.status == 503
        assert (answer.body["status"], answer.body["database"]) == ("unhealthy", "disconnected")
        found = answer.body["capabilities"]
        assert {name: one["status"] for name, one in found.items()} == {
            "push": "spooled",
            "pop": "refused",
            "ack": "refused",
            "transaction": "refused",
            "admin": "refused",
        }
        assert {one["reason"] for one in found.values()} <= {"unreachable", "no_answer"}
        pages = ("/health/live", "/health/ready", "/health/ready?for=push", "/health/ready?for=pop")
        assert [(await wire.call("GET", page)).status for page in pages] == [200, 503, 200, 503]
        refused = [
            await wire.call("GET", pop_path("q")),
            await wire.call("POST", "/api/v1/configure", {"queue": "q"}),
            await wire.call("GET", "/api/v1/status/queues"),
        ]
        assert [one.status for one in refused] == [503, 503, 503]
        assert all("127.0.0.1" not in one.body["error"] for one in refused)


async def _wait_until_healthy(url: str, *, is_drained: bool = False) -> dict[str, Any]:
    async with Wire(url) as wire:

        async def look() -> dict[str, Any] | None:
            answer = await wire.call("GET", "/health")
            if answer.status != 200 or (is_drained and answer.body["spool"]["pending"]):
                return None
            return answer.body

        return await wait_until_async(look, timeout_s=SOON_S, what="the broker to be healthy")


async def test_pushes_keep_their_order_over_starts_without_the_database(
    server: OwnPostgres, start: StartBroker
) -> None:
    queue, pushed = unique(), 0

    async def push_some(broker: BrokerProcess) -> None:
        nonlocal pushed
        async with Wire(broker.url) as wire:
            for _ in range(3):
                assert (await wire.push(queue, pushed)).status == 202
                pushed += 1

    broker = await asyncio.to_thread(start, server.url)
    await stop(server)
    # Kept for a database that is known, and then twice for one that is not.
    await push_some(broker)
    for _ in range(2):
        await asyncio.to_thread(broker.kill)
        broker = await asyncio.to_thread(start, server.url)
        await push_some(broker)
    await asyncio.to_thread(broker.kill)
    await start_again(server)
    broker = await asyncio.to_thread(start, server.url)
    assert (await pop_all(broker.url, queue, pushed))["Default"] == list(range(pushed))
    # A message can be popped before the broker has noted on its disk that it is stored.
    found = await _wait_until_healthy(broker.url, is_drained=True)
    assert found["spool"] == {"pending": 0, "pendingBytes": 0, "setAside": 0}


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://queen:secret@{address}/queen", ["mysql:", "postgresql://"]),
        ("postgresql://nobody:secret@{address}/queen", ["{address}", '"nobody"', "URL"]),
        ("postgresql://queen:secret@{address}/nowhere", ["{address}", '"nowhere"', "create"]),
        ("postgresql://guest:secret@{address}/queen", ["{address}", "privilege", "grant"]),
        ("postgresql://guest:wrong@{address}/queen", ["{address}", '"guest"', "password"]),
    ],
)
async def test_mistake_stops_the_start_and_is_named(
    url: str, words: list[str], server: OwnPostgres, tmp_path: Path
) -> None:
    await server.execute(
        "CREATE ROLE guest LOGIN PASSWORD 'secret'", "REVOKE ALL ON DATABASE queen FROM PUBLIC"
    )
    if "guest" in url:
        server.demand_password("guest")
    found = await asyncio.to_thread(
        _run, "serve", "--port", "0", url.format(address=server.address)
    )
    checked = await asyncio.to_thread(_run, "db", "check", url.format(address=server.address))
    for run in (found, checked):
        # A URL of another kind is a wrong setting; the others are refused by the database.
        assert run.returncode == (2 if url.startswith("mysql:") else 1), run.stderr
        (line,) = run.stderr.splitlines()
        assert all(word.format(address=server.address) in line for word in words), line
        assert "secret" not in line and "wrong" not in line


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    *command, url = words
    return subprocess.run(
        [sys.executable, "-m", "queenmq", *command, "--database-url", url],
        capture_output=True,
        text=True,
        timeout=2 * SOON_S,
        check=False,
    )


async def test_health_tells_that_pushes_do_not_get_through(
    server: OwnPostgres, start: StartBroker
) -> None:
    broker, queue = await asyncio.to_thread(start, server.url), unique()
    async with Wire(broker.url) as wire:
        assert (await wire.push(queue, 1)).status == 201
        await _fill_disk(server)
        answer = await wire.push(queue, 2)
        assert answer.status == 202 and answer.body[0]["status"] == "buffered"

        async def is_told() -> bool:
            answer = await wire.call("GET", "/health")
            push = answer.body["capabilities"]["push"]
            wanted = {"status": "spooled", "reason": "disk_full"}
            return answer.status == 503 and push == wanted

        await wait_until_async(is_told, timeout_s=SOON_S, what="health to tell")
        answer = await wire.call("GET", "/health")
        assert answer.body["database"] == "connected"
        assert "push is spooled (disk_full)" in answer.body["error"]
        assert answer.body["capabilities"]["pop"] == {"status": "served", "reason": None}
        assert answer.body["spool"]["pending"] == 1
        pages = ("/health/ready", "/health/ready?for=push", "/health/ready?for=pop")
        assert [(await wire.call("GET", page)).status for page in pages] == [503, 200, 200]
        await server.execute("DROP TRIGGER full_disk ON queen.messages")
        await _wait_until_healthy(broker.url)

        async def is_stored() -> bool:
            # A broker that drains is healthy before the last record is gone.
            answer = await wire.call("GET", "/health")
            found: object = answer.body["capabilities"]["push"]
            return found == {"status": "stored", "reason": None}

        await wait_until_async(is_stored, timeout_s=SOON_S, what="pushes to be stored")
    assert (await pop_all(broker.url, queue, 2))["Default"] == [1, 2]


async def _fill_disk(server: OwnPostgres) -> None:
    """Messages are refused as by a server that cannot extend its files."""
    connection = await asyncpg.connect(server.url)
    try:
        await connection.execute(
            """
            CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
            CREATE TRIGGER full_disk BEFORE INSERT ON queen.messages
            FOR EACH STATEMENT EXECUTE FUNCTION public.refuse();
            """
        )
    finally:
        await connection.close()
