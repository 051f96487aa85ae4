"""Several broker processes on one database: a message goes to one waiter, wherever it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

from tests.acceptance.load import Answer, Wire, pop_path, wires
from tests.acceptance.sql_side import PATIENT
from tests.isolation.sessions import configure
from tests.support.broker import BrokerProcess, unique

StartBroker = Callable[..., BrokerProcess]


def _data(answers: list[Answer]) -> list[object]:
    return [
        message["data"]
        for answer in answers
        if answer.status == 200
        for message in answer.body["messages"]
    ]


async def _settle(brokers: list[BrokerProcess]) -> None:
    """Come back when each broker has read everything that was sent to it before this call."""
    async with wires([broker.url for broker in brokers]) as connections:
        for wire in connections:
            await wire.settle()


async def _served(session: asyncpg.Connection) -> int:
    """How often anything was leased."""
    count: int = await session.fetchval("SELECT sum(total_batches) FROM queen.partition_consumers")
    return count


async def test_one_waiter_among_four_workers_gets_one_message_once(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    broker, queue = start_broker(QUEEN_WORKERS="4"), unique()
    async with Wire(broker.url) as poll, wires([broker.url] * 12) as others:
        for turn in range(5):
            poll.send("GET", pop_path(queue, wait=True, timeout=20_000))
            await others[0].settle()
            assert (await others[turn].push(queue, turn)).status == 201
            answer = await poll.receive()
            assert _data([answer]) == [turn]
            # Nobody else holds it or can have it, whichever worker they ask.
            assert await asyncio.gather(*(other.pop(queue) for other in others)) == [[]] * 12
            assert await _served(database) == turn + 1
            (result,) = await others[-1].ack(answer.body["messages"])
            assert result["success"], result


async def test_of_one_waiter_at_each_of_four_brokers_one_gets_the_message(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    brokers = [start_broker() for _ in range(4)]
    queue = unique()
    async with wires([broker.url for broker in brokers]) as polls, Wire(brokers[0].url) as wire:
        for poll in polls:
            poll.send("GET", pop_path(queue, wait=True, timeout=2_000))
        await _settle(brokers)
        assert (await wire.push(queue, "one")).status == 201
        answers = [await poll.receive() for poll in polls]
        assert sorted(answer.status for answer in answers) == [200, 204, 204, 204]
        assert _data(answers) == ["one"]
        assert await _served(database) == 1


async def test_waiters_at_four_brokers_get_four_messages_of_four_partitions(
    start_broker: StartBroker,
) -> None:
    """Only wake-ups explain it: no broker looks by itself."""
    brokers = [start_broker(**PATIENT) for _ in range(4)]
    queue = unique()
    async with wires([broker.url for broker in brokers]) as polls, Wire(brokers[0].url) as wire:
        for poll in polls:
            poll.send("GET", pop_path(queue, wait=True, timeout=20_000))
        await _settle(brokers)
        for name in "abcd":
            assert (await wire.push(queue, name, partition=name)).status == 201
        answers = [await poll.receive() for poll in polls]
        assert sorted(map(str, _data(answers))) == list("abcd")


async def test_pop_at_any_broker_sees_what_was_answered_at_another(
    start_broker: StartBroker,
) -> None:
    urls = [start_broker(**PATIENT).url for _ in range(2)]
    queue = unique()
    async with wires(urls) as (left, right):
        for turn in range(200):
            pusher, popper = (left, right) if turn % 2 else (right, left)
            # By name three known partitions, else a new one that nobody can remember.
            is_named = turn % 4 < 2
            place = f"p{turn % 3}" if is_named else f"new-{turn}"
            assert (await pusher.push(queue, turn, partition=place)).status == 201
            named = place if is_named else None
            messages = await popper.pop(queue, partition=named, autoAck=True)
            assert [message["data"] for message in messages] == [turn]


@pytest.mark.parametrize("partition", ["p", None], ids=["by name", "of the queue"])
async def test_lease_of_a_killed_broker_ends_and_the_waiter_of_another_is_served(
    start_broker: StartBroker, database: asyncpg.Connection, partition: str | None
) -> None:
    doomed, survivor = start_broker(), start_broker(**PATIENT)
    queue = unique()
    await configure(database, queue, lease_time=1)
    async with Wire(doomed.url) as wire, Wire(survivor.url) as poll:
        assert (await wire.push(queue, 1, partition="p")).status == 201
        (first,) = await wire.pop(queue)
        await asyncio.to_thread(doomed.kill)
        (second,) = await poll.pop(queue, partition=partition, wait=True, timeout=20_000)
        assert second["id"] == first["id"] and second["leaseId"] != first["leaseId"]
        assert second["retryCount"] == 1
        assert not (await poll.ack([first]))[0]["success"]
        assert (await poll.ack([second]))[0]["success"]


async def test_waiter_parked_before_a_killed_broker_leased_is_served_when_the_lease_ends(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    """It waits for an empty queue, then for somebody else's lease; nobody pushes meanwhile."""
    doomed, survivor = start_broker(), start_broker()
    queue = unique()
    await configure(database, queue, lease_time=1)
    async with Wire(doomed.url) as wire, Wire(survivor.url) as poll, Wire(survivor.url) as other:
        assert (await wire.push(queue, 1)).status == 201
        (first,) = await wire.pop(queue)
        poll.send("GET", pop_path(queue, wait=True, timeout=20_000))
        await other.settle()
        await asyncio.to_thread(doomed.kill)
        answer = await poll.receive()
        assert answer.status == 200
        assert [message["id"] for message in answer.body["messages"]] == [first["id"]]
