"""Requests that are broken below JSON: framing, headers, and bytes no HTTP library would send."""

from __future__ import annotations

import json

import pytest

from tests.conformance.shorthand import raw_connection, send_raw
from tests.support.broker import Api, BrokerProcess, unique

BODY = b'{"items":[{"queue":"smuggled","payload":1}]}'
HEAD = b"POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
NEXT = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

BROKEN = {
    "length-then-chunked": HEAD + LENGTH + CHUNKED + b"\r\n0\r\n\r\n" + NEXT,
    "chunked-then-length": HEAD + CHUNKED + b"Content-Length: 4\r\n\r\n" + CHUNKS + NEXT,
    "two-lengths": HEAD + LENGTH + b"Content-Length: 4\r\n\r\n" + BODY + NEXT,
    "length-text": HEAD + b"Content-Length: abc\r\n\r\n" + BODY + NEXT,
    "length-negative": HEAD + b"Content-Length: -5\r\n\r\n" + BODY + NEXT,
    "length-list": HEAD + b"Content-Length: 4, 4\r\n\r\n" + BODY + NEXT,
    "unknown-encoding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKS + NEXT,
    "encoding-twice": HEAD + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n" + CHUNKS + NEXT,
    "chunk-size-text": HEAD + CHUNKED + b"\r\nZZ\r\nabc\r\n0\r\n\r\n" + NEXT,
    "chunk-size-huge": HEAD + CHUNKED + b"\r\nffffffffffffffffff\r\nabc\r\n0\r\n\r\n" + NEXT,
    "bytes-in-path": "GET /api/v1/pop/queue/é HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
    "blank-in-path": b"GET /api/v1/pop/queue/a b HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "unknown-verb": b"BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "unknown-version": b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "blank-in-header-name": b"GET /health HTTP/1.1\r\nHost : queen\r\n\r\n",
    "nul-in-header": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n",
}
LARGE = {
    "one-header": b"GET /health HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    "many-headers": b"GET /health HTTP/1.1\r\n" + b"X: aaaaaaaaaaaaaaaa\r\n" * 6_000 + b"\r\n",
    "headers-without-end": b"GET /health HTTP/1.1\r\n" + b"X: aaaaaaaaaaaaaaaa\r\n" * 6_000,
    "request-line": b"GET /api/v1/pop/queue/" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    "query": b"GET /api/v1/dlq?queue=" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
}


def error_of(rest: bytes) -> str:
    """The sentence of the one answer that was sent."""
    head, body = rest.split(b"\r\n\r\n", 1)
    assert b"content-type: application/json" in head.lower(), rest
    error: str = json.loads(body)["error"]
    assert error and "\n" not in error
    return error


@pytest.mark.parametrize("request_bytes", BROKEN.values(), ids=BROKEN)
async def test_a_broken_request_ends_its_connection_with_one_400(
    api: Api, broker: BrokerProcess, request_bytes: bytes
) -> None:
    status, rest = await send_raw(broker.url, request_bytes)
    assert status == 400
    # One answer: what follows a broken request must never be taken for a request of its own.
    assert b"HTTP/1.1" not in rest
    assert await api.pop("smuggled") == []
    assert (await api.http.get("/health")).status_code == 200


@pytest.mark.parametrize("request_bytes", BROKEN.values(), ids=BROKEN)
async def test_a_broken_request_is_told_what_is_wrong_in_json(
    broker: BrokerProcess, request_bytes: bytes
) -> None:
    _, rest = await send_raw(broker.url, request_bytes)
    assert error_of(rest)


@pytest.mark.parametrize("request_bytes", LARGE.values(), ids=LARGE)
async def test_headers_of_100_kilobytes_are_refused_with_431(
    api: Api, broker: BrokerProcess, request_bytes: bytes
) -> None:
    status, rest = await send_raw(broker.url, request_bytes)
    assert status == 431
    assert "headers" in error_of(rest)
    assert (await api.http.get("/health")).status_code == 200


async def test_a_body_that_never_ends_is_dropped_with_its_connection(
    api: Api, broker: BrokerProcess
) -> None:
    queue = unique()
    body = b'{"items":[{"queue":"%s","payload":1}]}' % queue.encode()
    async with raw_connection(broker.url) as (_, writer):
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % (len(body) + 1) + body)
        await writer.drain()
        assert await api.pop(queue) == []
    assert await api.pop(queue) == []
    await api.push(queue, 2)
    assert await api.data(queue) == [2]


async def test_a_connection_that_sends_nothing_disturbs_nobody(
    api: Api, broker: BrokerProcess
) -> None:
    async with raw_connection(broker.url), raw_connection(broker.url) as (_, writer):
        writer.write(b"POST /api/v1/pu")
        await writer.drain()
        queue = unique()
        await api.push(queue, 1)
        assert await api.data(queue) == [1]


async def test_a_request_that_asks_for_an_upgrade_is_answered_as_usual(
    broker: BrokerProcess,
) -> None:
    request = (
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade, close\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    status, _ = await send_raw(broker.url, request)
    assert status == 200


async def test_a_request_of_http_1_0_is_answered_and_closed(broker: BrokerProcess) -> None:
    status, rest = await send_raw(broker.url, b"GET /health/live HTTP/1.0\r\n\r\n")
    assert status == 200
    assert rest.endswith(b'{"status":"live"}')
