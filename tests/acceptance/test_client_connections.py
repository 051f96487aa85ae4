"""Connections of the client: kept, bounded, ended when in doubt; every form an answer may have."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
from typing import Any

import pytest

from queenmq import BadRequest, ClientClosed, Queen, Unreachable
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.scripted_server import Cut, Say, Silence, Step, Verbatim, scripted
from tests.support.waiting import wait_until_async

FAST: dict[str, Any] = {"retry_delay_millis": 1, "max_retry_delay": 0.05}
ONCE: dict[str, Any] = {"retry_attempts": 1}

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
WHOLE = HEAD + b'Content-Length: 8\r\n\r\n{"a": 1}'
SOON = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"


async def get(queen: Queen) -> Any:
    return await asyncio.wait_for(queen._transport.call("GET", "/x"), SOON_S)


@pytest.mark.parametrize(
    "answer",
    [
        Verbatim((CHUNKED + b'2\r\n{"\r\n6\r\na": 1}\r\n0\r\n\r\n',)),
        Verbatim((CHUNKED, b'8;x=y\r\n{"a"', b": 1}\r\n", b"0\r\nTrailer: 1\r\n\r\n")),
        Verbatim((WHOLE[:20], WHOLE[20:40], WHOLE[40:-3], WHOLE[-3:])),
        Verbatim((SOON + WHOLE,)),
        Verbatim((SOON, WHOLE)),
    ],
    ids=["chunks", "chunks in pieces", "pieces", "announced", "announced before"],
)
async def test_an_answer_may_come_in_any_form_and_leaves_the_connection_usable(
    answer: Verbatim,
) -> None:
    async with scripted(answer) as server, Queen(server.url, **ONCE) as queen:
        assert [await get(queen) for _ in range(3)] == [{"a": 1}] * 3
        assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        Verbatim((HEAD + b'\r\n{"a"', b": 1}"), then_close=True),
        Verbatim((WHOLE.replace(b"\r\n", b"\r\nConnection: close\r\n", 1),)),
        Verbatim((WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"),)),
        Verbatim((WHOLE + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",)),
        Verbatim((WHOLE + b"garbage",)),
    ],
    ids=["without a length", "close", "old HTTP", "two answers", "more than an answer"],
)
async def test_a_connection_is_not_used_again_if_it_may_not_be(answer: Verbatim) -> None:
    async with scripted(answer) as server, Queen(server.url, **ONCE) as queen:
        assert [await get(queen) for _ in range(3)] == [{"a": 1}] * 3
        assert server.connections == 3
        await wait_until_async(
            lambda: server.open_connections == 0, timeout_s=SOON_S, what="the connections to end"
        )


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Cut(), "the connection was closed"),
        (Cut(Say(200, {"a": 1}), after_bytes=30), "the connection was closed"),
        (Verbatim((CHUNKED + b"8\r\n{",), then_close=True), "the connection was closed"),
        (Verbatim((b"SSH-2.0-OpenSSH_9\r\n",)), "is not HTTP"),
        (Verbatim((CHUNKED + b"nonsense\r\n",)), "is not HTTP"),
        (Verbatim((b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",)),
         "is not HTTP"),
    ],
    ids=["nothing", "half a head", "half a chunk", "another protocol", "bad chunk", "upgrade"],
)  # fmt: skip
async def test_what_is_no_answer_ends_the_connection_and_the_next_request_gets_one(
    answer: Step, text: str
) -> None:
    async with scripted(answer, Verbatim((WHOLE,))) as server, Queen(server.url, **ONCE) as queen:
        with pytest.raises(Unreachable, match=text):
            await get(queen)
        assert await get(queen) == {"a": 1}
        assert server.connections == 2


async def test_requests_in_turn_share_a_connection_and_at_once_have_one_each() -> None:
    async with scripted(Say(200, {"a": 1})) as server, Queen(server.url, **ONCE) as queen:
        for _ in range(5):
            await get(queen)
        assert server.connections == 1
        await asyncio.gather(*(get(queen) for _ in range(5)))
        assert server.connections == 5
        await asyncio.gather(*(get(queen) for _ in range(5)))
        assert server.connections == 5


async def test_there_are_no_more_connections_than_allowed_and_all_requests_get_through() -> None:
    async with scripted(Say(200, {"a": 1})) as server:
        async with Queen(server.url, connections=2, **ONCE) as queen:
            assert await asyncio.gather(*(get(queen) for _ in range(20))) == [{"a": 1}] * 20
        assert server.connections == 2


async def test_a_request_that_gets_no_connection_in_time_says_so() -> None:
    async with scripted(Silence()) as server:
        async with Queen(server.url, connections=1, timeout_millis=50, **ONCE) as queen:
            waiting = asyncio.ensure_future(queen.pop("q", wait=True))
            await wait_until_async(lambda: server.seen, timeout_s=SOON_S, what="the poll")
            with pytest.raises(Unreachable, match="raise the option `connections`"):
                await get(queen)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


async def test_a_cancelled_request_ends_its_connection_and_nobody_gets_its_answer() -> None:
    async with scripted(Silence(), Say(200, {"a": 1})) as server:
        async with Queen(server.url, **ONCE) as queen:
            request = asyncio.ensure_future(get(queen))
            await wait_until_async(lambda: server.seen, timeout_s=SOON_S, what="the request")
            request.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await request
            await wait_until_async(
                lambda: server.open_connections == 0, timeout_s=SOON_S, what="the end of it"
            )
            assert await get(queen) == {"a": 1}


async def test_a_server_that_closes_an_idle_connection_is_not_sent_requests_over_it() -> None:
    async with scripted(Say(200, {"a": 1})) as server, Queen(server.url, **ONCE) as queen:
        for _ in range(3):
            assert await get(queen) == {"a": 1}
            server.close()
            await wait_until_async(
                lambda: server.open_connections == 0, timeout_s=SOON_S, what="the end of it"
            )
        assert server.connections == 3


async def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    late = b"HTTP/1.1 408 Too slow\r\nContent-Length: 0\r\n\r\n"
    async with scripted(Say(200, {"a": 1})) as server, Queen(server.url, **ONCE) as queen:
        await get(queen)
        server.blurt(late)
        await wait_until_async(
            lambda: server.open_connections == 0, timeout_s=SOON_S, what="the end of it"
        )
        assert await get(queen) == {"a": 1}


async def test_close_ends_connections_and_requests_under_way() -> None:
    async with scripted(Say(200, {"a": 1}), Silence()) as server:
        queen = Queen(server.url, **ONCE)
        await get(queen)
        waiting = asyncio.ensure_future(get(queen))
        await wait_until_async(lambda: len(server.seen) == 2, timeout_s=SOON_S, what="a request")
        await queen.close()
        with pytest.raises(ClientClosed):
            await waiting
        with pytest.raises(ClientClosed):
            await get(queen)
        await wait_until_async(
            lambda: server.open_connections == 0, timeout_s=SOON_S, what="the connections to end"
        )


async def test_a_port_that_nobody_listens_on_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        async with Queen(f"http://127.0.0.1:{free.getsockname()[1]}", **ONCE) as queen:
            with pytest.raises(Unreachable, match="is the server running there"):
                await get(queen)


async def test_large_payloads_go_both_ways(broker: BrokerProcess) -> None:
    payload = "ü" * 2_000_000
    async with Queen(broker.url) as queen:
        queue = unique()
        await queen.push(queue, [payload, 1])
        first, second = await queen.pop(queue, batch=2)
        assert (first.data, second.data) == (payload, 1)
        with pytest.raises(BadRequest):
            await queen.push(queue, payload * 20)
        await queen.ack([first, second])


async def test_a_base_url_may_have_a_path_and_headers_are_sent() -> None:
    async with scripted(Say(200, {"a": 1})) as server:
        headers = {"X-Tenant": "a b", "accept-language": "de"}
        async with Queen(f"{server.url}/queen/", headers=headers) as queen:
            await get(queen)
        (seen,) = server.seen
        assert seen.path == "/queen/x"
        assert seen.headers["x-tenant"] == "a b"
        assert seen.headers["host"] == server.url.removeprefix("http://")


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "a\r\nY: b"},
        {"X": "a\nb"},
        {"X": "\x00"},
        {"X": "日"},
        {"X:Y": "a"},
        {"X\r\nY": "a"},
        {"": "a"},
        {"Content-Length": "5"},
        {"transfer-encoding": "chunked"},
    ],
)
def test_headers_that_would_not_stay_headers_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="header"):
        Queen("http://localhost", headers=headers)


async def test_a_token_with_a_line_break_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError) as refused:
        Queen("http://localhost", bearer_token="secret\r\nX: y")
    assert "secret" not in str(refused.value)
    async with scripted(Say(200, {})) as server:
        async with Queen(server.url, bearer_token=lambda: "secret\n") as queen:
            with pytest.raises(ValueError):
                await get(queen)
    assert server.seen == []


@pytest.mark.parametrize(
    "url",
    ["http://", "http://:80", "http://h/?a=b", "http://h#x", "http://user:word@h", "http://h:x"],
)
def test_a_url_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError) as refused:
        Queen(url)
    assert "word" not in str(refused.value)


async def test_a_token_function_that_fails_is_tried_again() -> None:
    tries = io.StringIO("")

    async def token() -> str:
        tries.write("x")
        if len(tries.getvalue()) < 3:
            raise OSError("no route to the issuer")
        return "t"

    async with scripted(Say(200, {"a": 1})) as server:
        async with Queen(server.url, bearer_token=token, **FAST) as queen:
            assert await get(queen) == {"a": 1}
        assert server.seen[0].headers["authorization"] == "Bearer t"
        async with Queen(server.url, bearer_token=lambda: 1 / 0, **ONCE) as queen:  # type: ignore[arg-type, return-value]
            with pytest.raises(Unreachable, match="ZeroDivisionError"):
                await get(queen)
