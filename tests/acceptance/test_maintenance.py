"""Maintenance mode: pushes are kept on disk, pops are paused, for all brokers of a database."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from queen import Queen

from tests.acceptance.load import Answer, Wire, pop_path, wires
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.producers import Producers, pop_all
from tests.support.waiting import wait_until_async

PUSHES = "/api/v1/system/maintenance"
POPS = "/api/v1/system/maintenance/pop"

StartBroker = Callable[..., BrokerProcess]


@pytest.fixture
def start(start_broker: StartBroker, tmp_path: Path) -> StartBroker:
    """Starts brokers on the test's own database, each with a disk of its own or a named one."""

    def start_one(disk: str = "disk", **environ: str) -> BrokerProcess:
        return start_broker(QUEEN_SPOOL_DIR=str(tmp_path / disk), **environ)

    return start_one


@pytest.fixture
def broker(start: StartBroker) -> Iterator[BrokerProcess]:
    yield start()


async def show(wire: Wire, path: str = PUSHES) -> dict[str, Any]:
    answer = await wire.call("GET", path)
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.body
    return found


async def switch(wire: Wire, *, on: bool, path: str = PUSHES) -> dict[str, Any]:
    answer = await wire.call("POST", path, {"enabled": on})
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.body
    return found


async def wait_until_shown(wire: Wire, **wanted: object) -> None:
    async def is_shown() -> bool:
        found = await show(wire)
        return all(found[name] == value for name, value in wanted.items())

    await wait_until_async(is_shown, timeout_s=SOON_S, what=f"{wanted}")


async def push_kept(wire: Wire, queue: str, payload: object, **more: Any) -> Answer:
    answer = await wire.push(queue, payload, **more)
    assert answer.status == 201, answer
    assert answer.body[0]["status"] == "buffered", answer
    return answer


async def test_what_is_shown_and_answered(broker: BrokerProcess) -> None:
    queue = unique()
    async with Wire(broker.url) as wire:
        found = await show(wire)
        assert found == {
            "maintenanceMode": False,
            "popMaintenanceMode": False,
            "bufferedMessages": 0,
            "bufferHealthy": True,
            "bufferStats": {
                "pendingCount": 0,
                "failedCount": 0,
                "dbHealthy": True,
                "failedFiles": {
                    "count": 0,
                    "totalBytes": 0,
                    "totalMB": 0,
                    "failoverCount": 0,
                    "qos0Count": 0,
                },
            },
        }
        found = await switch(wire, on=True)
        assert found.pop("message")
        assert found == {"maintenanceMode": True, "bufferedMessages": 0, "bufferHealthy": True}
        item = (await push_kept(wire, queue, 1, transaction_id="mine")).body[0]
        assert (item["queue"], item["partition"]) == (queue, "Default")
        assert (item["transactionId"], item["reason"]) == ("mine", "maintenance")
        assert (await show(wire))["bufferedMessages"] == 1
        assert (await switch(wire, on=False))["maintenanceMode"] is False
        found = await switch(wire, on=True, path=POPS)
        assert found.pop("message")
        assert found == {"popMaintenanceMode": True}
        assert (await show(wire, POPS))["popMaintenanceMode"] is True
        assert (await show(wire))["popMaintenanceMode"] is True


@pytest.mark.parametrize("path", [PUSHES, POPS])
async def test_bad_bodies_are_refused_and_switch_nothing(broker: BrokerProcess, path: str) -> None:
    async with Wire(broker.url) as wire:
        for body in ({}, {"enabled": "yes"}, {"enabled": 1}, {"enabled": None}, [], "on", None):
            answer = await wire.call("POST", path, body)
            assert answer.status == 400, (body, answer)
            assert answer.body["error"]
        found = await show(wire)
        assert (found["maintenanceMode"], found["popMaintenanceMode"]) == (False, False)


async def test_a_poll_that_is_parked_already_gets_nothing_until_pops_are_served_again(
    broker: BrokerProcess,
) -> None:
    queue = unique()
    async with Wire(broker.url) as parked, Wire(broker.url) as wire:
        poll = asyncio.create_task(parked.pop(queue, wait=True, timeout=60_000))
        await wait_until_async(
            lambda: _parked(wire), timeout_s=SOON_S, what="the poll to be parked"
        )
        await switch(wire, on=True, path=POPS)
        await wire.push(queue, "meanwhile")
        # Answered after a whole turn of the broker in which the poll could have been served.
        assert await wire.pop(queue) == []
        assert not poll.done()
        await switch(wire, on=False, path=POPS)
        assert [message["data"] for message in await poll] == ["meanwhile"]


