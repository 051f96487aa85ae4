"""Pops at the same moment: each partition goes to one of them, and none goes without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest

from tests.acceptance.load import Wire, pop_path, wires
from tests.acceptance.sql_side import LEASING, held, wait_for_waiters
from tests.isolation.sessions import Popped, configure, ensure, pop_one
from tests.support.broker import BrokerProcess, unique

StartBroker = Callable[..., BrokerProcess]


async def _push_each(wire: Wire, queue: str, partitions: list[str], payload: object) -> None:
    items = [{"queue": queue, "partition": name, "payload": payload} for name in partitions]
    assert (await wire.call("POST", "/api/v1/push", {"items": items})).status == 201


@pytest.mark.parametrize(("brokers", "rounds"), [(1, 1000), (2, 400)])
async def test_two_wildcard_pops_over_two_partitions_are_both_served_every_time(
    start_broker: StartBroker, brokers: int, rounds: int
) -> None:
    urls = [start_broker().url for _ in range(brokers)]
    queue = unique()
    async with wires([urls[0], urls[-1]]) as (one, other), Wire(urls[0]) as wire:
        for turn in range(rounds):
            await _push_each(wire, queue, ["a", "b"], turn)
            answers = await asyncio.gather(one.pop(queue), other.pop(queue))
            assert all(answers), f"round {turn}: one of two pops went without: {answers}"
            messages = [message for answer in answers for message in answer]
            assert sorted(message["partition"] for message in messages) == ["a", "b"]
            assert [message["data"] for message in messages] == [turn, turn]
            results = await wire.ack(messages)
            assert all(result["success"] for result in results), results


@pytest.mark.parametrize("brokers", [1, 2])
async def test_fifty_pops_at_once_over_fifty_partitions_get_one_each(
    start_broker: StartBroker, brokers: int
) -> None:
    urls = [start_broker().url for _ in range(brokers)]
    queue, names = unique(), [f"p{number:02}" for number in range(50)]
    async with wires(urls * (50 // brokers)) as polls:
        for turn in range(5):
            await _push_each(polls[0], queue, names, turn)
            answers = await asyncio.gather(*(poll.pop(queue) for poll in polls))
            messages = [message for answer in answers for message in answer]
            assert sorted(message["partition"] for message in messages) == names
            await polls[0].ack(messages)


async def test_of_pops_at_once_for_one_partition_by_name_one_is_served(
    start_broker: StartBroker,
) -> None:
    urls = [start_broker().url for _ in range(2)]
    queue = unique()
    async with wires(urls * 5) as polls:
        for turn in range(25):
            await _push_each(polls[0], queue, ["p"], turn)
            answers = await asyncio.gather(*(poll.pop(queue, partition="p") for poll in polls))
            (served,) = [answer for answer in answers if answer]
            assert [message["data"] for message in served] == [turn]
            await polls[0].ack(served)


async def test_pop_by_name_and_pop_of_the_queue_never_share_a_partition(
    broker: BrokerProcess,
) -> None:
    """Both ask at once, and the one partition has one message."""
    queue = unique()
    async with wires([broker.url] * 2) as (named, any_of), Wire(broker.url) as wire:
        for turn in range(50):
            await _push_each(wire, queue, ["p"], turn)
            answers = await asyncio.gather(named.pop(queue, partition="p"), any_of.pop(queue))
            (served,) = [answer for answer in answers if answer]
            assert [message["data"] for message in served] == [turn]
            await wire.ack(served)


async def test_each_of_five_hundred_pops_gets_its_own_partition_or_nothing(
    broker: BrokerProcess, shared_database: asyncpg.Connection
) -> None:
    """A third of the partitions is empty: no answer goes to the wrong caller for it."""
    queue = unique()
    names = [f"p{number}" for number in range(50)]
    full = names[::3] + names[1::3]
    await ensure(shared_database, queue, *names)

    async def pop_for_ten_groups(wire: Wire, name: str) -> None:
        for group in (f"g{number}" for number in range(10)):
            messages = await wire.pop(queue, partition=name, consumerGroup=group)
            found = [(one["partition"], one["consumerGroup"], one["data"]) for one in messages]
            assert found == ([(name, group, 1)] if name in full else [])

    async with wires([broker.url] * 50) as connections:
        await _push_each(connections[0], queue, full, 1)
        async with asyncio.TaskGroup() as tasks:
            for wire, name in zip(connections, names, strict=True):
                tasks.create_task(pop_for_ten_groups(wire, name))


async def test_pop_that_has_to_wait_for_a_row_keeps_no_other_waiting(
    broker: BrokerProcess, shared_database: asyncpg.Connection
) -> None:
    """An open transaction decides where the group starts; only that group has to know."""
    queue = unique()
    async with Wire(broker.url) as stuck, Wire(broker.url) as wire:
        await _push_each(wire, queue, ["a", "b"], 1)
        opened = shared_database.transaction()
        await opened.start()
        await shared_database.execute(
            "SELECT queen.subscribe_groups($1, $2, $3, $4)", [queue], [""], ["g"], [None]
        )
        stuck.send("GET", pop_path(queue, consumerGroup="g", subscriptionMode="new"))
        await wait_for_waiters(shared_database)
        for group in ("other", "third"):
            query = {"consumerGroup": group, "subscriptionFrom": "2001-01-01T00:00:00Z"}
            for _ in range(2):
                (message,) = await wire.pop(queue, **query)
                assert message["data"] == 1
        await opened.rollback()
        assert (await stuck.receive()).status == 204


@asynccontextmanager
async def _leased_meanwhile(
    session: asyncpg.Connection, queue: str, partition: str
) -> AsyncIterator[list[Popped]]:
    """Pops of the context are stopped between look-up and lease, while this session leases."""
    taken: list[Popped] = []
    (place,) = await ensure(session, queue, partition)
    async with held(session, LEASING):
        yield taken
        await wait_for_waiters(session)
        taken.append(await pop_one(session, place))


async def _end_leases(session: asyncpg.Connection, queue: str) -> None:
    await session.execute(
        "UPDATE queen.partition_consumers pc SET lease_expires_at = NULL FROM queen.queues q"
        " WHERE q.id = pc.queue_id AND q.name = $1",
        queue,
    )


async def test_partition_leased_between_look_up_and_lease_is_left_for_another(
    broker: BrokerProcess, shared_database: asyncpg.Connection
) -> None:
    queue = unique()
    async with Wire(broker.url) as poll, Wire(broker.url) as wire:
        await _push_each(wire, queue, ["a", "b"], 1)
        for theirs, ours in ("ab", "ba"):
            # Whichever of the two the broker goes for first.
            async with _leased_meanwhile(shared_database, queue, theirs) as taken:
                poll.send("GET", pop_path(queue))
            answer = await poll.receive()
            assert answer.status == 200 and answer.body["partition"] == ours, answer
            assert taken[0].data == [1] and answer.body["leaseId"] != str(taken[0].lease_id)
            await _end_leases(shared_database, queue)


@pytest.mark.parametrize("partition", ["a", None], ids=["by name", "of the queue"])
async def test_pop_that_lost_its_only_partition_to_another_session_is_answered_empty(
    broker: BrokerProcess, shared_database: asyncpg.Connection, partition: str | None
) -> None:
    queue = unique()
    async with Wire(broker.url) as poll, Wire(broker.url) as wire:
        await _push_each(wire, queue, ["a"], 1)
        async with _leased_meanwhile(shared_database, queue, "a") as taken:
            poll.send("GET", pop_path(queue, partition=partition))
        answer = await poll.receive()
        assert answer.status == 204, answer
        assert taken[0].data == [1]


@pytest.mark.parametrize("partition", ["a", None], ids=["by name", "of the queue"])
async def test_waiting_pop_that_lost_its_partition_is_served_when_that_lease_ends(
    patient_brokers: list[BrokerProcess], shared_database: asyncpg.Connection, partition: str | None
) -> None:
    broker, queue = patient_brokers[0], unique()
    await configure(shared_database, queue, lease_time=1)
    async with Wire(broker.url) as poll, Wire(broker.url) as wire:
        await _push_each(wire, queue, ["a"], 1)
        async with _leased_meanwhile(shared_database, queue, "a") as taken:
            poll.send("GET", pop_path(queue, partition=partition, wait=True, timeout=20_000))
        answer = await poll.receive()
        assert answer.status == 200, "the lease ended and the pop was not told"
        (message,) = answer.body["messages"]
        assert message["data"] == 1 and message["retryCount"] == 1
        assert answer.body["leaseId"] != str(taken[0].lease_id)
        (result,) = await wire.ack([{**message, "leaseId": str(taken[0].lease_id)}])
        assert not result["success"]


async def test_waiters_of_two_queues_with_partitions_of_one_name_are_both_served(
    patient_brokers: list[BrokerProcess],
) -> None:
    broker = patient_brokers[0]
    queues = [unique(), unique()]
    async with wires([broker.url] * 2) as polls, Wire(broker.url) as wire:
        for turn, place in enumerate((None, "Default", None)):
            for poll, queue in zip(polls, queues, strict=True):
                poll.send("GET", pop_path(queue, partition=place, wait=True, timeout=20_000))
            await wire.settle()
            items = [{"queue": queue, "payload": [queue, turn]} for queue in queues]
            if turn:
                assert (await wire.call("POST", "/api/v1/push", {"items": items})).status == 201
            else:
                for item in items:
                    assert (await wire.push(item["queue"], item["payload"])).status == 201
            answers = [await poll.receive() for poll in polls]
            assert [answer.status for answer in answers] == [200, 200]
            for answer, queue in zip(answers, queues, strict=True):
                assert answer.body["queue"] == queue and answer.body["partition"] == "Default"
                assert [one["data"] for one in answer.body["messages"]] == [[queue, turn]]
                await wire.ack(answer.body["messages"])
