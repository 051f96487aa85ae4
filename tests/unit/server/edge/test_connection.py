"""One connection: answers in order, refusals that do nothing, clients that leave or do not read."""

from __future__ import annotations

import gzip

import pytest

from queenmq.server.edge.crowd import Crowd
from queenmq.server.edge.exchange import Exchange
from queenmq.server.edge.machine import State
from tests.support.edge_fuzz import Fuzz
from tests.support.edge_wire import CROWD_LIMITS, EdgeWire, turn
from tests.support.waiting import wait_until_async

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
CHUNKS = (
    b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: u\r\n\r\n"
)


def echo(exchange: Exchange) -> None:
    exchange.answer(200, exchange.head.path + exchange.body)


@pytest.mark.parametrize("cut", [0, *range(1, 30)])
async def test_requests_are_the_same_however_they_are_cut(cut: int) -> None:
    wire = EdgeWire(echo)
    wire.send(b"\r\n" + GET + POST + CHUNKS + POST + GET, cut=cut)
    await turn()
    seen = [(one.head.path, one.body) for one in wire.exchanges]
    assert seen == [
        (b"/a", b""), (b"/b", b"hello"), (b"/c", b"abcde"), (b"/b", b"hello"), (b"/a", b"")
    ]  # fmt: skip
    assert wire.statuses == [200] * 5
    assert wire.crowd.body_bytes == 0


async def test_the_next_request_waits_for_the_answer_to_the_one_before() -> None:
    wire = EdgeWire()
    wire.send(GET + POST)
    await turn()
    assert len(wire.exchanges) == 1
    wire.exchanges[0].answer(200, b"1")
    await turn()
    assert len(wire.exchanges) == 2
    wire.exchanges[1].answer(201, b"2")
    assert wire.statuses == [200, 201]


async def test_requests_behind_that_of_a_client_that_left_are_not_started() -> None:
    wire = EdgeWire()
    wire.send(GET + POST + GET)
    left: list[str] = []
    wire.exchanges[0].on_left = lambda: left.append("told")
    wire.leave()
    wire.exchanges[0].answer(200, b"1")
    await turn()
    assert (left, len(wire.exchanges), wire.statuses) == (["told"], 1, [])
    assert wire.exchanges[0].has_left
    assert (len(wire.crowd), wire.crowd.body_bytes) == (0, 0)


async def test_a_request_is_answered_once() -> None:
    wire = EdgeWire()
    wire.send(GET)
    wire.exchanges[0].answer(200, b"1")
    wire.exchanges[0].answer(500, b"2")
    assert wire.statuses == [200]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"DELETE /q HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 2_000 + b"\r\n\r\n", 431),
        (b"DELETE /q HTTP/1.1\r\nHost: h\r\n" + b"X: y\r\n" * 1_000 + b"\r\n", 431),
        (b"DELETE /q HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /q HTTP/1.1\r\nHost: h\r\nContent-Length: 100001\r\n\r\n", 413),
        (b"POST /q HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n186a1\r\n", 413),
        (POST.replace(b"hello", b"").replace(b"5\r", b"2\r\nContent-Encoding: br\r") + b"{}", 415),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (b"GET /\r\nHost: h\r\n", 400),
        (b"GET / HTTP/1.1\nHost: h\n\n", 400),
        (b"A" * 5_000, 431),
    ],
    ids=["header", "headers", "chunk", "length", "chunks", "coding", "tls", "0.9", "lf", "endless"],
)  # fmt: skip
@pytest.mark.parametrize("cut", [0, 1, 7])
async def test_a_refused_request_is_not_carried_out_and_ends_its_connection(
    data: bytes, status: int, cut: int
) -> None:
    wire = EdgeWire(echo)
    wire.send(data + GET, cut=cut)
    await turn()
    assert wire.exchanges == []
    assert wire.statuses == [status]
    assert b"connection: close" in wire.transport.written
    assert wire.transport.has_ended and wire.connection.state is State.CLOSING
    assert wire.crowd.body_bytes == 0


async def test_a_client_that_sends_on_while_it_waits_is_read_within_a_bound() -> None:
    wire = EdgeWire()
    wire.send(GET)
    for _ in range(100):
        if wire.transport.is_reading:
            wire.send(POST * 50)
    assert not wire.transport.is_reading
    assert len(wire.connection._intake.ahead) < 80_000
    wire.exchanges[0].answer(200, b"")
    await turn()
    assert wire.transport.is_reading or len(wire.exchanges) == 2


async def test_a_client_that_does_not_read_its_answers_is_not_read_either() -> None:
    wire = EdgeWire(echo)
    wire.connection.pause_writing()
    assert not wire.transport.is_reading
    wire.send(GET + GET)
    await turn()
    assert wire.exchanges == []
    wire.connection.resume_writing()
    await turn()
    assert wire.transport.is_reading
    assert wire.statuses == [200, 200]


async def test_an_expectation_is_met_before_the_body_comes() -> None:
    wire = EdgeWire(echo)
    head = b"POST /b HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    wire.send(head)
    assert wire.statuses == [100]
    wire.send(b"ok")
    assert wire.statuses == [100, 200]
    wire.send(head + b"ok")
    assert wire.statuses == [100, 200, 200]


async def test_http_1_0_and_close_end_the_connection_with_the_answer() -> None:
    for head in (
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    ):
        wire = EdgeWire(echo)
        wire.send(head + GET)
        await turn()
        assert wire.statuses == [200] and wire.transport.is_closed
        assert b"connection: close" in wire.transport.written


