"""A transaction elsewhere holds rows that the broker needs: only its partition waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest

from tests.acceptance.load import Answer, Wire, pop_path, wires
from tests.acceptance.sql_side import wait_for_waiters
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.waiting import wait_until_async

StartBroker = Callable[..., BrokerProcess]

_HOLD = """
SELECT FROM queen.partition_lookup l JOIN queen.partitions p ON p.id = l.partition_id
JOIN queen.queues q ON q.id = p.queue_id
WHERE q.name = $1 AND p.name = $2 FOR UPDATE OF l
"""


@asynccontextmanager
async def _held(session: asyncpg.Connection, queue: str, partition: str) -> AsyncIterator[None]:
    """The partition's row stays locked by a foreign transaction for the length of the context."""
    async with session.transaction():
        await session.fetch(_HOLD, queue, partition)
        yield


async def _prepare(wire: Wire, queue: str, *partitions: str) -> None:
    for partition in partitions:
        answer = await wire.push(queue, "first", partition=partition)
        assert answer.status == 201
        (message,) = await wire.pop(queue, partition=partition)
        await wire.ack([message])


async def _stored(session: asyncpg.Connection, queue: str, partition: str) -> list[str]:
    rows = await session.fetch(
        "SELECT m.payload::text FROM queen.messages m JOIN queen.partitions p"
        " ON p.id = m.partition_id JOIN queen.queues q ON q.id = p.queue_id"
        " WHERE q.name = $1 AND p.name = $2 ORDER BY m.seq",
        queue,
        partition,
    )
    return [row["payload"] for row in rows]


def _push_body(queue: str, partition: str, payload: object, **item: object) -> dict[str, object]:
    one = {"queue": queue, "partition": partition, "payload": payload, **item}
    return {"items": [one]}


