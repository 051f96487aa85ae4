"""The same bytes to uvicorn and to our edge, in front of the same echo: the same answers.

Where they differ on purpose, docs/api.md says so: we refuse what RFC 9112 lets a server refuse, and
answer errors in JSON. So a request that we accept must mean the same to both.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httptools
import uvicorn

from queenmq.server.edge.connection import Edge
from queenmq.server.edge.crowd import Crowd
from queenmq.server.edge.exchange import Exchange
from queenmq.server.edge.head import HeadReader
from queenmq.server.edge.server import EdgeServer
from tests.support.broker import SOON_S
from tests.support.edge_wire import CROWD_LIMITS, HEAD_LIMITS, EdgeWire
from tests.support.waiting import wait_until_async

_ROUNDS = 250
_END = b"GET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


def _echo(exchange: Exchange) -> None:
    head = exchange.head
    told = b"%b %b?%b %b" % (head.method.encode(), head.path, head.query, exchange.body)
    exchange.answer(200, told, ((b"content-type", b"text/plain"),))


async def _asgi_echo(scope: Any, receive: Any, send: Any) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message.get("body", b"")
        more = message.get("more_body", False)
    method, path = scope["method"].encode(), scope["raw_path"]
    told = b"%b %b?%b %b" % (method, path, scope["query_string"], body)
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(told))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": told})


def _listening() -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(100)
    return sock


@asynccontextmanager
async def _both() -> AsyncIterator[tuple[int, int]]:
    """Ports of our edge and of uvicorn."""
    ours, theirs = _listening(), _listening()
    edge = Edge(Crowd(CROWD_LIMITS), HeadReader(HEAD_LIMITS, lambda _: ()), _echo, _fail, 10**9)
    server = EdgeServer(edge, backlog=100)
    await server.start(ours)
    config = uvicorn.Config(
        _asgi_echo, http="httptools", ws="none", lifespan="off", log_config=None,
        server_header=False, date_header=False,
    )  # fmt: skip
    peer = uvicorn.Server(config)
    serving = asyncio.create_task(peer.serve(sockets=[theirs]))
    await wait_until_async(lambda: peer.started, timeout_s=SOON_S, what="uvicorn to start")
    try:
        yield ours.getsockname()[1], theirs.getsockname()[1]
    finally:
        peer.should_exit = True
        await serving
        server.close()
        await server.stop(1)


def _fail(exchange: Exchange, error: BaseException) -> None:
    raise AssertionError(f"{exchange.head} broke") from error


async def _ask(port: int, data: bytes, cut: int) -> list[tuple[int, bytes]]:
    """Status and body of every answer to these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for at in range(0, len(data), cut or len(data)):
            writer.write(data[at : at + (cut or len(data))])
            await writer.drain()
        async with asyncio.timeout(SOON_S):
            said = await reader.read()
    except ConnectionError:
        said = b""
    finally:
        writer.close()
    return _answers(said)


def _answers(said: bytes) -> list[tuple[int, bytes]]:
    found = []
    while said.startswith(b"HTTP/1.1 "):
        head, _, rest = said.partition(b"\r\n\r\n")
        status = int(head[9:12])
        lengths = [line for line in head.lower().split(b"\r\n") if b"content-length:" in line]
        length = int(lengths[0].split(b":")[1]) if lengths else 0
        if status != 100:
            found.append((status, rest[:length]))
        said = rest[length:] if status != 100 else rest
    return found


def _request(chance: random.Random) -> bytes:
    """A request that is valid, in one of many spellings."""
    method = chance.choice([b"GET", b"POST", b"PUT", b"DELETE"])
    path = chance.choice([b"/", b"/a/b", b"/a%20b", b"/a?x=1&y", b"/?", b"/a//b/../c"])
    body = chance.choice([b"", b"{}", b"\r\n\r\n", b"x" * chance.randint(1, 3_000)])
    lines = [chance.choice([b"Host: h", b"host:h", b"HOST:   h  "])]
    lines += chance.sample([b"X: y", b"Accept: */*", b"Z:", b'Q: "a, b"', b"X: again"], k=2)
    if body and chance.random() < 0.5:
        lines.append(chance.choice([b"Transfer-Encoding: chunked", b"transfer-encoding:Chunked"]))
        cut = chance.randint(1, len(body))
        parts = [part for part in (body[:cut], body[cut:]) if part]
        sent = b"".join(b"%X\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n"
        sent += chance.choice([b"", b"T: u\r\n"]) + b"\r\n"
    else:
        sent = body
        if body or chance.random() < 0.5:
            lines.append(b"Content-Length: %d" % len(body))
    chance.shuffle(lines)
    return b"\r\n".join([b"%b %b HTTP/1.1" % (method, path), *lines, b"", b""]) + sent


def _mutated(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    change = chance.choice([b"\0", b"\n", b"\r\n", b" ", b":", b"1", b"Host: x\r\n", b"\xff"])
    return data[:at] + change + data[at + chance.randint(0, 2) :]


async def test_valid_requests_are_answered_alike_however_they_are_cut() -> None:
    chance = random.Random(1)
    async with _both() as (ours, theirs):
        for number in range(_ROUNDS):
            data = b"".join(_request(chance) for _ in range(chance.randint(1, 4))) + _END
            cut = chance.choice([0, 0, 0, 1 if len(data) < 600 else 97, 13])
            told = await asyncio.gather(_ask(ours, data, cut), _ask(theirs, data, 0))
            assert told[0] == told[1], (number, data)
            assert {status for status, _ in told[0]} == {200}


class _First:
    """The first request in some bytes, as llhttp reads it."""

    def __init__(self, data: bytes) -> None:
        self.url = self.body = b""
        self.is_complete = False
        with contextlib.suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
            httptools.HttpRequestParser(self).feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += b"" if self.is_complete else url

    def on_body(self, body: bytes) -> None:
        self.body += b"" if self.is_complete else body

    def on_message_complete(self) -> None:
        self.is_complete = True


async def test_a_broken_request_that_we_accept_means_the_same_to_llhttp() -> None:
    chance = random.Random(2)
    accepted = 0
    for number in range(20 * _ROUNDS):
        data = _mutated(chance, _request(chance)) + _END
        wire = EdgeWire()
        wire.send(data, cut=chance.choice([0, 0, 1]))
        if wire.exchanges:
            accepted += 1
            head, peer = wire.exchanges[0].head, _First(data)
            target = head.path + (b"?" + head.query if head.query else b"")
            assert peer.is_complete, (number, data)
            assert (target, wire.exchanges[0].body) == (peer.url.rstrip(b"?"), peer.body), data
    assert accepted > _ROUNDS
