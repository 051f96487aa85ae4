"""PostgreSQL goes away under load and comes back: what was answered is there, once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from queenmq.engine.requests import PartitionKey, PushItems
from queenmq.storage.spool import Spool
from queenmq.storage.spool.push_journal import to_record
from tests.acceptance.load import Answer, Wire, pop_path, wires
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.own_postgres import OwnPostgres
from tests.support.producers import Producers, pop_all
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow

StartBroker = Callable[..., BrokerProcess]

_PRODUCERS = 8
#: A hanging server is noticed soon, and so is a call that will not come back.
_QUICK = {"QUEEN_DB_HANG_MS": "500"}


@pytest.fixture
def start(server: OwnPostgres, tmp_path: Path) -> Iterator[StartBroker]:
    """Starts brokers on that server; they share a spool."""
    brokers: list[BrokerProcess] = []

    def start_broker(*arguments: str, **environ: str) -> BrokerProcess:
        # Nobody reads the pipe of a running broker, and an outage makes many warnings.
        words = ["--log-level", "error", "--database-url", server.url, *arguments]
        environ = {"QUEEN_SPOOL_DIR": str(tmp_path / "spool"), **_QUICK, **environ}
        brokers.append(BrokerProcess(words, environ=environ))
        return brokers[-1]

    yield start_broker
    server.close()
    for broker in brokers:
        broker.close()


def spool_files(tmp_path: Path) -> Path:
    """The one directory of records below the spool's."""
    (found,) = (one for one in (tmp_path / "spool").iterdir() if one.is_dir())
    return found


async def maintenance(wire: Wire) -> Answer:
    answer = await wire.call("GET", "/api/v1/system/maintenance")
    assert answer.status == 200, answer
    return answer


async def wait_until_drained(wire: Wire) -> None:
    async def is_drained() -> bool:
        return (await maintenance(wire)).body["bufferedMessages"] == 0

    await wait_until_async(is_drained, timeout_s=2 * SOON_S, what="the spool to be drained")


async def wait_until_down(wire: Wire) -> None:
    async def is_down() -> bool:
        return not (await maintenance(wire)).body["bufferStats"]["dbHealthy"]

    await wait_until_async(is_down, timeout_s=SOON_S, what="the broker to notice")


async def restart(server: OwnPostgres, producers: Producers) -> None:
    await asyncio.to_thread(server.stop)
    await producers.saw("buffered")
    # More than one batch of the drain.
    await producers.more(150)
    await asyncio.to_thread(server.start)


async def crash(server: OwnPostgres, producers: Producers) -> None:
    await asyncio.to_thread(server.kill)
    await producers.saw("buffered")
    await producers.more(20)
    await asyncio.to_thread(server.start)


async def hang(server: OwnPostgres, producers: Producers) -> None:
    server.freeze()
    # Those whose call hangs are not answered before it goes on; their partitions rest meanwhile.
    async with Producers(producers.urls, f"{producers.queue}-2", _PRODUCERS) as others:
        await others.more(20)
        assert others.seen["buffered"]
        server.thaw()
        await others.stop()
    await others.assert_complete(producers.urls[0])


async def storm(server: OwnPostgres, producers: Producers) -> None:
    """Every connection is cut again and again."""
    session = await asyncpg.connect(server.url_of("postgres"))
    try:
        for _ in range(30):
            await session.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'queen'"
            )
            await producers.more(1)
    finally:
        await session.close()


async def exhaustion(server: OwnPostgres, producers: Producers) -> None:
    """The broker loses its connections and gets no new ones."""
    sessions: list[asyncpg.Connection] = []

    async def take_all() -> bool:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'queen'"
        try:
            while True:
                sessions.append(await asyncpg.connect(server.url_of("postgres")))
        except asyncpg.TooManyConnectionsError:
            return await sessions[0].fetchval(f"SELECT count(*) FROM ({cut}) x") == 0

    try:
        await wait_until_async(take_all, timeout_s=SOON_S, what="all connections to be taken")
        await producers.saw("buffered")
        await producers.more(20)
    finally:
        for session in sessions:
            await session.close()


async def read_only(server: OwnPostgres, producers: Producers) -> None:
    await server.execute("ALTER SYSTEM SET default_transaction_read_only = on")
    await server.execute("SELECT pg_reload_conf()")
    await producers.saw("buffered")
    await producers.more(20)
    await server.execute("ALTER SYSTEM RESET default_transaction_read_only")
    await server.execute("SELECT pg_reload_conf()")


