"""Calls that take the broker long: the client waits for them, and sends them once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from queenmq import Queen, SyncQueen, Unreachable
from queenmq.client.long_calls import ROUTES
from tests.acceptance.sql_side import LOOKING, held
from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.faulty_proxy import faulty_proxy
from tests.support.scripted_server import Say, Silence, scripted
from tests.support.waiting import wait_until_async

#: An ordinary call that fails does so soon.
BRIEF: dict[str, Any] = {"timeout_millis": 200, "retry_attempts": 3, "retry_delay_millis": 1}
DELETED = {"deleted": True, "queue": "q", "existed": True}

CALLS: dict[str, Callable[[Queen, str], Awaitable[Any]]] = {
    "delete_queue": lambda queen, queue: queen.delete_queue(queue),
    "clear_queue": lambda queen, queue: queen.admin.clear_queue(queue),
    "clear_partition": lambda queen, queue: queen.admin.clear_queue(queue, "p"),
    "delete_partition": lambda queen, queue: queen.admin.delete_partition(queue, "p"),
    "delete_group": lambda queen, queue: queen.delete_consumer_group("g"),
    "delete_group_on_queue": lambda queen, queue: queen.delete_consumer_group("g", queue=queue),
    "seek": lambda queen, queue: queen.seek(queue, "g", to_end=True),
    "seek_partition": lambda queen, queue: queen.admin.seek_partition(
        "g", queue, "p", {"toEnd": True}
    ),
    "preview_seek": lambda queen, queue: queen.admin.preview_seek("g", queue, toEnd=True),
}


async def _outwait(lines: list[str], work: asyncio.Future[Any], queen: Queen) -> None:
    """Return once a call that began after the long one has run out of the ordinary time limit."""
    await wait_until_async(lambda: lines, timeout_s=SOON_S, what="the call to be sent")
    with pytest.raises(Unreachable):
        await queen.admin.list_consumer_groups()
    assert not work.done()


@pytest.mark.parametrize("name", CALLS)
async def test_a_long_call_is_sent_once_and_succeeds_when_a_transaction_lets_it(
    start_broker: Callable[..., BrokerProcess], database: asyncpg.Connection, name: str
) -> None:
    queue, broker = unique(), start_broker()
    async with faulty_proxy(broker.url) as proxy, Queen(broker.url) as ready:
        await ready.push(queue, [1, 2], partition="p")
        await ready.ack(await ready.pop(queue, group="g", partition="p"))
        async with Queen(proxy.url, **BRIEF) as queen, Queen(broker.url, **BRIEF) as other:
            async with held(database, LOOKING):
                work = asyncio.ensure_future(CALLS[name](queen, queue))
                await _outwait(proxy.lines, work, other)
            await asyncio.wait_for(work, SOON_S)
            assert len(proxy.lines) == 1


async def test_a_client_for_threads_waits_as_well(
    start_broker: Callable[..., BrokerProcess], database: asyncpg.Connection
) -> None:
    queue, broker = unique(), start_broker()
    async with faulty_proxy(broker.url) as proxy, Queen(broker.url, **BRIEF) as other:
        queen = SyncQueen(proxy.url, **BRIEF)
        await other.push(queue, 1)
        async with held(database, LOOKING):
            work = asyncio.ensure_future(asyncio.to_thread(queen.delete_queue, queue))
            await _outwait(proxy.lines, work, other)
        assert (await asyncio.wait_for(work, SOON_S)).existed
        assert len(proxy.lines) == 1
        await asyncio.to_thread(queen.close)


@pytest.mark.parametrize("is_doubled", [False, True], ids=["one server", "two servers"])
async def test_a_long_call_is_not_repeated_after_its_time_limit(
    monkeypatch: pytest.MonkeyPatch, is_doubled: bool
) -> None:
    monkeypatch.setattr("queenmq.client.http.transport.LONG_S", 0.0)
    async with scripted(Silence()) as one, scripted(Silence()) as two:
        urls = [one.url, two.url] if is_doubled else [one.url]
        async with Queen(urls, **BRIEF) as queen:
            with pytest.raises(Unreachable):
                await queen.delete_queue("q")
        assert one.connections + two.connections == 1


async def test_a_long_call_that_fails_soon_is_repeated() -> None:
    async with scripted(Say(503, {"error": "busy"}), Say(200, DELETED)) as server:
        async with Queen(server.url, retry_delay_millis=1) as queen:
            assert (await queen.delete_queue("q")).existed
        assert len(server.seen) == 2


async def test_the_broker_has_all_routes_of_long_calls(api: Api) -> None:
    document = (await api.http.get("/openapi.json")).json()
    found = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert set(ROUTES) <= found
