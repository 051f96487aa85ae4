"""A live broker with small bounds: slow, greedy and hostile clients lose, and only they."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import random
from collections.abc import AsyncIterator, Iterator

import pytest
import zstandard

from tests.conformance.shorthand import raw_connection, send_raw
from tests.support.broker import SOON_S, Api, BrokerProcess, running_broker, unique
from tests.support.waiting import wait_until_async

HOST = b"Host: localhost\r\n"
GET = b"GET /health/live HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.fixture(scope="module")
def small(shared_database_url: str) -> Iterator[BrokerProcess]:
    """A broker that allows little."""
    bounds = {
        "QUEEN_CONNECTIONS_MAX": "20",
        "QUEEN_MAX_BODIES_BYTES": "100000",
        "QUEEN_MAX_BODY_BYTES": "90000",
        "QUEEN_MAX_HEADERS": "20",
        "QUEEN_CORS_ORIGINS": "https://board.example",
    }
    with running_broker(database_url=shared_database_url, **bounds) as broker:
        yield broker


@pytest.fixture(scope="module")
def hasty(shared_database_url: str) -> Iterator[BrokerProcess]:
    """A broker that soon closes a quiet connection, but not during a pause of a busy machine."""
    bounds = {
        "QUEEN_HEAD_TIMEOUT_MS": "2000",
        "QUEEN_KEEP_ALIVE_MS": "2000",
        "QUEEN_CONNECTIONS_MAX": "20",
    }
    with running_broker(database_url=shared_database_url, **bounds) as broker:
        yield broker


@contextlib.asynccontextmanager
async def talking_to(broker: BrokerProcess) -> AsyncIterator[Api]:
    api = Api(broker.url)
    try:
        yield api
    finally:
        await api.close()


async def read_all(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(SOON_S):
        return await reader.read()


@pytest.mark.parametrize(
    ("begun", "status"),
    [(b"", b""), (b"GET /health/live HTTP/1.1\r\nHo", b"408"), (GET, b"200")],
    ids=["nothing", "part of a head", "a request"],
)
async def test_a_connection_that_goes_quiet_is_closed(
    hasty: BrokerProcess, begun: bytes, status: bytes
) -> None:
    async with raw_connection(hasty.url) as (reader, writer):
        writer.write(begun)
        said = await read_all(reader)
    assert said[9:12] == status


async def test_a_long_poll_may_wait_longer_than_a_quiet_connection(hasty: BrokerProcess) -> None:
    queue = unique()
    path = f"GET /api/v1/pop/queue/{queue}?wait=true&timeout=4000 HTTP/1.1\r\n".encode()
    status, _ = await send_raw(hasty.url, path + HOST + b"Connection: close\r\n\r\n")
    assert status == 204


async def test_the_oldest_idle_connection_makes_room_and_busy_ones_stay(
    hasty: BrokerProcess,
) -> None:
    queue = unique()
    async with contextlib.AsyncExitStack() as stack:
        poll = b"GET /api/v1/pop/queue/%s?wait=true&timeout=60000 HTTP/1.1\r\n" % queue.encode()
        polls = [await stack.enter_async_context(raw_connection(hasty.url)) for _ in range(5)]
        for _, writer in polls:
            writer.write(poll + HOST + b"\r\n")
        idle = [await stack.enter_async_context(raw_connection(hasty.url)) for _ in range(40)]
        async with talking_to(hasty) as api:
            await api.push(queue, 1)
        answered, _ = await asyncio.wait(
            [asyncio.create_task(reader.read(12)) for reader, _ in polls],
            timeout=SOON_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
        assert [task.result() for task in answered] == [b"HTTP/1.1 200"]
        closed = [await read_all(reader) for reader, _ in idle]
        assert len(closed) == 40


async def test_when_all_connections_are_busy_a_new_one_is_refused_with_503(
    small: BrokerProcess,
) -> None:
    poll = b"GET /api/v1/pop/queue/%s?wait=true&timeout=60000 HTTP/1.1\r\n" % unique().encode()
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(20):
            _, writer = await stack.enter_async_context(raw_connection(small.url))
            writer.write(poll + HOST + b"\r\n")

        async def is_refused() -> bool:
            async with raw_connection(small.url) as (reader, _):
                return (await read_all(reader)).startswith(b"HTTP/1.1 503")

        await wait_until_async(is_refused, timeout_s=SOON_S, what="a refusal")

    async def is_served() -> bool:
        with contextlib.suppress(ConnectionError):
            return (await send_raw(small.url, GET[:-2] + b"Connection: close\r\n\r\n"))[0] == 200
        return False

    await wait_until_async(is_served, timeout_s=SOON_S, what="an answer")


async def test_bodies_together_are_bounded_and_the_next_one_fits_again(
    small: BrokerProcess,
) -> None:
    head = b"POST /api/v1/push HTTP/1.1\r\n" + HOST + b"Content-Length: 80000\r\n\r\n"
    async with raw_connection(small.url) as (_, writer):
        writer.write(head + b" " * 79_000)
        await writer.drain()

        async def is_refused() -> bool:
            status, rest = await send_raw(small.url, head)
            return status == 503 and b"retry-after: 1" in rest

        await wait_until_async(is_refused, timeout_s=SOON_S, what="a refusal")
    async with talking_to(small) as api:
        queue = unique()
        await api.push(queue, "x" * 50_000)
        assert await api.data(queue) == ["x" * 50_000]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"DELETE %s HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 30 + b"\r\n", 431),
        (b"DELETE %s HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"DELETE %s HTTP/1.1\r\n\r\n", 400),
        (b"DELETE %s HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
        (b"DELETE %s HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        (b"DELETE %s HTTP/1.1\r\n" + HOST + b"Origin: https://evil.example\r\n\r\n", 403),
        (b"DELETE %s HTTP/1.1\r\n" + HOST + b"Sec-Fetch-Site: cross-site\r\n\r\n", 403),
        (b"DELETE %s HTTP/1.1\r\n" + HOST + b"Content-Length: 90001\r\n\r\n", 413),
    ],
    ids=["headers", "chunk", "no host", "two hosts", "rebinding", "origin", "site", "body"],
)
async def test_a_refused_request_deletes_nothing(
    small: BrokerProcess, head: bytes, status: int
) -> None:
    async with talking_to(small) as api:
        queue = unique()
        await api.push(queue, 1)
        path = f"/api/v1/resources/queues/{queue}".encode()
        said, rest = await send_raw(small.url, head % path)
        assert said == status
        assert b"connection: close" in rest
        assert await api.data(queue) == [1]


async def test_pops_pipelined_by_a_client_that_leaves_take_nothing(small: BrokerProcess) -> None:
    queue, other = unique(), unique()
    async with talking_to(small) as api:
        await api.push(other, 1)
        async with raw_connection(small.url) as (_, writer):
            first = f"GET /api/v1/pop/queue/{queue}?wait=true&timeout=60000 HTTP/1.1\r\n"
            then = f"GET /api/v1/pop/queue/{other} HTTP/1.1\r\n"
            for line in (first, then, then):
                writer.write(line.encode() + HOST + b"\r\n")
            await writer.drain()
        assert await api.data(other) == [1]


async def test_a_listed_page_may_ask_and_read_and_no_other(small: BrokerProcess) -> None:
    async with talking_to(small) as api:
        ask = {"Origin": "https://board.example", "Access-Control-Request-Method": "POST"}
        allowed = await api.http.options("/api/v1/push", headers=ask)
        assert allowed.status_code == 204
        assert allowed.headers["access-control-allow-origin"] == "https://board.example"
        ask["Origin"] = "https://evil.example"
        refused = await api.http.options("/api/v1/push", headers=ask)
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers
        assert "cors_origins" in refused.json()["error"]


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_a_compressed_push_is_stored_and_a_bomb_refused(
    small: BrokerProcess, coding: str
) -> None:
    compress = gzip.compress if coding == "gzip" else zstandard.ZstdCompressor().compress
    async with talking_to(small) as api:
        queue = unique()
        # More than is decoded at once: a thread does it.
        payload = random.Random(1).randbytes(40_000).hex()
        text = json.dumps({"items": [{"queue": queue, "payload": one} for one in (1, payload)]})
        for body, status in ((text.encode(), 201), (b" " * 50_000_000, 413), (b"{}", 400)):
            answer = await api.http.post(
                "/api/v1/push", content=compress(body), headers={"Content-Encoding": coding}
            )
            assert answer.status_code == status, answer.text
        assert await api.data(queue, batch=2) == [1, payload]