async def _parked(wire: Wire) -> bool:
    answer = await wire.call("GET", "/metrics/prometheus")
    return "queen_pop_waiting 1\n" in str(answer.body)


async def test_pops_go_on_with_what_is_stored(broker: BrokerProcess) -> None:
    queue = unique()
    async with Wire(broker.url) as wire:
        await wire.push(queue, "before")
        await switch(wire, on=True)
        await push_kept(wire, queue, "during")
        messages = await wire.pop(queue, batch=10)
        assert [message["data"] for message in messages] == ["before"]
        (result,) = await wire.ack(messages)
        assert result["success"]
        assert await wire.pop(queue) == []
        await switch(wire, on=False)
        messages = await wire.pop(queue, wait=True, timeout=30_000)
        assert [message["data"] for message in messages] == ["during"]


async def test_consumer_gets_everything_that_was_produced_over_a_cycle(
    broker: BrokerProcess,
) -> None:
    queue = unique()
    received: list[Any] = []

    async def consume() -> None:
        async with Wire(broker.url) as wire:
            while True:
                messages = await wire.pop(queue, wait=True, timeout=1000, batch=10, autoAck=True)
                received.extend(message["data"] for message in messages)

    consumer = asyncio.create_task(consume())
    try:
        async with Producers([broker.url], queue, 1) as producers, Wire(broker.url) as wire:
            await producers.more(10)
            await switch(wire, on=True)
            await producers.saw("buffered")
            await producers.more(30)
            await switch(wire, on=False)
            await producers.saw("queued")
            await producers.more(10)
            await producers.stop()
            await wait_until_shown(wire, bufferedMessages=0)
        (last,) = producers.answered
        await wait_until_async(
            lambda: len(received) >= last, timeout_s=SOON_S, what=f"{last} messages"
        )
    finally:
        consumer.cancel()
        await asyncio.gather(consumer, return_exceptions=True)
    assert received == list(range(1, last + 1))


async def test_switch_and_kept_pushes_outlive_the_broker(start: StartBroker) -> None:
    queue, first = unique(), start()
    async with Wire(first.url) as wire:
        await switch(wire, on=True)
        await switch(wire, on=True, path=POPS)
        for number in range(3):
            await push_kept(wire, queue, number)
    assert first.stop() == 0
    again = await asyncio.to_thread(start)
    async with Wire(again.url) as wire:
        found = await show(wire)
        assert (found["maintenanceMode"], found["popMaintenanceMode"]) == (True, True)
        assert found["bufferedMessages"] == 3
        await push_kept(wire, queue, 3)
        await switch(wire, on=False)
        await wait_until_shown(wire, bufferedMessages=0)
        assert (await wire.call("GET", pop_path(queue))).status == 204
        await switch(wire, on=False, path=POPS)
    assert await pop_all(again.url, queue, 4) == {"Default": [0, 1, 2, 3]}


async def test_two_brokers_share_the_switches(start: StartBroker) -> None:
    queue, first, second = unique(), start("one"), start("two")
    async with Wire(first.url) as one, Wire(second.url) as two:
        await switch(one, on=True)
        await switch(one, on=True, path=POPS)
        await wait_until_shown(two, maintenanceMode=True, popMaintenanceMode=True)
        await push_kept(one, queue, 1, partition="a")
        await push_kept(two, queue, 2, partition="b")
        await switch(two, on=False)
        await switch(two, on=False, path=POPS)
        await wait_until_shown(
            one, maintenanceMode=False, popMaintenanceMode=False, bufferedMessages=0
        )
        await wait_until_shown(two, bufferedMessages=0)
    assert await pop_all(first.url, queue, 2) == {"a": [1], "b": [2]}


async def test_paused_pops_are_held_or_sent_away(broker: BrokerProcess) -> None:
    queue = unique()
    async with Wire(broker.url) as wire, Wire(broker.url) as held:
        await wire.push(queue, 1)
        await switch(wire, on=True, path=POPS)
        for path in (pop_path(queue), pop_path(queue, wait=True, timeout=10)):
            answer = await wire.call("GET", path)
            assert (answer.status, answer.headers["queen-reason"]) == (204, "paused")
        held.send("GET", pop_path(queue, wait=True, timeout=60_000))
        await wire.settle()
        assert (await wire.push(queue, 2)).status == 201, "pushes are served"
        await switch(wire, on=False, path=POPS)
        answer = await held.receive()
        assert [message["data"] for message in answer.body["messages"]] == [1]
        assert await wire.pop(queue) == [], "it is leased"