OUTAGES = [restart, crash, hang, storm, exhaustion, read_only]
Outage = Callable[[OwnPostgres, Producers], Awaitable[None]]


@pytest.mark.parametrize("outage", OUTAGES, ids=[one.__name__ for one in OUTAGES])
async def test_pushes_survive_an_outage_once_and_in_order(
    outage: Outage, server: OwnPostgres, start: StartBroker
) -> None:
    broker = start()
    async with Producers([broker.url], unique(), _PRODUCERS) as producers:
        await producers.more(20)
        await outage(server, producers)
        await producers.saw("queued")
        await producers.more(20)
        await producers.stop()
        await producers.assert_complete(broker.url)
    async with Wire(broker.url) as wire:
        answer = await maintenance(wire)
        assert answer.body["bufferStats"]["failedCount"] == 0
        assert answer.body["bufferedMessages"] == 0
        assert (await wire.call("GET", "/health")).status == 200


async def test_order_is_kept_when_connections_are_cut_while_the_spool_is_drained(
    server: OwnPostgres, start: StartBroker
) -> None:
    # Small calls, so that one may fail while the next one for the same partition succeeds.
    broker, queue, count = start(QUEEN_PUSH_ROWS_MAX="50"), unique(), 300
    async with Wire(broker.url) as wire:
        await asyncio.to_thread(server.stop)
        for number in range(count):
            names = [f"p{at}" for at in range(10)] if number % 5 else ["p0"]
            items = [{"queue": queue, "partition": name, "payload": number} for name in names]
            answer = await wire.call("POST", "/api/v1/push", {"items": items})
            assert answer.status == 202, answer
        await asyncio.to_thread(server.start)
        session = await asyncpg.connect(server.url_of("postgres"))
        try:
            for _ in range(4):
                await _cut_a_push(session, wire)
        finally:
            await session.close()
        await wait_until_drained(wire)
        assert (await maintenance(wire)).body["bufferStats"]["failedCount"] == 0
    shared = [number for number in range(count) if number % 5]
    wanted = {f"p{at}": list(range(count)) if at == 0 else shared for at in range(10)}
    assert await pop_all(broker.url, queue, sum(map(len, wanted.values()))) == wanted


async def _cut_a_push(session: asyncpg.Connection, wire: Wire) -> None:
    """End one connection in the middle of a push, unless there are no more pushes."""
    cut = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE state = 'active' AND query LIKE '%queen.push_messages%' AND pid <> pg_backend_pid()"
    )

    async def is_cut() -> bool:
        for _ in range(20):
            if await session.fetchval(cut):
                return True
        return (await maintenance(wire)).body["bufferedMessages"] == 0

    await wait_until_async(is_cut, timeout_s=SOON_S, what="a push to be cut off")


async def test_two_workers_keep_the_order_together(server: OwnPostgres, start: StartBroker) -> None:
    broker = start("--workers", "2")
    async with Producers([broker.url], unique(), _PRODUCERS) as producers:
        await producers.more(20)
        await restart(server, producers)
        await producers.saw("queued")
        await producers.stop()
        await producers.assert_complete(broker.url)


@pytest.mark.parametrize(("workers", "end"), [("1", "kill"), ("2", "kill"), ("1", "stop")])
async def test_pushes_on_disk_survive_the_broker(
    workers: str, end: str, server: OwnPostgres, start: StartBroker
) -> None:
    broker = start("--workers", workers)
    async with Producers([broker.url], unique(), _PRODUCERS) as producers:
        await producers.more(20)
        await asyncio.to_thread(server.stop)
        await producers.saw("buffered")
        await producers.more(20)
        await asyncio.to_thread(getattr(broker, end))
        await asyncio.to_thread(server.start)
        again = await asyncio.to_thread(start, "--workers", workers)
        producers.urls = [again.url]
        await producers.more(20)
        await producers.stop()
        await producers.assert_complete(again.url)


def _assert_comes_later(answer: Answer) -> None:
    assert answer.status == 503, answer
    assert int(answer.headers["retry-after"]) >= 1
    assert "try again" in answer.body["error"]


