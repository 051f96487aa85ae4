"""The whole database goes to another server, and nothing is lost, doubled or out of order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from queenmq.errors import MoveError
from queenmq.storage.moving import mover
from queenmq.storage.moving.alone import moving_alone
from queenmq.storage.schema import lookup_care
from queenmq.storage.schema.migrator import migrate
from tests.support.broker import SOON_S, Api, running_broker
from tests.support.operations import enqueue
from tests.support.own_postgres import OwnPostgres, running_empty
from tests.support.waiting import wait_until_async

_GO_ON = {"QUEEN_LOG_LEVEL": "error", "QUEEN_MOVE_TARGETS": "127.0.0.1:*, localhost:*"}
_IS_LEFT = (
    "SELECT count(*) = 1 FROM pg_stat_activity"
    " WHERE datname = current_database() AND backend_type = 'client backend'"
)


@pytest.fixture(scope="module")
def other() -> Iterator[OwnPostgres]:
    """A server of its own, without a database of ours."""
    with running_empty(max_connections=30) as server:
        yield server


async def _make_target(other: OwnPostgres, name: str) -> str:
    session = await asyncpg.connect(other.superuser_url_of("postgres"))
    if not await session.fetchval("SELECT count(*) FROM pg_roles WHERE rolname = 'queen'"):
        await session.execute("CREATE ROLE queen LOGIN")
    await session.execute(f"CREATE DATABASE {name} OWNER queen TEMPLATE template0 ENCODING 'UTF8'")
    await session.close()
    return other.url_of(name)


async def _fill(api: Api, session: asyncpg.Connection) -> None:
    """A database as brokers leave it."""
    await api.configure("orders", leaseTime=300, retryLimit=0, ackHistory=True, maxSize=1_000)
    for partition in ("a", "b", 'ü "quoted"'):
        await api.push("orders", *range(1, 6), partition=partition)
    # A group half-way, one with a lease, one with a dead letter, one that starts with what is new.
    for message in await api.pop("orders", partition="a", batch=2, consumerGroup="half"):
        await api.ack(message, group="half")
    await api.pop("orders", partition="b", batch=2, consumerGroup="leased")
    (failed,) = await api.pop("orders", partition="b", consumerGroup="failing")
    await api.ack(failed, group="failing", status="failed", error="broken")
    await api.pop("orders", consumerGroup="new", subscriptionMode="new")
    await api.push("orders", 6, partition="a", transactionId="known")
    response = await api.http.post("/api/v1/consumer-groups/resting/pause")
    assert response.status_code == 200, response.text
    place = await session.fetchval("SELECT id FROM queen.partitions WHERE name = 'b'")
    await enqueue(session, place, "queued")


async def _drain(api: Api, partition: str, group: str) -> list[Any]:
    found: list[Any] = []
    while messages := await api.pop(
        "orders", partition=partition, consumerGroup=group, batch=100, autoAck=True
    ):
        found += [message["data"] for message in messages]
    return found


def _parts(url: str) -> dict[str, Any]:
    parsed = httpx.URL(url.replace("postgresql", "http"))
    return {
        "host": parsed.host, "port": str(parsed.port), "database": parsed.path.strip("/"),
        "user": parsed.userinfo.decode(), "password": "", "ssl": False,
    }  # fmt: skip


async def _call(api: Api, name: str, body: dict[str, Any] | None = None) -> Any:
    if body is None and name == "status":
        response = await api.http.get("/api/v1/migration/status")
    else:
        response = await api.http.post(f"/api/v1/migration/{name}", json=body or {})
    assert response.status_code in (200, 409), response.text
    return response.json()


async def test_brokers_go_on_at_the_new_server(
    database_url: str, other: OwnPostgres, tmp_path: Path
) -> None:
    target_url = await _make_target(other, "moved")
    body = _parts(target_url)
    spool = {"QUEEN_SPOOL_DIR": str(tmp_path / "spool"), **_GO_ON}
    session = await asyncpg.connect(database_url)
    with running_broker(database_url=database_url, **spool) as broker:
        api = Api(broker.url)
        assert (await _call(api, "status"))["status"] == "idle"
        await _fill(api, session)
        assert not (await _call(api, "test-connection", {**body, "port": "1"}))["success"]
        assert (await _call(api, "test-connection", body))["success"]
        assert (await _call(api, "start", body))["success"]

        async def has_ended() -> bool:
            return bool((await _call(api, "status"))["status"] != "running")

        await wait_until_async(has_ended, timeout_s=2 * SOON_S, what="the copy")
        status = await _call(api, "status")
        assert (status["status"], status["error"]) == ("completed", None)
        assert status["tablesDone"] == status["tables"] > 20
        compared = await _call(api, "validate", body)
        assert compared["allMatch"], [one for one in compared["tables"] if not one["match"]]
        refused = await _call(api, "validate", {**body, "port": "1"})
        assert "port 1, cannot be reached" in refused["error"] and refused["code"] == "conflict"
        # Still paused: a push is kept for the new database.
        response = await api.http.post(
            "/api/v1/push",
            json={"items": [{"queue": "orders", "partition": "a", "payload": "meanwhile"}]},
        )
        assert response.json()[0]["status"] == "buffered"
        assert await api.pop("orders", consumerGroup="half") == []
        assert not (await _call(api, "test-connection", body))["success"], "it holds queues now"
        await _call(api, "reset")
        assert (await _call(api, "status"))["status"] == "idle"
        await api.close()
    await session.close()

    with running_broker(database_url=target_url, **spool) as broker:
        api = Api(broker.url)
        new: list[Any] = []

        async def has_come() -> bool:
            new.extend(await _drain(api, "a", "new"))
            return "meanwhile" in new

        await wait_until_async(has_come, timeout_s=SOON_S, what="what was kept on disk")
        assert new == [6, "meanwhile"], "what came after the group's start"
        assert await _drain(api, "a", "half") == [3, 4, 5, 6, "meanwhile"]
        assert await _drain(api, "a", "another") == [1, 2, 3, 4, 5, 6, "meanwhile"]
        assert await api.pop("orders", partition="b", consumerGroup="leased") == [], "leased"
        assert await _drain(api, "b", "another") == [1, 2, 3, 4, 5, "queued"]
        assert await _drain(api, "b", "resting") == [], "paused"
        assert [one["errorMessage"] for one in await api.dead_letters("orders")] == ["broken"]
        (again,) = await api.push("orders", 7, partition="a", transactionId="known")
        assert again["status"] == "duplicate"
        (fresh,) = await api.push("orders", 8, partition="c")
        assert fresh["status"] == "queued"
        options = (await api.configure("orders"))["options"]
        assert options["leaseTime"] == 300
        await api.close()
    assert [one for one in await lookup_care.check(target_url) if one.total] == []


async def test_a_broker_connects_to_listed_servers_only(database_url: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listed,
        socket.create_server(("127.0.0.1", 0)) as other,
        running_broker(
            database_url=database_url,
            QUEEN_MOVE_TARGETS=f"127.0.0.1:{listed.getsockname()[1]}",
        ) as broker,
    ):
        api = Api(broker.url)
        body = {"host": "127.0.0.1", "port": other.getsockname()[1], "database": "d", "user": "u"}
        # The same address in other words, and the broker's own sockets.
        for host in ("127.0.0.1", "localhost", "127.1", "::ffff:127.0.0.1", "/tmp"):
            tested = await _call(api, "test-connection", {**body, "host": host})
            assert not tested["success"] and "QUEEN_MOVE_TARGETS" in tested["error"]
            for name in ("start", "validate"):
                refused = await api.http.post(
                    f"/api/v1/migration/{name}", json={**body, "host": host}
                )
                assert refused.status_code == 403, refused.text
        assert (await _call(api, "status"))["status"] == "idle"
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()
        # It does try the one that is listed.
        asked = asyncio.create_task(
            _call(api, "test-connection", {**body, "port": listed.getsockname()[1]})
        )
        listed.setblocking(False)
        connection, _ = await asyncio.get_running_loop().sock_accept(listed)
        connection.close()
        assert not (await asked)["success"]
        await api.close()


async def test_brokers_and_commands_copy_one_at_a_time(
    database_url: str, other: OwnPostgres, tmp_path: Path
) -> None:
    targets = [await _make_target(other, f"raced_{number}") for number in range(2)]
    spools = [{"QUEEN_SPOOL_DIR": str(tmp_path / name), **_GO_ON} for name in ("one", "two")]
    with (
        running_broker(database_url=database_url, **spools[0]) as one,
        running_broker(database_url=database_url, **spools[1]) as two,
    ):
        brokers = [Api(one.url), Api(two.url)]
        await brokers[0].push("orders", 1)
        # While the command line copies, no broker begins, and no second command.
        async with moving_alone(database_url):
            for api in brokers:
                refused = await _call(api, "start", _parts(targets[0]))
                assert refused["code"] == "conflict" and "is running" in refused["error"]
            with pytest.raises(MoveError, match="is running"):
                await mover.move(database_url, targets[0], lambda _: None)
        assert (await _call(brokers[0], "status"))["status"] == "idle"
        # Four on each broker, at once.
        starts = [
            _call(api, "start", _parts(target))
            for _ in range(2)
            for api in brokers
            for target in targets
        ]
        answers = await asyncio.gather(*starts)
        assert [one.get("success") for one in answers].count(True) == 1, answers
        assert {one["code"] for one in answers if not one.get("success")} == {"conflict"}

        async def has_ended() -> bool:
            return bool((await _call(brokers[1], "status"))["status"] != "running")

        await wait_until_async(has_ended, timeout_s=2 * SOON_S, what="the copy")
        assert (await _call(brokers[0], "status"))["status"] == "completed"
        for api in brokers:
            await api.close()
    has_queues = []
    for url in targets:
        session = await asyncpg.connect(url)
        has_queues.append(await session.fetchval("SELECT to_regclass('queen.queues') IS NOT NULL"))
        await session.close()
    assert sorted(has_queues) == [False, True], "one target was written to"


async def test_the_end_is_the_last_thing_that_is_noted(
    database_url: str, other: OwnPostgres, tmp_path: Path
) -> None:
    """A slow note of the progress, whose cancellation does not get through, as with some poolers"""
    target_url = await _make_target(other, "noted")
    session = await asyncpg.connect(database_url)
    await session.execute(
        "CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF NEW.name = 'migration' AND NEW.value::jsonb ->> 'status' = 'running' THEN"
        "   BEGIN PERFORM pg_advisory_xact_lock(4711);"
        "   EXCEPTION WHEN query_canceled THEN PERFORM pg_advisory_xact_lock(4711); END;"
        " END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER hold BEFORE INSERT ON queen.system_state FOR EACH ROW"
        " EXECUTE FUNCTION public.hold()"
    )
    is_held = "SELECT count(*) FROM pg_locks WHERE objid = 4711 AND NOT granted"
    spool = {"QUEEN_SPOOL_DIR": str(tmp_path / "spool"), **_GO_ON}
    with running_broker(database_url=database_url, **spool) as broker:
        api = Api(broker.url)
        await api.push("orders", 1)
        assert (await _call(api, "start", _parts(target_url)))["success"]
        await session.execute("SELECT pg_advisory_lock(4711)")
        await wait_until_async(
            lambda: session.fetchval(is_held), timeout_s=SOON_S, what="a note that is held up"
        )
        target = await asyncpg.connect(target_url)
        has_moved = "SELECT last_analyze IS NOT NULL FROM pg_stat_user_tables WHERE relname = $1"
        await wait_until_async(
            lambda: target.fetchval(has_moved, "messages"),
            timeout_s=SOON_S,
            what="the end of the copy",
        )
        await wait_until_async(
            lambda: target.fetchval(_IS_LEFT), timeout_s=SOON_S, what="the mover to leave"
        )
        assert (await _call(api, "status"))["status"] != "failed"
        await session.execute("SELECT pg_advisory_unlock(4711)")

        async def is_noted() -> bool:
            is_quiet = await session.fetchval(is_held) == 0
            return is_quiet and (await _call(api, "status"))["status"] == "completed"

        await wait_until_async(is_noted, timeout_s=SOON_S, what="the end to be noted")
        await api.close()
        await asyncio.gather(target.close(), session.close())


async def test_what_goes_wrong_leaves_nothing_behind(database_url: str, other: OwnPostgres) -> None:
    session = await asyncpg.connect(database_url)
    await session.execute("SELECT queen.push('orders', '1')")
    switches = "SELECT name, value::text FROM queen.system_state WHERE name LIKE '%_maintenance'"

    # The server changes what it is given.
    target_url = await _make_target(other, "broken")
    await migrate(target_url)
    target = await asyncpg.connect(target_url)
    await target.execute(
        "CREATE FUNCTION public.spoil() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.payload = '2'; RETURN NEW; END $$"
    )
    await target.execute(
        "CREATE TRIGGER spoil BEFORE INSERT ON queen.messages FOR EACH ROW"
        " EXECUTE FUNCTION public.spoil()"
    )
    with pytest.raises(MoveError, match=r"1 tables differ .* queen\.messages with 1 rows and 1"):
        await mover.move(database_url, target_url, lambda _: None)
    assert await target.fetchval("SELECT count(*) FROM queen.queues") == 0
    assert {row[1] for row in await session.fetch(switches)} == {"false"}, "brokers go on"

    # And a second try, once that is mended, does it all.
    await target.execute("DROP TRIGGER spoil ON queen.messages")
    told: list[str] = []
    compared = await mover.move(database_url, target_url, lambda one: told.append(one.phase))
    assert all(one.is_match for one in compared)
    assert list(dict.fromkeys(told)) == ["schema", "pausing", "copying", "comparing", "done"]
    assert await target.fetchval("SELECT payload::text FROM queen.messages") == "1"
    assert {row[1] for row in await session.fetch(switches)} == {"true"}, "at rest for good"

    # Neither onto itself nor onto a database in use.
    for url, words in ((target_url, "already holds queues"), (database_url, "already holds")):
        with pytest.raises(MoveError, match=words):
            await mover.move(database_url, url, lambda _: None)
    await asyncio.gather(target.close(), session.close())
