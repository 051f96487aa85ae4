"""Clients that leave before they have their answer: the application is told, once."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.edge_wire import EdgeWire, GatedThreads, turn
from tests.support.waiting import wait_until_async

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
ZIPPED = GET.replace(b"\r\n\r\n", b"\r\nAccept-Encoding: gzip\r\n\r\n")


def watch(wire: EdgeWire) -> list[str]:
    """Note when the application is told that the client of the first request has left."""
    told: list[str] = []
    wire.exchanges[0].on_left = lambda: told.append("left")
    return told


async def test_a_client_that_leaves_while_its_answer_is_compressed() -> None:
    threads = GatedThreads()
    wire = EdgeWire(gzip_bytes_min=1_000, threads=threads)
    wire.send(ZIPPED)
    told = watch(wire)
    wire.exchanges[0].answer(200, b"a" * 200_000)
    await threads.wait_until_entered()
    wire.leave()
    assert told == ["left"]
    threads.open()
    await asyncio.to_thread(threads.shutdown)
    await turn()
    assert (told, wire.statuses) == (["left"], [])


@pytest.mark.parametrize("head", [GET, ZIPPED], ids=["plain", "compressed"])
async def test_a_client_that_leaves_before_it_has_read_its_answer(head: bytes) -> None:
    wire = EdgeWire(gzip_bytes_min=1_000)
    wire.transport.on_write = wire.connection.pause_writing
    wire.send(head)
    told = watch(wire)
    wire.exchanges[0].answer(200, b"a" * 2_000)
    assert (told, wire.statuses) == ([], [200])
    wire.leave()
    assert told == ["left"]


async def test_a_client_whose_connection_breaks_when_the_answer_is_written() -> None:
    wire = EdgeWire()
    wire.transport.on_write = wire.transport.abort
    wire.send(GET)
    told = watch(wire)
    wire.exchanges[0].answer(200, b"a")
    wire.leave()
    assert told == ["left"]


async def test_a_client_that_leaves_after_it_has_taken_its_answer() -> None:
    wire = EdgeWire()
    wire.send(GET)
    told = watch(wire)
    wire.exchanges[0].answer(200, b"a")
    wire.leave()
    slow = EdgeWire()
    slow.transport.on_write = slow.connection.pause_writing
    slow.send(GET)
    told_of_slow = watch(slow)
    slow.exchanges[0].answer(200, b"a")
    slow.connection.resume_writing()
    slow.leave()
    assert (told, told_of_slow) == ([], [])


async def test_a_client_that_leaves_while_its_body_is_decoded_starts_nothing() -> None:
    threads = GatedThreads()
    wire = EdgeWire(threads=threads)
    wire.send_encoded(b"a" * 80_000_000)
    await threads.wait_until_entered()
    assert wire.crowd.body_bytes > 70_000
    wire.leave()
    assert wire.crowd.body_bytes > 70_000, "the thread still has it"
    threads.open()
    await wait_until_async(
        lambda: wire.crowd.body_bytes == 0, timeout_s=10, what="the thread to end"
    )
    assert (wire.exchanges, wire.statuses) == ([], [])