async def test_paused_pop_whose_caller_left_leases_nothing(broker: BrokerProcess) -> None:
    queue = unique()
    async with Wire(broker.url) as wire, Wire(broker.url) as leaving:
        await wire.push(queue, 1)
        await switch(wire, on=True, path=POPS)
        leaving.send("GET", pop_path(queue, wait=True, timeout=60_000))
        await wire.settle()
        await leaving.close()
        await wire.settle()
        await switch(wire, on=False, path=POPS)
        messages = await wire.pop(queue, wait=True, timeout=30_000)
        assert [message["data"] for message in messages] == [1]


async def test_broker_stops_although_pops_are_held(broker: BrokerProcess) -> None:
    async with Wire(broker.url) as wire, Wire(broker.url) as held:
        await switch(wire, on=True, path=POPS)
        held.send("GET", pop_path(unique(), wait=True, timeout=60_000))
        await wire.settle()
        stopping = asyncio.create_task(asyncio.to_thread(broker.stop))
        assert (await held.receive()).status == 204
        assert await stopping == 0


async def test_held_partition_goes_to_the_operation_queue_and_holds_up_no_other(
    start: StartBroker, database: asyncpg.Connection
) -> None:
    broker, queue = start(QUEEN_PUSH_WAIT_MS="300"), unique()
    async with Wire(broker.url) as wire:
        await wire.push(queue, 0, partition="held")
        await wire.push(queue, 0, partition="free")
        await switch(wire, on=True)
        async with database.transaction():
            await database.execute(
                "SELECT FROM queen.partition_lookup l JOIN queen.partitions p"
                " ON p.id = l.partition_id WHERE p.name = 'held' FOR NO KEY UPDATE OF l"
            )
            for number in range(1, 5):
                # Every other one touches both.
                places = ("held", "free") if number % 2 else ("free",)
                items = [
                    {"queue": queue, "partition": place, "payload": number} for place in places
                ]
                assert (await wire.call("POST", "/api/v1/push", {"items": items})).status == 201
            await push_kept(wire, queue, 6, partition="held")
            await switch(wire, on=False)
            await wait_until_shown(wire, bufferedMessages=0)
            found = await wire.pop(queue, partition="free", batch=10, autoAck=True)
            assert [message["data"] for message in found] == [0, 1, 2, 3, 4]
        assert await pop_all(broker.url, queue, 4) == {"held": [0, 1, 3, 6]}


async def test_official_client_goes_on_through_maintenance(broker: BrokerProcess) -> None:
    # It takes over the process's signals, and at its close resets them to the system's defaults.
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    queue = unique()
    try:
        async with Queen(broker.url) as client, Wire(broker.url) as wire:
            await client.queue(queue).push({"data": 1})
            await switch(wire, on=True)
            (answer,) = await client.queue(queue).push({"data": 2})
            assert answer["status"] == "buffered"
            (stored,) = await client.queue(queue).batch(5).wait(False).pop()
            assert stored["data"] == 1
            await client.ack(stored)
            await switch(wire, on=False)
            (kept,) = await client.queue(queue).batch(5).wait(True).timeout_millis(30_000).pop()
            assert kept["data"] == 2
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def test_no_transaction_overtakes_what_is_kept_on_disk(broker: BrokerProcess) -> None:
    queue = unique()
    operation = {"type": "push", "items": [{"queue": queue, "payload": "second"}]}
    async with Wire(broker.url) as wire:
        await switch(wire, on=True)
        await push_kept(wire, queue, "first")
        answer = await wire.call("POST", "/api/v1/transaction", {"operations": [operation]})
        assert answer.status == 503 and "overtake" in answer.body["error"]
        await switch(wire, on=False)

        async def is_done() -> bool:
            body = {"operations": [operation]}
            return (await wire.call("POST", "/api/v1/transaction", body)).status == 200

        await wait_until_async(is_done, timeout_s=SOON_S, what="the transaction to be accepted")
    assert (await pop_all(broker.url, queue, 2))["Default"] == ["first", "second"]


