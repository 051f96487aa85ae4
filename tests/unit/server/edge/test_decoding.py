"""Large compressed bodies: decoded in a thread, while other clients are served."""

from __future__ import annotations

import random

from queenmq.server.edge.crowd import Crowd
from queenmq.server.edge.exchange import Exchange
from queenmq.server.edge.machine import State
from tests.support.edge_wire import CROWD_LIMITS, EdgeWire, GatedThreads, turn
from tests.support.waiting import wait_until_async

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


def echo(exchange: Exchange) -> None:
    exchange.answer(200, exchange.body)


async def test_others_are_served_meanwhile_and_the_next_request_waits() -> None:
    threads, crowd = GatedThreads(), Crowd(CROWD_LIMITS)
    wire = EdgeWire(echo, crowd=crowd, threads=threads)
    body = random.Random(1).randbytes(90_000)
    wire.send_encoded(body, then=GET)
    other = EdgeWire(echo, crowd=crowd)
    other.send(GET)
    assert (wire.connection.state, wire.statuses, other.statuses) == (State.DECODING, [], [200])
    wire.send(GET)
    threads.open()
    await wait_until_async(lambda: len(wire.statuses) == 3, timeout_s=10, what="all answers")
    assert [one.body for one in wire.exchanges] == [body, b"", b""]
    assert crowd.body_bytes == 0


async def test_a_bomb_is_refused_and_what_follows_it_is_not_carried_out() -> None:
    wire = EdgeWire(echo)
    wire.send_encoded(b"a" * 80_000_000, then=GET)
    await wait_until_async(lambda: wire.statuses, timeout_s=10, what="an answer")
    await turn()
    assert (wire.statuses, wire.exchanges) == ([413], [])
    assert wire.connection.state is State.CLOSING
    assert wire.crowd.body_bytes == 0


async def test_a_body_that_does_not_fit_beside_the_others_is_refused_when_it_is_decoded() -> None:
    crowd = Crowd(CROWD_LIMITS)
    full = EdgeWire(crowd=crowd)
    full.send(b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 99000\r\n\r\n" + b"x" * 99_000)
    for body in (b"a" * 99_000, random.Random(1).randbytes(70_000) + b"a" * 29_000):
        wire = EdgeWire(echo, crowd=crowd)
        crowd.body_bytes += 12_000
        wire.send_encoded(body)
        await wait_until_async(lambda wire=wire: wire.statuses, timeout_s=10, what="an answer")
        crowd.body_bytes -= 12_000
        assert (wire.statuses, crowd.body_bytes) == ([503], 99_000)
