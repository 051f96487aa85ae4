"""Callers that hang up at any point of their pop: what was meant for them goes to the next one at
once, and nothing of them stays behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.acceptance.load import Wire, pop_path, wires
from tests.acceptance.sql_side import LEASING, LOOKING, STATES, Hold, held, wait_for_waiters
from tests.support.broker import SOON_S, BrokerProcess, unique

Brokers = list[BrokerProcess]
StartBroker = Callable[..., BrokerProcess]

#: Far below the lease time of 300 s, far above what an answer takes.
_WAIT_MS = 10_000
_SUBSCRIBING = Hold("queen.consumer_groups_metadata", "ACCESS EXCLUSIVE")
PLACES = pytest.mark.parametrize("partition", ["p", None], ids=["by name", "of the queue"])
WAITS = pytest.mark.parametrize("wait", [True, False], ids=["waiting", "not waiting"])


async def _assert_deliverable(wire: Wire, queue: str, payload: object, group: str) -> None:
    """The next consumer gets it, as if nobody had been there before."""
    query = {"wait": True, "timeout": _WAIT_MS, "consumerGroup": group}
    messages = await wire.pop(queue, **query)
    assert [message["data"] for message in messages] == [payload], "it stayed leased to nobody"
    assert messages[0]["retryCount"] == 0
    (result,) = await wire.ack(messages, group=group)
    assert result["success"]
    assert (await wire.call("GET", "/health")).status == 200


@WAITS
@PLACES
@pytest.mark.parametrize(
    "hold", [*STATES.values(), _SUBSCRIBING], ids=[*STATES, "subscribing"]
)  # fmt: skip
async def test_message_of_a_caller_that_left_during_its_call_is_deliverable_at_once(
    patient_brokers: Brokers,
    shared_database: asyncpg.Connection,
    hold: Hold,
    partition: str | None,
    wait: bool,
) -> None:
    url, queue = patient_brokers[0].url, unique()
    query = {"consumerGroup": "g", "wait": wait, "timeout": 60_000}
    if hold is _SUBSCRIBING:
        query["subscriptionFrom"] = "2001-01-01T00:00:00Z"
    async with Wire(url) as caller, Wire(url) as wire:
        assert (await wire.push(queue, 1, partition="p")).status == 201
        async with held(shared_database, hold):
            caller.send("GET", pop_path(queue, partition=partition, **query))
            await wait_for_waiters(shared_database)
            await caller.close()
            # The broker has seen the end of that connection before it answers this.
            await wire.settle()
        # Whatever is still done for the caller that left is done before these are answered.
        for _ in range(5):
            assert await wire.pop(unique(), consumerGroup="g") == []
        await _assert_deliverable(wire, queue, 1, "g")


@pytest.mark.parametrize("auto_ack", [False, True], ids=["leasing", "auto-acking"])
@PLACES
async def test_message_pushed_after_a_parked_caller_left_is_not_taken_for_it(
    patient_brokers: Brokers, partition: str | None, auto_ack: bool
) -> None:
    url, queue = patient_brokers[0].url, unique()
    query = {"consumerGroup": "g", "wait": True, "timeout": 60_000, "autoAck": auto_ack}
    async with wires([url] * 5) as callers, Wire(url) as wire:
        for caller in callers:
            caller.send("GET", pop_path(queue, partition=partition, **query))
        await wire.settle()
        assert await wire.pop(queue, partition=partition, consumerGroup="g") == []
        for caller in callers:
            await caller.close()
        await wire.settle()
        assert (await wire.push(queue, 1, partition="p")).status == 201
        await _assert_deliverable(wire, queue, 1, "g")


async def test_message_of_a_caller_that_left_goes_to_the_one_that_waits(
    patient_brokers: Brokers, shared_database: asyncpg.Connection
) -> None:
    """It is parked while the call of the first is in flight, and nothing else wakes it."""
    url, queue = patient_brokers[0].url, unique()
    path = pop_path(queue, partition="p", wait=True, timeout=_WAIT_MS)
    async with Wire(url) as leaving, Wire(url) as staying, Wire(url) as wire:
        assert (await wire.push(queue, 1, partition="p")).status == 201
        async with held(shared_database, LEASING):
            leaving.send("GET", path)
            await wait_for_waiters(shared_database)
            staying.send("GET", path)
            await wire.settle()
            await leaving.close()
            await wire.settle()
        answer = await staying.receive()
        assert answer.status == 200, "it stayed leased to nobody"
        assert [message["data"] for message in answer.body["messages"]] == [1]


_BOUND = 20


async def _leave(url: str, wire: Wire, path: str, *, count: int) -> None:
    async with wires([url] * count) as callers:
        for caller in callers:
            caller.send("GET", path)
        await wire.settle()
    await wire.settle()


async def test_no_way_for_a_pop_to_end_leaves_anything_waiting(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    """At most 20 may wait: if any way leaked, the last 20 would be refused."""
    broker, queue = start_broker(QUEEN_POP_WAITING_MAX=str(_BOUND)), unique()
    url, half = broker.url, _BOUND // 2
    async with Wire(url) as wire:
        for number in range(_BOUND):
            place = "p" if number % 2 else None
            assert (await wire.push(queue, number, partition="p")).status == 201
            # Waiting, for a call made for somebody who left may just be handing it back.
            query = {"wait": True, "timeout": _WAIT_MS, "autoAck": True}
            assert await wire.pop(queue, partition=place, **query)
            assert await wire.pop(queue, partition=place) == []
            assert await wire.pop(queue, partition=place, wait=True, timeout=1) == []
            path = pop_path(queue, partition=place, wait=True, timeout=60_000)
            await _leave(url, wire, path, count=2)
        assert (await wire.push(queue, "wanted", partition="p")).status == 201
        for hold in (LOOKING, LEASING, LOOKING, LEASING):
            async with held(database, hold):
                await _leave(url, wire, pop_path(queue, wait=True, timeout=60_000), count=half)
            async with held(database, hold):
                path = pop_path(queue, partition="p", wait=False)
                await _leave(url, wire, path, count=half)
    await _assert_room(url, queue)


async def _assert_room(url: str, queue: str) -> None:
    """As many as may wait can wait, and are served."""
    async with wires([url] * _BOUND) as polls, Wire(url) as wire:
        for poll in polls:
            poll.send("GET", pop_path(queue, wait=True, autoAck=True, timeout=_WAIT_MS))
        await wire.settle()
        items = [{"queue": queue, "payload": number} for number in range(_BOUND)]
        assert (await wire.call("POST", "/api/v1/push", {"items": items})).status == 201
        answers = await asyncio.gather(*(poll.receive() for poll in polls))
    assert [answer.status for answer in answers] == [200] * _BOUND


@pytest.mark.parametrize("coding", ["identity", "gzip"])
async def test_message_that_a_caller_did_not_read_is_deliverable_at_once(
    patient_brokers: Brokers, coding: str
) -> None:
    url, queue = patient_brokers[0].url, unique()
    # More than the buffers of both ends hold, also when it is compressed.
    payload = random.Random(1).randbytes(8_000_000).hex()
    async with Wire(url) as wire:
        assert (await wire.push(queue, payload)).status == 201
        head = f"GET {pop_path(queue)} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: {coding}"
        with slow_socket(url) as sock:
            await asyncio.to_thread(sock.sendall, head.encode() + b"\r\n\r\n")
            assert await asyncio.to_thread(sock.recv, 12) == b"HTTP/1.1 200"
        await _assert_deliverable(wire, queue, payload, "__QUEUE_MODE__")


async def test_message_is_not_taken_for_a_caller_that_left_behind_bytes_nobody_reads(
    patient_brokers: Brokers,
) -> None:
    url, queue = patient_brokers[0].url, unique()
    poll = f"GET {pop_path(queue, wait=True, timeout=60_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with Wire(url) as wire:
        with slow_socket(url) as sock:
            # So much that the broker stops reading, and cannot see the end behind it.
            await asyncio.to_thread(sock.sendall, poll.encode() * 4_000)
        await wire.settle()
        assert (await wire.push(queue, 1)).status == 201
        await _assert_deliverable(wire, queue, 1, "__QUEUE_MODE__")


@contextlib.contextmanager
def slow_socket(url: str) -> Iterator[socket.socket]:
    """A connection with little room for what is not read yet."""
    parts = urlsplit(url)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.settimeout(SOON_S)
        sock.connect((parts.hostname, parts.port))
        yield sock