def _ack_of(message: dict[str, Any]) -> dict[str, Any]:
    return {field: message[field] for field in ("transactionId", "partitionId", "leaseId")}


async def test_answers_while_the_database_is_away(server: OwnPostgres, start: StartBroker) -> None:
    broker, queue = start(), unique()
    async with Wire(broker.url) as wire, Wire(broker.url) as early, Wire(broker.url) as late:
        await wire.push(queue, "leased")
        (leased,) = await wire.pop(queue)
        early.send("GET", pop_path(f"{queue}-new", wait=True, timeout=60_000))
        await wire.settle()
        await asyncio.to_thread(server.stop)
        await wait_until_down(wire)
        late.send("GET", pop_path(queue, partition="other", wait=True, timeout=60_000))
        await _assert_pushes_are_kept(wire, queue)
        _assert_comes_later(await wire.call("GET", pop_path(queue)))
        _assert_comes_later(await wire.call("POST", "/api/v1/ack", _ack_of(leased)))
        ack = {"type": "ack", **_ack_of(leased)}
        body = {"operations": [ack]}
        _assert_comes_later(await wire.call("POST", "/api/v1/transaction", body))
        _assert_comes_later(await wire.call("POST", "/api/v1/configure", {"queue": queue}))
        on = {"enabled": True}
        _assert_comes_later(await wire.call("POST", "/api/v1/system/maintenance", on))
        pages = ("/health", "/health/ready", "/health/live", "/metrics", "/metrics/prometheus")
        found = [(await wire.call("GET", page)).status for page in pages]
        assert found == [503, 503, 200, 200, 200]
        await asyncio.to_thread(server.start)
        for poll, payload in ((early, 2), (late, 1)):
            answer = await poll.receive()
            assert answer.status == 200, answer
            assert [message["data"] for message in answer.body["messages"]] == [payload]
        (result,) = await wire.ack([leased])
        assert result["success"]
        assert [message["data"] for message in await wire.pop(queue)] == [0]


async def _assert_pushes_are_kept(wire: Wire, queue: str) -> None:
    answer = await wire.push(queue, 0, transaction_id="mine")
    wanted = {
        "index": 0,
        "status": "buffered",
        "queue": queue,
        "partition": "Default",
        "transactionId": "mine",
        "reason": "database_unavailable",
    }
    assert answer.status == 202
    assert [{name: item[name] for name in wanted} for item in answer.body] == [wanted]
    # Neither the partition nor the queue has ever been seen, and the id is made here.
    for number, (name, partition) in enumerate([(queue, "other"), (f"{queue}-new", "p")], 1):
        answer = await wire.push(name, number, partition=partition)
        assert answer.status == 202 and answer.body[0]["status"] == "buffered", answer
        assert answer.body[0]["transactionId"]


async def test_push_that_is_cut_off_is_kept_only_if_it_can_be_known_again(
    server: OwnPostgres, start: StartBroker
) -> None:
    broker, queue = start(), unique()
    async with Wire(broker.url) as wire, Wire(broker.url) as named, Wire(broker.url) as nameless:
        await wire.push(queue, "before", partition="a")
        await wire.push(queue, "before", partition="b")
        server.freeze()
        item = {"queue": queue, "payload": "mine"}
        nameless.send("POST", "/api/v1/push", {"items": [{**item, "partition": "a"}]})
        named.send(
            "POST", "/api/v1/push", {"items": [{**item, "partition": "b", "transactionId": "once"}]}
        )
        _assert_comes_later(await nameless.receive())
        answer = await named.receive()
        assert answer.status == 202 and answer.body[0]["status"] == "buffered", answer
        server.thaw()
        await wait_until_drained(wire)
        found = await pop_all(broker.url, queue, 3)
        assert found["b"] == ["before", "mine"]
        # Whether it was carried out is unknown, but not twice.
        assert found["a"] in (["before"], ["before", "mine"])


