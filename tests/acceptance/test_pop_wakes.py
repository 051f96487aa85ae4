"""What wakes a waiting pop: news that comes while a call for it is in flight, and due times.

The brokers here never look by themselves, so a wake-up that is lost leaves the pop without answer.
"""

from __future__ import annotations

import asyncio
import time

import asyncpg
import pytest

from tests.acceptance.load import Answer, Wire, pop_path, wires
from tests.acceptance.sql_side import (
    LEASING,
    LOOKING,
    Hold,
    held,
    listen_for_wakes,
    wait_for_waiters,
)
from tests.isolation.sessions import Connect, configure, ensure, pop_one
from tests.support.broker import BrokerProcess, unique

Brokers = list[BrokerProcess]

_WAIT_MS = 10_000
PLACES = pytest.mark.parametrize("partition", ["p", None], ids=["by name", "of the queue"])
#: There is nothing to fetch yet when these calls are made.
HOLDS = pytest.mark.parametrize("hold", [LOOKING, LEASING], ids=["looking", "leasing"])


async def _prepare(queue: str, *connections: Wire) -> None:
    """Every broker has seen the partition and the group, and believes in it without reason."""
    for wire in connections:
        assert await wire.pop(queue) == []
    for wire in connections:
        assert (await wire.push(queue, "taken", partition="p")).status == 201
        (message,) = await wire.pop(queue, partition="p", autoAck=True)
        assert message["data"] == "taken"


def _data(answer: Answer) -> list[object]:
    assert answer.status == 200, "the wake-up was lost"
    return [message["data"] for message in answer.body["messages"]]


@HOLDS
@PLACES
async def test_push_during_the_call_of_a_waiting_pop_is_delivered(
    patient_brokers: Brokers,
    shared_database: asyncpg.Connection,
    partition: str | None,
    hold: Hold,
) -> None:
    url, queue = patient_brokers[0].url, unique()
    path = pop_path(queue, partition=partition, wait=True, timeout=_WAIT_MS)
    async with Wire(url) as poll, Wire(url) as wire:
        for turn in range(5):
            await _prepare(queue, wire)
            async with held(shared_database, hold):
                poll.send("GET", path)
                await wait_for_waiters(shared_database)
                assert (await wire.push(queue, turn, partition="p")).status == 201
            answer = await poll.receive()
            assert _data(answer) == [turn]
            await wire.ack(answer.body["messages"])


@HOLDS
@PLACES
async def test_push_elsewhere_during_the_call_of_a_waiting_pop_is_delivered(
    patient_brokers: Brokers,
    shared_database: asyncpg.Connection,
    connect_shared: Connect,
    partition: str | None,
    hold: Hold,
) -> None:
    (url, elsewhere), queue = (one.url for one in patient_brokers), unique()
    async with Wire(url) as poll, Wire(url) as wire, Wire(elsewhere) as other:
        heard = await listen_for_wakes(connect_shared, queue)
        await _prepare(queue, other, wire)
        # One of each broker, so that the next one is that of the push below.
        await heard()
        await heard()
        async with held(shared_database, hold):
            poll.send("GET", pop_path(queue, partition=partition, wait=True, timeout=_WAIT_MS))
            await wait_for_waiters(shared_database)
            assert (await other.push(queue, "new", partition="p")).status == 201
            await heard()
            # What we have heard, the broker has heard before it answers this.
            await wire.settle()
        assert _data(await poll.receive()) == ["new"]


@pytest.mark.parametrize("pushed_at", ["here", "elsewhere"])
async def test_push_to_another_partition_during_the_call_of_a_waiting_pop_is_delivered(
    patient_brokers: Brokers,
    shared_database: asyncpg.Connection,
    connect_shared: Connect,
    pushed_at: str,
) -> None:
    """The call is about a partition that turns out to be leased."""
    (url, elsewhere), queue = (one.url for one in patient_brokers), unique()
    async with Wire(url) as poll, Wire(url) as wire, Wire(elsewhere) as other:
        heard = await listen_for_wakes(connect_shared, queue)
        await _prepare(queue, other, wire)
        await heard()
        await heard()
        assert (await wire.push(queue, "first", partition="leased")).status == 201
        await heard()
        assert await wire.pop(queue, partition="leased")
        poll.send("GET", pop_path(queue, wait=True, timeout=_WAIT_MS))
        await wire.settle()
        # Answered once everything has been looked at; from now on the first one is parked.
        assert await wire.pop(queue) == []
        async with held(shared_database, LEASING):
            assert (await wire.push(queue, "second", partition="leased")).status == 201
            await wait_for_waiters(shared_database)
            await heard()
            pusher = other if pushed_at == "elsewhere" else wire
            assert (await pusher.push(queue, "new", partition="p")).status == 201
            await heard()
            await wire.settle()
        assert _data(await poll.receive()) == ["new"]