async def test_pushes_to_a_held_partition_wait_in_order_and_all_others_go_on(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    broker, queue = start_broker(QUEEN_PUSH_WAIT_MS="60000"), unique()
    waiting_count = 12
    async with wires([broker.url] * waiting_count) as waiting, Wire(broker.url) as wire:
        await _prepare(wire, queue, "held", *(f"free-{number}" for number in range(5)))
        for one in waiting:
            await one.settle()
        async with _held(database, queue, "held"):
            for number, one in enumerate(waiting):
                one.send("POST", "/api/v1/push", _push_body(queue, "held", number))
                # The broker has read this request before the next one is sent.
                await wire.settle()
            for turn in range(20):
                partition = f"free-{turn % 5}"
                assert (await wire.push(queue, turn, partition=partition)).status == 201
                (message,) = await wire.pop(queue, partition=partition)
                assert message["data"] == turn
                await wire.ack([message])
            # Popping the held partition does not need the row that is held.
            assert await wire.pop(queue, partition="held") == []
            assert await _stored(database, queue, "held") == ['"first"']
        answers = await asyncio.gather(*(one.receive() for one in waiting))
        assert [answer.status for answer in answers] == [201] * waiting_count
        messages = await wire.pop(queue, partition="held", batch=100)
        assert [message["data"] for message in messages] == list(range(waiting_count))


async def test_request_with_a_held_and_a_free_partition_waits_as_a_whole(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    broker, queue = start_broker(QUEEN_PUSH_WAIT_MS="60000"), unique()
    async with Wire(broker.url) as mixed, Wire(broker.url) as wire:
        await _prepare(wire, queue, "held", "free")
        await mixed.settle()
        async with _held(database, queue, "held"):
            items = [{"queue": queue, "partition": name, "payload": 1} for name in ("free", "held")]
            mixed.send("POST", "/api/v1/push", {"items": items})
            await wire.settle()
            assert (await wire.push(queue, 0, partition="free")).status == 201
            assert await _stored(database, queue, "free") == ['"first"', "0"]
        assert (await mixed.receive()).status == 201
        assert await _stored(database, queue, "free") == ['"first"', "0", "1"]
        assert await _stored(database, queue, "held") == ['"first"', "1"]


async def test_push_that_waited_too_long_is_refused_with_nothing_stored_or_doubled(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    broker, queue = start_broker(QUEEN_PUSH_WAIT_MS="300"), unique()
    async with wires([broker.url] * 4) as waiting, Wire(broker.url) as wire:
        await _prepare(wire, queue, "held")
        bodies = [
            _push_body(queue, "held", number, transactionId=f"t{number}") for number in range(4)
        ]
        async with _held(database, queue, "held"):
            answers = await asyncio.gather(
                *(
                    one.call("POST", "/api/v1/push", body)
                    for one, body in zip(waiting, bodies, strict=True)
                )
            )
            assert [answer.status for answer in answers] == [503] * 4
            for answer in answers:
                assert int(answer.headers["retry-after"]) >= 1
                assert "held" in answer.body["error"] and queue in answer.body["error"]
        assert await _stored(database, queue, "held") == ['"first"']
        for body in bodies:
            answer = await wire.call("POST", "/api/v1/push", body)
            assert answer.status == 201 and answer.body[0]["status"] == "queued"
        assert await _stored(database, queue, "held") == ['"first"', "0", "1", "2", "3"]


async def test_pushes_to_a_partition_that_was_held_flow_again(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    """A lane that has closed keeps nothing back, and a second hold works like the first."""
    broker, queue = start_broker(QUEEN_PUSH_WAIT_MS="60000"), unique()
    async with Wire(broker.url) as waiting, Wire(broker.url) as wire:
        await _prepare(wire, queue, "held")
        await waiting.settle()
        for turn in range(3):
            async with _held(database, queue, "held"):
                waiting.send("POST", "/api/v1/push", _push_body(queue, "held", [turn, 0]))
                await wire.settle()
            assert (await waiting.receive()).status == 201
            assert (await wire.push(queue, [turn, 1], partition="held")).status == 201
        messages = await wire.pop(queue, partition="held", batch=100)
        assert [message["data"] for message in messages] == [
            [turn, place] for turn in range(3) for place in range(2)
        ]


async def test_held_cursor_delays_only_the_pops_of_its_partition(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    broker, queue = start_broker(), unique()
    async with Wire(broker.url) as wire:
        await _prepare(wire, queue, "held", "free")
        for partition in ("held", "free"):
            assert (await wire.push(queue, partition, partition=partition)).status == 201
        async with database.transaction():
            await database.fetch(
                "SELECT FROM queen.partition_consumers pc JOIN queen.partitions p"
                " ON p.id = pc.partition_id WHERE p.name = 'held' FOR UPDATE OF pc"
            )
            (message,) = await wire.pop(queue, batch=10, wait=True, timeout=20_000)
            assert message["data"] == "free"
            assert await wire.pop(queue, partition="held") == []
        (message,) = await wire.pop(queue, partition="held", wait=True, timeout=20_000)
        assert message["data"] == "held"


async def test_push_to_a_queue_that_is_being_deleted_is_answered(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    """The delete commits while the push looks its new partition up: the queue is made again."""
    broker, queue = start_broker(), unique()
    async with Wire(broker.url) as waiting, Wire(broker.url) as wire:
        await _prepare(wire, queue, "old")
        await waiting.settle()
        async with database.transaction():
            await database.fetchval("SELECT queen.delete_queue($1)", queue)
            waiting.send("POST", "/api/v1/push", _push_body(queue, "new", 1))
            await wait_for_waiters(database)
        answer = await _receive_or_none(waiting)
        assert answer is not None and answer.status == 201, "the push was never answered"
        (message,) = await wire.pop(queue, partition="new")
        assert message["data"] == 1


@pytest.mark.parametrize("partition", ["p", None], ids=["lease", "look-up"])
async def test_poll_that_is_in_a_call_when_the_broker_stops_is_answered(
    start_broker: StartBroker, database: asyncpg.Connection, partition: str | None
) -> None:
    """The stop comes while the poll's database call waits, and the call then brings nothing."""
    broker, queue = start_broker(), unique()
    async with Wire(broker.url) as wire, Wire(broker.url) as poll:
        await _prepare(wire, queue, "p")
        opened = database.transaction()
        await opened.start()
        await database.execute("LOCK TABLE queen.partition_consumers IN ACCESS EXCLUSIVE MODE")
        poll.send("GET", pop_path(queue, partition=partition, wait=True, timeout=60_000))
        await wait_for_waiters(database)
        broker.begin_stop()
        await wait_until_async(
            lambda: _is_refused(broker.url), timeout_s=SOON_S, what="the broker to stop listening"
        )
        await opened.rollback()
        answer = await _receive_or_none(poll)
        assert answer is not None and answer.status == 204, "the poll was cut off"
    assert await asyncio.to_thread(broker.stop) == 0


async def _receive_or_none(wire: Wire) -> Answer | None:
    try:
        return await wire.receive(timeout_s=SOON_S / 2)
    except (OSError, TimeoutError):
        return None


async def _is_refused(url: str) -> bool:
    try:
        async with Wire(url):
            return False
    except OSError:
        return True


@pytest.mark.parametrize("is_transaction", [False, True], ids=["push", "transaction"])
async def test_what_waits_for_a_deletion_is_stored_once_in_the_queue_made_anew(
    start_broker: StartBroker, database: asyncpg.Connection, is_transaction: bool
) -> None:
    queue, url = unique(), start_broker().url
    item = {"queue": queue, "partition": "p", "payload": "after"}
    body = {"operations": [{"type": "push", "items": [item]}]} if is_transaction else {}
    async with Wire(url) as wire, Wire(url) as waiting:
        assert (await wire.push(queue, "before", partition="p")).status == 201
        async with database.transaction():
            await database.execute("SELECT queen.delete_queue($1)", queue)
            path = "/api/v1/transaction" if is_transaction else "/api/v1/push"
            waiting.send("POST", path, body or {"items": [item]})
            await wait_for_waiters(database)
        answer = await waiting.receive()
        assert answer.status in (200, 201)
        assert await _stored(database, queue, "p") == ['"after"']
