"""Too much at once: who is refused hears 429 and when to come again, and then all is well again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from tests.acceptance.load import Answer, Wire, pop_path, wires
from tests.acceptance.sql_side import LEASING, held, wait_for_waiters
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.waiting import wait_until_async

StartBroker = Callable[..., BrokerProcess]

#: One push call and one ack call at a time, which wait for what is held instead of stepping aside.
_SLOW = {
    "QUEEN_PUSH_CALLS_MAX": "1",
    "QUEEN_ACK_CALLS_MAX": "1",
    "QUEEN_PUSH_LOCK_TIMEOUT_MS": "60000",
}


@asynccontextmanager
async def _pushes_held(session: asyncpg.Connection) -> AsyncIterator[None]:
    """No push call gets through for the length of the context."""
    async with session.transaction():
        await session.execute("LOCK TABLE queen.partition_lookup IN EXCLUSIVE MODE")
        yield


def _push_body(queue: str, payload: object) -> dict[str, Any]:
    return {"items": [{"queue": queue, "payload": payload}]}


def _assert_refused(answer: Answer, *, depth: int) -> None:
    assert answer.status == 429, answer
    assert 1 <= int(answer.headers["retry-after"]) <= 30
    assert answer.body["depth"] == depth
    assert answer.body["retryAfter"] == int(answer.headers["retry-after"])
    assert "try again" in answer.body["error"]


async def _prepare(wire: Wire, queue: str, *payloads: object) -> None:
    for payload in payloads:
        assert (await wire.push(queue, payload)).status == 201


async def test_pushes_beyond_the_bound_are_refused_and_later_served(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    broker, queue = start_broker(**_SLOW, QUEEN_PUSH_WAITING_MAX="1"), unique()
    async with wires([broker.url] * 2) as waiting, Wire(broker.url) as wire:
        await _prepare(wire, queue, "first")
        async with _pushes_held(database):
            # The first is in a call, the second waits for it.
            waiting[0].send("POST", "/api/v1/push", _push_body(queue, 0))
            await wait_for_waiters(database)
            waiting[1].send("POST", "/api/v1/push", _push_body(queue, 1))
            await wire.settle()
            _assert_refused(await wire.push(queue, "refused"), depth=1)
        assert [(await one.receive()).status for one in waiting] == [201, 201]
        # 202 while the pushes that were held still count as pressure.
        assert (await wire.push(queue, 2)).status in (201, 202)
        messages = await _pop_when_calm(wire, queue)
        assert [message["data"] for message in messages] == ["first", 0, 1, 2]


async def test_acks_beyond_the_bound_are_refused_and_later_served(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    broker, queue = start_broker(**_SLOW, QUEEN_LOAD_ACK_QUEUE_MAX="1"), unique()
    async with wires([broker.url] * 2) as waiting, Wire(broker.url) as wire:
        await _prepare(wire, queue, 0, 1, 2)
        bodies = [_ack_body(message) for message in await wire.pop(queue, batch=3)]
        async with held(database, LEASING):
            waiting[0].send("POST", "/api/v1/ack", bodies[0])
            await wait_for_waiters(database)
            waiting[1].send("POST", "/api/v1/ack", bodies[1])
            await wire.settle()
            _assert_refused(await wire.call("POST", "/api/v1/ack", bodies[2]), depth=1)
            batch = {"acknowledgments": [bodies[2]]}
            _assert_refused(await wire.call("POST", "/api/v1/ack/batch", batch), depth=1)
        answers = [await one.receive() for one in waiting]
        answers.append(await wire.call("POST", "/api/v1/ack", bodies[2]))
        assert [(one.status, one.body[0]["success"]) for one in answers] == [(200, True)] * 3


async def test_pops_beyond_the_bound_are_refused_and_later_served(
    start_broker: StartBroker,
) -> None:
    broker, queue = start_broker(QUEEN_POP_WAITING_MAX="1"), unique()
    async with Wire(broker.url) as parked, Wire(broker.url) as wire:
        parked.send("GET", pop_path(queue, wait=True, timeout=60_000))
        await wire.settle()
        _assert_refused(await wire.call("GET", pop_path(queue)), depth=1)
        await _prepare(wire, queue, 1)
        answer = await parked.receive()
        assert [message["data"] for message in answer.body["messages"]] == [1]
        assert await wire.pop(queue) == []


async def test_under_load_pops_are_refused_acks_and_health_served_and_pushes_kept(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    broker = start_broker(**_SLOW, QUEEN_LOAD_AGE_LIMIT_MS="1")
    queue = unique()
    async with wires([broker.url] * 3) as waiting, Wire(broker.url) as wire:
        await _prepare(wire, queue, "first")
        (message,) = await _pop_when_calm(wire, queue)
        waiting[2].send("GET", pop_path(queue, wait=True, timeout=60_000, consumerGroup="parked"))
        assert (await waiting[2].receive()).status == 200
        waiting[2].send("GET", pop_path(queue, wait=True, timeout=60_000))
        await wire.settle()
        async with _pushes_held(database):
            waiting[0].send("POST", "/api/v1/push", _push_body(queue, 0))
            await wait_for_waiters(database)
            # This one waits for its call, and soon is too old.
            waiting[1].send("POST", "/api/v1/push", _push_body(queue, 1))
            refused = await _wait_for(wire, queue, 429)
            _assert_refused(refused, depth=0)
            assert (await wire.call("GET", "/health")).status == 200
            (result,) = await wire.ack([message])
            assert result["success"]
        assert [(await one.receive()).status for one in waiting[:2]] == [201, 201]
        # Who was parked before the load is not sent away.
        answer = await waiting[2].receive()
        assert answer.status == 200 and answer.body["messages"][0]["data"] == 0
        await wire.ack(answer.body["messages"])
        (message,) = await _pop_when_calm(wire, queue)
        assert message["data"] == 1


async def test_without_load_management_pops_are_served_under_load(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    off = {"QUEEN_ENABLE_LOAD_MANAGEMENT": "false", "QUEEN_LOAD_AGE_LIMIT_MS": "1"}
    broker, queue = start_broker(**_SLOW, **off), unique()
    async with wires([broker.url] * 2) as waiting, Wire(broker.url) as wire:
        # A group's first pop of a partition needs the table that is held below; this is it.
        await _prepare(wire, queue, "before", "first")
        await wire.ack(await wire.pop(queue))
        async with _pushes_held(database):
            waiting[0].send("POST", "/api/v1/push", _push_body(queue, 0))
            await wait_for_waiters(database)
            waiting[1].send("POST", "/api/v1/push", _push_body(queue, 1))
            await wait_until_async(
                lambda: _is_engaged(wire, "pop"), timeout_s=SOON_S, what="the load to be noticed"
            )
            (message,) = await wire.pop(queue)
            assert message["data"] == "first"
        assert [(await one.receive()).status for one in waiting] == [201, 201]


async def test_many_requests_on_few_connections_are_all_served(
    start_broker: StartBroker,
) -> None:
    """Calls that wait for a connection get one: no permit is lost, whatever the mix."""
    broker = start_broker(QUEEN_DB_POOL_SIZE="4", QUEEN_ENABLE_LOAD_MANAGEMENT="false")
    async with wires([broker.url] * 40) as many:
        await asyncio.gather(*(_work(wire, unique()) for wire in many))


async def _work(wire: Wire, queue: str) -> None:
    for turn in range(5):
        assert (await wire.push(queue, turn)).status == 201
        (message,) = await wire.pop(queue)
        assert message["data"] == turn
        (result,) = await wire.ack([message])
        assert result["success"]


def _ack_body(message: dict[str, Any]) -> dict[str, Any]:
    fields = ("transactionId", "partitionId", "leaseId")
    return {**{name: message[name] for name in fields}, "status": "completed"}


async def _wait_for(wire: Wire, queue: str, status: int) -> Answer:
    """Pop what is not there until the answer has this status."""

    async def pop() -> Answer | None:
        answer = await wire.call("GET", pop_path(queue, partition="none"))
        assert answer.status in (204, 429), answer
        return answer if answer.status == status else None

    found = await wait_until_async(pop, timeout_s=SOON_S, what=f"a pop to be answered {status}")
    assert found is not None
    return found


async def _pop_when_calm(wire: Wire, queue: str) -> list[Any]:
    """All messages, once pops are served."""
    await _wait_for(wire, queue, 204)
    return await wire.pop(queue, batch=100)


async def _is_engaged(wire: Wire, kind: str) -> bool:
    text = (await wire.call("GET", "/metrics/prometheus")).body
    return f'queen_load_engaged{{type="{kind}"}} 1\n' in text