async def test_a_client_of_http_1_0_that_wants_to_stay_reads_that_it_may() -> None:
    wire = EdgeWire(echo)
    wire.send(b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2)
    await turn()
    assert wire.statuses == [200, 200]
    assert wire.transport.written.count(b"connection: keep-alive") == 2


async def test_head_is_answered_with_the_length_and_without_the_body() -> None:
    wire = EdgeWire(lambda exchange: exchange.answer(200, b"12345"))
    wire.send(GET.replace(b"GET", b"HEAD") + GET)
    await turn()
    first, second = wire.transport.written.split(b"HTTP/1.1 ")[1:]
    assert b"content-length: 5" in first and first.endswith(b"\r\n\r\n")
    assert second.endswith(b"12345")


@pytest.mark.parametrize("size", [2_000, 200_000], ids=["at once", "in a thread"])
async def test_a_large_answer_is_compressed_for_a_client_that_asks(size: int) -> None:
    wire = EdgeWire(lambda exchange: exchange.answer(200, b"a" * size), gzip_bytes_min=1_000)
    wire.send(GET.replace(b"\r\n\r\n", b"\r\nAccept-Encoding: gzip\r\n\r\n"))
    await wait_until_async(lambda: wire.transport.written, timeout_s=10, what="an answer")
    head, body = wire.transport.written.split(b"\r\n\r\n", 1)
    assert b"content-encoding: gzip" in head and b"vary: Accept-Encoding" in head
    assert gzip.decompress(body) == b"a" * size
    wire.send(GET)
    assert wire.transport.written.endswith(b"a" * size)


async def test_a_handler_that_raises_answers_its_own_request_only() -> None:
    def app(exchange: Exchange) -> None:
        if exchange.head.path == b"/a":
            raise ValueError("broken")
        echo(exchange)

    wire = EdgeWire(app)
    wire.send(GET + POST)
    await turn()
    assert wire.statuses == [500, 200]
    assert [str(error) for error in wire.errors] == ["broken"]


async def test_work_that_fails_later_is_answered() -> None:
    async def work() -> None:
        raise ValueError("later")

    wire = EdgeWire(lambda exchange: exchange.run(work()))
    wire.send(GET)
    await turn()
    assert wire.statuses == [500]


async def test_bodies_that_do_not_fit_into_memory_together_are_refused_before_they_come() -> None:
    crowd = Crowd(CROWD_LIMITS)
    wires = [EdgeWire(crowd=crowd) for _ in range(4)]
    head = b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 90000\r\n\r\n"
    for wire in wires[:2]:
        wire.send(head + b"x" * 90_000)
    assert crowd.body_bytes == 180_000
    wires[2].send(head)
    assert wires[2].statuses == [503]
    assert b"retry-after: 1" in wires[2].transport.written
    wires[0].exchanges[0].answer(200, b"")
    assert crowd.body_bytes == 90_000
    wires[3].send(head + b"x" * 90_000)
    assert len(wires[3].exchanges) == 1


async def test_a_body_counts_until_its_request_is_done_although_its_client_has_left() -> None:
    crowd = Crowd(CROWD_LIMITS)
    wire = EdgeWire(crowd=crowd)
    wire.send(b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 90000\r\n\r\n" + b"x" * 90_000)
    wire.leave()
    assert (len(crowd), crowd.body_bytes) == (0, 90_000)
    wire.exchanges[0].answer(200, b"")
    wire.exchanges[0].answer(200, b"")
    assert (crowd.body_bytes, wire.statuses) == (0, [])


@pytest.mark.parametrize("seed", range(4))
async def test_no_bytes_break_a_connection_or_leave_anything_behind(seed: int) -> None:
    await Fuzz(seed).run(1_000)


async def test_a_flood_of_pipelined_requests_is_read_within_a_bound_and_answered() -> None:
    wire = EdgeWire(echo)
    sent = 0
    while sent < 20_000:
        if not wire.transport.is_reading:
            await turn()
            continue
        wire.send(GET * 500)
        sent += 500
        assert len(wire.connection._intake.ahead) < 200_000
    while len(wire.exchanges) < sent:
        await turn()
    assert wire.statuses == [200] * sent


@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_a_body_refused_on_its_way_leaves_the_account_as_it_was(framing: str) -> None:
    crowd = Crowd(CROWD_LIMITS)
    first = EdgeWire(crowd=crowd)
    first.send(b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 99000\r\n\r\n" + b"x" * 98_000)
    second = EdgeWire(crowd=crowd)
    second.send(b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 99000\r\n\r\n" + b"x" * 98_000)
    third = EdgeWire(crowd=crowd)
    if framing == "length":
        third.send(b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 4000\r\n\r\n" + b"x" * 3_000)
    else:
        third.send(b"POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        third.send(b"bb8\r\n" + b"x" * 3_000)
    third.send(b"x" * 1_000 if framing == "length" else b"\r\n5dc\r\n" + b"x" * 1_500)
    assert crowd.body_bytes in (196_000, 199_000, 200_000)
    for exchange in third.exchanges:
        exchange.answer(200, b"")
    third.leave()
    assert crowd.body_bytes == 196_000


async def test_empty_lines_after_a_request_ask_for_nothing() -> None:
    wire = EdgeWire(echo)
    wire.send(GET + b"\r\n")
    await turn()
    assert (wire.statuses, wire.connection.state) == ([200], State.IDLE)