async def test_pops_that_may_not_wait_are_answered_while_pops_are_paused(
    broker: BrokerProcess,
) -> None:
    queue = unique()
    async with wires([broker.url] * 8) as pollers, Wire(broker.url) as wire:
        is_over = False

        async def poll(one: Wire) -> None:
            while not is_over:
                await one.call("GET", pop_path(queue), timeout_s=SOON_S)

        polls = [asyncio.create_task(poll(one)) for one in pollers]
        for is_on in (True, False, True):
            await switch(wire, on=is_on, path=POPS)
        is_over = True
        await asyncio.wait_for(asyncio.gather(*polls), SOON_S)
        await switch(wire, on=False, path=POPS)


async def test_a_keyed_push_is_kept_and_stored_once(
    broker: BrokerProcess, database: asyncpg.Connection
) -> None:
    queue = unique()
    items = [{"queue": queue, "partition": f"p{n % 2}", "payload": n} for n in range(4)]
    kept = {"items": items, "idempotencyKey": unique("key")}
    direct = {"items": items[:1], "idempotencyKey": unique("key")}
    async with wires([broker.url]) as (wire,):
        stored = await wire.call("POST", "/api/v1/push", direct)
        await switch(wire, on=True)
        first, second = [await wire.call("POST", "/api/v1/push", kept) for _ in range(2)]
        assert (first.status, first.body) == (201, second.body)
        # It was stored already; the copy is kept all the same, because nobody can look now.
        copy = await wire.call("POST", "/api/v1/push", direct)
        assert copy.body[0]["status"] == "buffered"
        await switch(wire, on=False)

        async def is_drained() -> bool:
            return (await show(wire))["bufferedMessages"] == 0

        await wait_until_async(is_drained, timeout_s=SOON_S, what="the spool to be drained")
        late = await wire.call("POST", "/api/v1/push", kept)
        assert (late.status, [one["transactionId"] for one in late.body]) == (
            202,
            [one["transactionId"] for one in first.body],
        )
        assert (await wire.call("POST", "/api/v1/push", direct)).body == stored.body
    count = await database.fetchval("SELECT count(*) FROM queen.messages")
    assert count == len(items) + 1


async def test_a_keyed_push_that_was_refused_before_is_not_lost_when_it_is_kept(
    broker: BrokerProcess, database: asyncpg.Connection
) -> None:
    queue = unique()
    items = [{"queue": queue, "payload": n} for n in range(5)]
    parts = {"items": items[1:3], "idempotencyKey": unique("key")}
    whole = {"items": items[3:], "idempotencyKey": unique("key")}
    async with wires([broker.url]) as (wire,):
        await wire.call("POST", "/api/v1/configure", {"queue": queue, "options": {"maxSize": 2}})
        await wire.call("POST", "/api/v1/push", {"items": items[:1]})
        refused = [await wire.call("POST", "/api/v1/push", one) for one in (parts, whole)]
        told = [[one["status"] for one in answer.body] for answer in refused]
        assert told == [["queued", "failed"], ["failed", "failed"]]
        await switch(wire, on=True)
        for one in (parts, whole):
            kept = await wire.call("POST", "/api/v1/push", one)
            assert [item["status"] for item in kept.body] == ["buffered"] * 2
        await switch(wire, on=False)
        await wait_until_shown(wire, bufferedMessages=0)
        aside = (await wire.call("GET", "/api/v1/operations/aside")).body
    rows = await database.fetch("SELECT payload::text FROM queen.messages ORDER BY seq")
    assert [row[0] for row in rows] == ["0", "1", "3", "4"]
    assert "found no room" in str(aside), aside


async def test_a_forgotten_key_may_keep_a_push_with_another_body(
    broker: BrokerProcess, database: asyncpg.Connection
) -> None:
    queue, key = unique(), unique("key")
    async with wires([broker.url]) as (wire,):
        for day in ("monday", "tuesday"):
            items = [{"queue": queue, "payload": f"{day} {n}"} for n in range(2)]
            await switch(wire, on=True)
            kept = await wire.call("POST", "/api/v1/push", {"items": items, "idempotencyKey": key})
            assert [one["status"] for one in kept.body] == ["buffered"] * 2
            await switch(wire, on=False)
            await wait_until_shown(wire, bufferedMessages=0)
            assert await database.execute("DELETE FROM queen.push_keys") == "DELETE 1"
    rows = await database.fetch("SELECT payload #>> '{}' FROM queen.messages ORDER BY seq")
    assert [row[0] for row in rows] == ["monday 0", "monday 1", "tuesday 0", "tuesday 1"]
