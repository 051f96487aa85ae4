"""The database ends a connection in the middle of a pop: the pop is answered, and no message stays
leased to nobody.
"""

from __future__ import annotations

import asyncpg
import pytest

from tests.acceptance.load import Answer, Wire, pop_path, wires
from tests.acceptance.sql_side import LEASING, STATES, Hold, held, wait_for_waiters
from tests.support.broker import BrokerProcess, unique

#: Far below the lease time of 300 s, far above what an answer takes.
_WAIT_MS = 20_000
HOLDS = pytest.mark.parametrize("hold", STATES.values(), ids=STATES)
PLACES = pytest.mark.parametrize("partition", ["p", None], ids=["by name", "of the queue"])


async def _end_waiters(session: asyncpg.Connection) -> None:
    """End the connections that wait for this session, and come back when they are gone."""
    for pid in await wait_for_waiters(session):
        assert await session.fetchval("SELECT pg_terminate_backend($1, 5000)", pid)


async def _leases(session: asyncpg.Connection, queue: str) -> int:
    count: int = await session.fetchval(
        "SELECT count(*) FROM queen.partition_consumers pc JOIN queen.queues q"
        " ON q.id = pc.queue_id WHERE q.name = $1 AND pc.lease_expires_at > clock_timestamp()",
        queue,
    )
    return count


async def _cut_off(session: asyncpg.Connection, poll: Wire, path: str, hold: Hold) -> Answer:
    """The answer to a pop whose database connection ends at this point."""
    async with held(session, hold):
        poll.send("GET", path)
        await _end_waiters(session)
    return await poll.receive()


@HOLDS
@PLACES
async def test_pop_that_may_not_wait_is_answered_and_its_message_is_free(
    broker: BrokerProcess,
    shared_database: asyncpg.Connection,
    partition: str | None,
    hold: Hold,
) -> None:
    queue = unique()
    async with Wire(broker.url) as poll:
        assert (await poll.push(queue, 1, partition="p")).status == 201
        answer = await _cut_off(
            shared_database, poll, pop_path(queue, partition=partition), hold
        )  # fmt: skip
        assert answer.status in (200, 503), answer
        if answer.status == 503:
            assert int(answer.headers["retry-after"]) >= 1
            assert await _leases(shared_database, queue) == 0
            messages = await poll.pop(queue, partition=partition)
        else:
            messages = answer.body["messages"]
        assert [message["data"] for message in messages] == [1]
        assert messages[0]["retryCount"] == 0
        assert (await poll.ack(messages))[0]["success"]
        assert await _leases(shared_database, queue) == 0
        assert (await poll.call("GET", "/health/ready")).status == 200


@HOLDS
@PLACES
async def test_waiting_pop_goes_on_and_is_served(
    broker: BrokerProcess,
    shared_database: asyncpg.Connection,
    partition: str | None,
    hold: Hold,
) -> None:
    queue = unique()
    async with Wire(broker.url) as poll:
        assert (await poll.push(queue, 1, partition="p")).status == 201
        path = pop_path(queue, partition=partition, wait=True, timeout=_WAIT_MS)
        answer = await _cut_off(shared_database, poll, path, hold)
        assert answer.status == 200, answer
        (message,) = answer.body["messages"]
        assert message["data"] == 1 and message["retryCount"] == 0
        assert (await poll.ack([message]))[0]["success"]
        assert await _leases(shared_database, queue) == 0


async def test_all_pops_of_a_call_that_was_cut_off_are_answered_and_nothing_is_lost(
    broker: BrokerProcess, shared_database: asyncpg.Connection
) -> None:
    """Twenty pops for ten messages, half of them waiting, half of them by name."""
    queue, names = unique(), [f"p{number}" for number in range(10)]
    async with wires([broker.url] * 20) as polls, Wire(broker.url) as wire:
        items = [{"queue": queue, "partition": name, "payload": name} for name in names]
        assert (await wire.call("POST", "/api/v1/push", {"items": items})).status == 201
        async with held(shared_database, LEASING):
            for number, poll in enumerate(polls):
                place = names[number // 2] if number % 4 < 2 else None
                query = {"wait": number % 2 == 1, "timeout": 1_000}
                poll.send("GET", pop_path(queue, partition=place, **query))
            await wire.settle()
            await _end_waiters(shared_database)
        answers = [await poll.receive() for poll in polls]
        assert {answer.status for answer in answers} <= {200, 204, 503}
        got = [one for answer in answers if answer.status == 200 for one in answer.body["messages"]]
        if got:
            assert all(result["success"] for result in await wire.ack(got))
        query = {"autoAck": True, "wait": True, "timeout": _WAIT_MS}
        while len(got) < len(names):
            rest = await wire.pop(queue, **query)
            assert rest, "a message stayed leased to nobody"
            got += rest
        assert sorted(message["data"] for message in got) == names
        assert await _leases(shared_database, queue) == 0
