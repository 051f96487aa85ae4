"""A transaction elsewhere holds the cursors of one group: what other groups do goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from queenmq.engine.ack.leases import LeaseService
from queenmq.engine.requests import LeaseRelease
from queenmq.settings import load
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.messages import PostgresMessageStore
from tests.acceptance.load import Answer, Wire, wires
from tests.acceptance.sql_side import wait_for_waiters
from tests.isolation.sessions import ensure, pop_one, push_all
from tests.support.broker import BrokerProcess, unique

StartBroker = Callable[..., BrokerProcess]
Request = tuple[str, str, dict[str, Any]]

#: However long a request waits for a held cursor, it is not given up on in these tests.
_PATIENT = {
    "QUEEN_PUSH_WAIT_MS": "600000",
    "QUEEN_DB_COMMAND_TIMEOUT_MS": "600000",
    # So long that trying the held ones one after the other would take minutes.
    "QUEEN_PUSH_LOCK_TIMEOUT_MS": "1000",
}
_HELD = 150


@asynccontextmanager
async def _held(session: asyncpg.Connection, queue: str, group: str) -> AsyncIterator[None]:
    """The cursors of the group stay locked by a foreign transaction for the length of this."""
    async with session.transaction():
        await session.fetch(
            "SELECT FROM queen.partition_consumers pc JOIN queen.queues q ON q.id = pc.queue_id"
            " WHERE q.name = $1 AND pc.consumer_group = $2 FOR UPDATE OF pc",
            queue,
            group,
        )
        yield


async def _lease_all(all_wires: list[Wire], queue: str, *groups: str) -> list[list[Any]]:
    """One message in each of many partitions, each leased by each group on its own."""
    names = [f"p{number}" for number in range(len(all_wires))]
    items = [{"queue": queue, "partition": name, "payload": name} for name in names]
    assert (await all_wires[0].call("POST", "/api/v1/push", {"items": items})).status == 201
    leased = []
    for group in groups:
        pops = [
            one.pop(queue, partition=name, consumerGroup=group)
            for one, name in zip(all_wires, names, strict=True)
        ]
        leased.append([message for (message,) in await asyncio.gather(*pops)])
    return leased


def _ack(message: Any, queue: str) -> Request:
    fields = ("transactionId", "partitionId", "leaseId", "consumerGroup")
    return "POST", "/api/v1/ack", {field: message[field] for field in fields}


def _transaction(message: Any, queue: str) -> Request:
    operations = [
        {"type": "ack", **_ack(message, queue)[2]},
        {"type": "push", "items": [{"queue": f"{queue}-out", "payload": message["data"]}]},
    ]
    return "POST", "/api/v1/transaction", {"operations": operations}


def _extend(message: Any, queue: str) -> Request:
    return "POST", f"/api/v1/lease/{message['leaseId']}/extend", {"seconds": 600}


@pytest.mark.parametrize("make", [_ack, _transaction, _extend])
async def test_requests_of_another_group_are_answered_while_the_cursors_are_held(
    start_broker: StartBroker, database: asyncpg.Connection, make: Callable[[Any, str], Request]
) -> None:
    broker, queue = start_broker(**_PATIENT), unique()
    async with wires([broker.url] * _HELD) as waiting, Wire(broker.url) as wire:
        held, free = await _lease_all(waiting, queue, "held", "free")
        async with _held(database, queue, "held"):
            for one, message in zip(waiting, held, strict=True):
                one.send(*make(message, queue))
            await wait_for_waiters(database)
            for message in free[:20]:
                _assert_done(await wire.call(*make(message, queue)))
        # Nobody holds them any more: everything that waited is done.
        for answer in await asyncio.gather(*(one.receive() for one in waiting)):
            _assert_done(answer)


def _assert_done(answer: Answer) -> None:
    body = answer.body[0] if isinstance(answer.body, list) else answer.body
    assert (answer.status, body["success"]) == (200, True), answer


async def test_acks_of_a_held_cursor_are_settled_in_the_order_of_their_arrival(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    """Out of order, the failure would come after the cursor has passed its message."""
    broker, queue = start_broker(**_PATIENT), unique()
    async with wires([broker.url] * 3) as waiting, Wire(broker.url) as wire:
        for number in range(4):
            await wire.push(queue, number)
        first, second, third, _ = await wire.pop(queue, batch=4, consumerGroup="held")
        bodies = [_ack(first, queue)[2], _ack(second, queue)[2], _ack(third, queue)[2]]
        bodies[1]["status"] = "failed"
        async with _held(database, queue, "held"):
            for one, body in zip(waiting, bodies, strict=True):
                one.send("POST", "/api/v1/ack", body)
                await wire.settle()
        answers = [await one.receive() for one in waiting]
        # The failure ends the lease, so that the last one is refused.
        assert [answer.body[0]["success"] for answer in answers] == [True, True, False], answers
        (again, *_) = await wire.pop(queue, batch=4, consumerGroup="held")
        assert (again["data"], again["retryCount"]) == (1, 1)


async def test_ack_of_a_cursor_held_for_too_long_is_refused_and_works_later(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    broker, queue = start_broker(QUEEN_PUSH_WAIT_MS="300"), unique()
    async with Wire(broker.url) as wire:
        await wire.push(queue, 1)
        (message,) = await wire.pop(queue, consumerGroup="held")
        for make in (_ack, _transaction, _extend):
            async with _held(database, queue, "held"):
                answer = await wire.call(*make(message, queue))
                assert answer.status == 503 and int(answer.headers["retry-after"]) >= 1
                assert "held by another transaction" in answer.body["error"]
        _assert_done(await wire.call(*_ack(message, queue)))


async def test_ack_whose_cursor_cannot_be_made_yet_delays_no_other(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    """Not a row but an advisory lock is held, which cannot be looked for."""
    broker, queue = start_broker(**_PATIENT), unique()
    async with Wire(broker.url) as waiting, Wire(broker.url) as wire:
        await wire.push(queue, 1)
        (message,) = await wire.pop(queue, consumerGroup="free")
        # An ack without a lease makes the cursor of a group that has none yet.
        body = {**_ack(message, queue)[2], "consumerGroup": "new"}
        del body["leaseId"]
        async with database.transaction():
            await database.fetch(
                "SELECT pg_advisory_xact_lock(hashtextextended("
                "'new', hashtextextended(id::text, 0))) FROM queen.queues WHERE name = $1",
                queue,
            )
            waiting.send("POST", "/api/v1/ack", body)
            await wait_for_waiters(database)
            _assert_done(await wire.call(*_ack(message, queue)))
        _assert_done(await waiting.receive())


async def test_leases_of_held_cursors_are_handed_back_apart_from_others(
    database: asyncpg.Connection, database_url: str
) -> None:
    settings = load({"db_pool_size": 4})
    pool = Database(database_url, settings)
    await pool.open()
    queue = unique()
    names = [f"p{number}" for number in range(12)]
    places = await ensure(database, queue, *names)
    for place in places:
        await push_all(database, place, 1)
    leases = [(place, await _lease_id(database, place)) for place in places]
    service = LeaseService(PostgresMessageStore(pool), lock_timeout_ms=50, wait_ms=600_000)
    try:
        async with database.transaction():
            await database.fetch(
                "SELECT FROM queen.partition_consumers WHERE partition_id = ANY ($1) FOR UPDATE",
                places[:-1],
            )
            held = [asyncio.create_task(_release(service, *one)) for one in leases[:-1]]
            await wait_for_waiters(database)
            await _release(service, *leases[-1])
            assert not any(one.done() for one in held)
        await asyncio.gather(*held)
    finally:
        await service.drain()
        await pool.close()
    left = await database.fetchval(
        "SELECT count(*) FROM queen.partition_consumers WHERE lease_expires_at IS NOT NULL"
    )
    assert left == 0


async def _lease_id(session: asyncpg.Connection, place: UUID) -> UUID:
    lease_id = (await pop_one(session, place)).lease_id
    assert lease_id is not None
    return lease_id


async def _release(service: LeaseService, place: UUID, lease_id: UUID) -> None:
    await service.release([LeaseRelease(place, "__QUEUE_MODE__", lease_id)])