@PLACES
async def test_ack_at_one_broker_wakes_the_pop_that_waits_at_another(
    patient_brokers: Brokers, partition: str | None
) -> None:
    """The partition was leased; the ack leaves a message behind that only the other one wants."""
    (url, elsewhere), queue = (one.url for one in patient_brokers), unique()
    async with Wire(url) as wire, Wire(elsewhere) as poll, Wire(elsewhere) as other:
        assert (await wire.push(queue, 1, partition="p")).status == 201
        assert (await wire.push(queue, 2, partition="p")).status == 201
        first = await wire.pop(queue, partition="p")
        poll.send("GET", pop_path(queue, partition=partition, wait=True, timeout=_WAIT_MS))
        await other.settle()
        # Answered once everything has been looked at; from now on the first one is parked.
        assert await other.pop(queue, partition=partition) == []
        assert (await wire.ack(first))[0]["success"]
        assert _data(await poll.receive()) == [2]


#: What keeps a message back for a second, and where a pop waits for it.
DUE = [
    (column, place)
    for column in ("delayed_processing", "window_buffer", "lease_time")
    for place in ("p", None)
]


async def _due_queues(session: asyncpg.Connection) -> list[str]:
    queues = [unique(column) for column, _ in DUE]
    for queue, (column, _) in zip(queues, DUE, strict=True):
        await configure(session, queue, **{column: 1})
    return queues


def _send_polls(polls: list[Wire], queues: list[str]) -> None:
    for poll, queue, (_, place) in zip(polls, queues, DUE, strict=True):
        poll.send("GET", pop_path(queue, partition=place, wait=True, timeout=_WAIT_MS))


async def _assert_served(polls: list[Wire]) -> None:
    answers = await asyncio.gather(*(poll.receive() for poll in polls))
    late = [due for due, answer in zip(DUE, answers, strict=True) if answer.status != 200]
    assert not late, "it was due and nobody looked"
    for answer in answers:
        assert _data(answer) == [1]


async def _push_and_lease(session: asyncpg.Connection, queue: str) -> None:
    """A message that becomes visible together with the lease on it."""
    async with session.transaction():
        await session.fetchval("SELECT queen.push($1, '1', partition => 'p')", queue)
        (place,) = await ensure(session, queue, "p")
        assert (await pop_one(session, place)).data == [1]


async def _push_all(wire: Wire, session: asyncpg.Connection, queues: list[str]) -> None:
    for queue, (column, _) in zip(queues, DUE, strict=True):
        if column == "lease_time":
            # Somebody else gets it first, and is never heard of again.
            await _push_and_lease(session, queue)
        else:
            assert (await wire.push(queue, 1, partition="p")).status == 201


async def test_message_that_is_not_due_yet_reaches_a_pop_that_comes_to_wait_for_it(
    patient_brokers: Brokers, shared_database: asyncpg.Connection
) -> None:
    url, queues = patient_brokers[0].url, await _due_queues(shared_database)
    async with wires([url] * len(DUE)) as polls, Wire(url) as wire:
        await _push_all(wire, shared_database, queues)
        _send_polls(polls, queues)
        await _assert_served(polls)


async def test_message_that_is_not_due_yet_reaches_a_pop_that_was_waiting_before(
    patient_brokers: Brokers, shared_database: asyncpg.Connection
) -> None:
    """It was waiting for anything at all; now it has to wait for a time that is known."""
    url, queues = patient_brokers[0].url, await _due_queues(shared_database)
    async with wires([url] * len(DUE)) as polls, Wire(url) as wire:
        _send_polls(polls, queues)
        await wire.settle()
        for queue, (_, place) in zip(queues, DUE, strict=True):
            # Answered once everything has been looked at; from now on the first one is parked.
            assert await wire.pop(queue, partition=place) == []
        await _push_all(wire, shared_database, queues)
        await _assert_served(polls)


async def test_wait_without_messages_ends_at_its_deadline_and_not_before(
    patient_brokers: Brokers,
) -> None:
    url, queue = patient_brokers[0].url, unique()
    async with Wire(url) as named, Wire(url) as wild:
        assert (await named.push(queue, 1, partition="other")).status == 201
        started = time.monotonic()
        named.send("GET", pop_path(queue, partition="p", wait=True, timeout=1000))
        wild.send("GET", pop_path(unique(), wait=True, timeout=1000))
        for poll in (named, wild):
            # The bound is there to fail instead of hanging.
            assert (await poll.receive(timeout_s=10)).status == 204
            assert time.monotonic() - started > 0.95