async def test_full_spool_refuses_and_later_serves(server: OwnPostgres, start: StartBroker) -> None:
    broker, queue = start(QUEEN_SPOOL_MAX_BYTES="5000"), unique()
    async with Wire(broker.url) as wire:
        await asyncio.to_thread(server.stop)
        kept = 0
        while (answer := await wire.push(queue, [kept, "x" * 200])).status != 429:
            # The first finds out that the database is gone, and its call was not sent.
            assert answer.status == 202, answer
            kept += 1
        assert kept > 3
        assert int(answer.headers["retry-after"]) >= 1
        assert (await wire.push(queue, "x" * 200)).status == 429
        await asyncio.to_thread(server.start)
        await wait_until_drained(wire)

        async def is_stored() -> bool:
            return (await wire.push(queue, "after", transaction_id="once")).status == 201

        await wait_until_async(is_stored, timeout_s=SOON_S, what="a push to be stored")
        found = await pop_all(broker.url, queue, kept + 1)
    values = found["Default"]
    assert values == [[n, "x" * 200] for n in range(kept)] + ["after"]


async def test_what_finds_no_room_in_its_queue_is_not_lost(
    server: OwnPostgres, start: StartBroker
) -> None:
    # Few operations may wait in a partition; what was accepted has to, all the same.
    broker, queue, other = start(QUEEN_LOAD_PARTITION_QUEUE_MAX="2"), unique(), unique()
    async with Wire(broker.url) as wire:
        body = {"queue": queue, "options": {"maxSize": 3}}
        assert (await wire.call("POST", "/api/v1/configure", body)).status == 200
        for number in range(3):
            assert (await wire.push(queue, number)).status == 201
        await asyncio.to_thread(server.stop)
        for number in range(3, 10):
            assert (await wire.push(queue, number)).status == 202
        assert (await wire.push(other, "free")).status == 202
        await asyncio.to_thread(server.start)
        await wait_until_drained(wire)
        assert await pop_all(broker.url, other, 1) == {"Default": ["free"]}
        assert await pop_all(broker.url, queue, 10) == {"Default": list(range(10))}


async def test_record_that_cannot_be_stored_is_set_aside(
    server: OwnPostgres, start: StartBroker, tmp_path: Path
) -> None:
    queue = unique()
    assert start().stop() == 0

    def record(name: str, payload: str) -> bytes:
        items = PushItems(keys=[PartitionKey(name, "p")], payloads=[payload])
        return msgspec.msgpack.encode(to_record(items))

    files = Spool(spool_files(tmp_path), bytes_max=1_000_000)
    await files.open()
    for body in (
        record(queue, "1"),
        record(queue, "no json"),
        b"no record",
        record("a\0name", "1"),
        record(queue, "2"),
    ):
        await files.append(body)
    await files.close()
    broker = await asyncio.to_thread(start)
    async with Wire(broker.url) as wire:
        await wait_until_drained(wire)
        found = await maintenance(wire)
        assert found.body["bufferHealthy"] is False
        assert found.body["bufferStats"]["failedCount"] == 3
        assert found.body["bufferStats"]["failedFiles"]["count"] == 3
        assert found.body["bufferStats"]["failedFiles"]["totalBytes"] > 0
        assert (await wire.push(queue, 3, partition="p")).status == 201
    assert await pop_all(broker.url, queue, 3) == {"p": [1, 2, 3]}


@pytest.mark.parametrize("partitions", ["one", "new"])
async def test_pushes_that_wait_for_a_hanging_database_are_bounded(
    partitions: str, server: OwnPostgres, start: StartBroker
) -> None:
    # The hang is not noticed; what is asked is how much may gather before it is.
    environ = {"QUEEN_DB_HANG_MS": "60000", "QUEEN_PUSH_WAITING_MAX": "5"}
    broker, queue, count = start(**environ), unique(), 30
    async with wires([broker.url] * count) as pushing, Wire(broker.url) as wire:
        await wire.push(queue, "before", partition="p")
        server.freeze()
        for number, one in enumerate(pushing):
            partition = "p" if partitions == "one" else f"new-{number}"
            item = {"queue": queue, "partition": partition, "payload": number}
            one.send("POST", "/api/v1/push", {"items": [item]})
        receiving = [asyncio.create_task(one.receive()) for one in pushing]

        def refused() -> int:
            return sum(task.done() and task.result().status == 429 for task in receiving)

        # Besides those that wait there are those of the calls in flight.
        await wait_until_async(
            lambda: refused() >= count - 10, timeout_s=SOON_S, what="pushes to be refused"
        )
        server.thaw()
        answers = await asyncio.gather(*receiving)
        stored = sum(answer.status == 201 for answer in answers)
        assert stored == count - refused()
        found = await pop_all(broker.url, queue, stored + 1)
        assert sum(map(len, found.values())) == stored + 1
