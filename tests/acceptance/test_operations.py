"""Pushes that wait as operations, over HTTP: what producers and operators see of them."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from queen import Queen

from tests.acceptance.load import Answer, Wire, pop_path
from tests.acceptance.operation_side import EAGER, block, unblock, wait_until_done
from tests.isolation.sessions import ensure
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.operations import claim, enqueue, stored
from tests.support.waiting import wait_until_async

StartBroker = Callable[..., BrokerProcess]

_BUFFERED = {"index", "status", "queue", "partition", "operationId", "queuePosition",
             "estimatedWait", "reason"}  # fmt: skip


@pytest.fixture
async def wire(start_broker: StartBroker) -> AsyncIterator[Wire]:
    """A broker without any load."""
    async with Wire(start_broker().url) as connection:
        yield connection


async def _push(wire: Wire, *items: dict[str, Any]) -> Answer:
    return await wire.call("POST", "/api/v1/push", {"items": list(items)})


async def _push_under_load(wire: Wire, queue: str) -> None:
    """Come back once the broker queues what it is given."""

    async def is_queued() -> bool:
        return (await wire.push(queue, "warm up")).status == 202

    await wait_until_async(is_queued, timeout_s=SOON_S, what="the broker to feel a load")


async def _pop_under_load(wire: Wire, queue: str, **query: Any) -> list[Any]:
    """The messages of a pop, tried again for as long as the broker has too much to do for one."""

    async def answer() -> Answer | None:
        found = await wire.call("GET", pop_path(queue, **query))
        assert found.status in (200, 204, 429), found
        return found if found.status != 429 else None

    found = await wait_until_async(answer, timeout_s=SOON_S, what="a pop to be let in")
    return found.body["messages"] if found.status == 200 else []


async def test_what_waits_is_answered_with_its_operation(
    wire: Wire, database: asyncpg.Connection
) -> None:
    queue = unique()
    await block(database, queue)
    answer = await _push(
        wire,
        {"queue": queue, "payload": 1, "transactionId": "mine"},
        {"queue": queue, "payload": 2},
    )
    assert answer.status == 202
    first, second = answer.body
    assert set(first) == _BUFFERED | {"transactionId"}
    assert set(second) == _BUFFERED
    assert (first["index"], second["index"]) == (0, 1)
    assert (first["status"], first["queue"], first["partition"]) == ("buffered", queue, "Default")
    assert first["transactionId"] == "mine"
    assert first["reason"] == "maintaining_order"
    assert first["queuePosition"] == 2
    assert int(first["estimatedWait"].removesuffix("s")) >= 1
    assert UUID(first["operationId"]).version == 7
    assert second["operationId"] == first["operationId"]


async def test_one_answer_covers_stored_and_waiting_items(
    wire: Wire, database: asyncpg.Connection
) -> None:
    queue = unique()
    await block(database, queue, "busy")
    names = ["a", "busy", "c", "busy", "a"]
    answer = await _push(
        wire, *({"queue": queue, "partition": name, "payload": n} for n, name in enumerate(names))
    )
    assert answer.status == 202
    assert [one["index"] for one in answer.body] == [0, 1, 2, 3, 4]
    assert [one["status"] for one in answer.body] == [
        "queued", "buffered", "queued", "buffered", "queued",
    ]  # fmt: skip
    assert "message_id" in answer.body[0] and "message_id" not in answer.body[1]
    await unblock(database)
    await wait_until_done(database)
    a, busy, c = await ensure(database, queue, "a", "busy", "c")
    assert [await stored(database, place) for place in (a, busy, c)] == [
        [0, 4], ["blocker", 1, 3], [2],
    ]  # fmt: skip


async def test_no_name_and_the_default_name_are_one_line(
    wire: Wire, database: asyncpg.Connection
) -> None:
    queue = unique()
    await block(database, queue)
    for n in range(6):
        place = {"partition": "Default"} if n % 2 else {}
        answer = await _push(wire, {"queue": queue, "payload": n, **place})
        assert (answer.status, answer.body[0]["queuePosition"]) == (202, n + 2)
    await unblock(database)
    await wait_until_done(database)
    (place_id,) = await ensure(database, queue)
    assert await stored(database, place_id) == ["blocker", *range(6)]


async def test_under_load_pushes_wait_and_are_then_delivered_in_order(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue, name = unique(), "tenant:42"
    async with Wire(start_broker(**EAGER).url) as wire:
        await _push_under_load(wire, unique())
        answers = [await wire.push(queue, n, partition=name) for n in range(50)]
        assert {answer.status for answer in answers} <= {201, 202}
        assert "system_busy" in {answer.body[0].get("reason") for answer in answers}
        await wait_until_done(database)
        messages = await wire.pop(queue, partition=name, batch=100)
    assert [message["data"] for message in messages] == list(range(50))


async def test_an_idle_broker_with_a_warm_pool_stores_at_once(wire: Wire) -> None:
    queue = unique()
    answers = [await wire.push(queue, n) for n in range(100)]
    assert {answer.status for answer in answers} == {201}


async def test_acks_under_load_are_done_when_they_are_answered(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue = unique()
    broker = start_broker(**EAGER, QUEEN_LOAD_ACK_THRESHOLD="0.000001")
    async with Wire(broker.url) as wire:
        await _push_under_load(wire, queue)
        await wait_until_done(database)
        messages = await _pop_under_load(wire, queue, batch=100, consumerGroup="readers")
        results = await wire.ack(messages, group="readers")
        assert messages and all(one["success"] for one in results)
        assert not await _pop_under_load(wire, queue, consumerGroup="readers")
    query = "SELECT count(*) FROM queen.partition_consumers WHERE lease_expires_at IS NOT NULL"
    assert await database.fetchval(query) == 0


async def test_a_transaction_tells_which_of_its_pushes_wait(
    wire: Wire, database: asyncpg.Connection
) -> None:
    queue = unique()
    await block(database, queue, "busy")
    items = [{"queue": queue, "partition": name, "payload": name} for name in ("busy", "free")]
    body = {"operations": [{"type": "push", "items": items}]}
    answer = await wire.call("POST", "/api/v1/transaction", body)
    assert answer.body["success"], answer
    busy, free = answer.body["results"]
    assert busy["operationId"] and busy["messageId"] is None
    assert free["messageId"] and "operationId" not in free
    await unblock(database)
    await wait_until_done(database)
    shown = await wire.call("GET", f"/api/v1/operations/{busy['operationId']}")
    assert shown.body["result"][0]["status"] == "queued"


async def test_the_official_client_works_while_its_pushes_wait(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue, seen = unique(), []

    async def note(items: list[Any], error: Exception) -> None:
        seen.append(error)

    # It takes over the process's signals, and at its close resets them to the system's defaults.
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        async with Queen(start_broker().url) as client:
            await block(database, queue)
            for n in range(3):
                answers = await client.queue(queue).push({"data": n}).on_error(note)
                assert [one["status"] for one in answers] == ["buffered"]
            await unblock(database)
            await wait_until_done(database)
            messages = await client.queue(queue).batch(10).wait(False).pop()
            await client.ack(messages, "completed")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert [message["data"] for message in messages] == ["blocker", 0, 1, 2]
    assert not seen


# Operators.


async def test_operations_are_listed_newest_first_by_status_and_queue(
    wire: Wire, database: asyncpg.Connection
) -> None:
    queue, other = unique(), unique()
    for name in (queue, other):
        await block(database, name)
        assert (await wire.push(name, 1)).status == 202
    listed = (await wire.call("GET", f"/api/v1/operations?queue={queue}")).body
    assert listed["total"] == 2
    assert [one["seq"] for one in listed["operations"]] == [2, 1]
    assert {one["queue"] for one in listed["operations"]} == {queue}
    page = (await wire.call("GET", "/api/v1/operations?status=pending&limit=1&offset=1")).body
    assert (page["total"], len(page["operations"])) == (4, 1)
    assert page["pagination"] == {"limit": 1, "offset": 1}
    none = (await wire.call("GET", "/api/v1/operations?status=failed")).body
    assert (none["total"], none["operations"]) == (0, [])
    assert (await wire.call("GET", "/api/v1/operations?status=odd")).status == 400


async def test_one_operation_shows_the_result_of_each_item(
    wire: Wire, database: asyncpg.Connection
) -> None:
    queue = unique()
    assert (await wire.push(queue, "first", transaction_id="a")).status == 201
    await block(database, queue)
    items = [{"queue": queue, "payload": n, "transactionId": name} for n, name in enumerate("ab")]
    answer = await _push(wire, *items)
    path = f"/api/v1/operations/{answer.body[0]['operationId']}"
    waiting = (await wire.call("GET", path)).body
    assert (waiting["status"], waiting["itemCount"], waiting["result"]) == ("pending", 2, None)
    await unblock(database)
    await wait_until_done(database)
    done = (await wire.call("GET", path)).body
    assert (done["status"], done["type"], done["isBlocking"]) == ("completed", "PUSH", False)
    assert done["processedAt"].endswith("Z")
    assert [(one["index"], one["status"], one["transaction_id"]) for one in done["result"]] == [
        (0, "duplicate", "a"), (1, "queued", "b"),
    ]  # fmt: skip
    (message,) = [m for m in await wire.pop(queue, batch=9) if m["transactionId"] == "b"]
    assert message["id"] == done["result"][1]["message_id"]


async def test_what_cannot_be_settled_is_refused(wire: Wire, database: asyncpg.Connection) -> None:
    blocker = await block(database, unique())
    for action in ("retry", "discard"):
        for name, status in ((str(uuid4()), 404), ("nonsense", 400), (str(blocker), 409)):
            if (action, status) == ("discard", 409):
                await database.execute(
                    "UPDATE queen.operation_queue SET status = 'discarded', is_blocking = false,"
                    " processed_at = now()"
                )
            answer = await wire.call("POST", f"/api/v1/operations/{name}/{action}")
            assert (answer.status, "error" in answer.body) == (status, True), answer
    assert (await wire.call("GET", f"/api/v1/operations/{uuid4()}")).status == 404
    assert (await wire.call("GET", "/api/v1/operations/nonsense")).status == 400


async def test_stats_count_by_status(wire: Wire, database: asyncpg.Connection) -> None:
    queue = unique()
    await block(database, queue)
    await wire.push(queue, "waits")
    stats = (await wire.call("GET", "/api/v1/operations/stats")).body
    assert stats["depth"] == 2 and stats["oldestAgeSeconds"] >= 0
    assert stats["byStatus"]["pending"]["operations"] == 2
    assert stats["byStatus"]["failed"]["operations"] == 0
    await unblock(database)
    await wait_until_done(database)
    stats = (await wire.call("GET", "/api/v1/operations/stats")).body
    assert stats["depth"] == 0
    assert stats["byStatus"]["completed"]["items"] == 2


async def test_the_metrics_tell_of_operations(wire: Wire, database: asyncpg.Connection) -> None:
    queue = unique()
    await block(database, queue)
    await wire.push(queue, "waits")
    await wire.call("GET", "/api/v1/operations/stats")
    assert (await _series(wire))["queen_operation_queue_depth"] == 2
    await unblock(database)
    await wait_until_done(database)

    async def are_counted() -> bool:
        found = await _series(wire)
        return found["queen_operation_queue_executed_total"] == 2

    await wait_until_async(are_counted, timeout_s=SOON_S, what="the runs to be counted")
    found = await _series(wire)
    assert found["queen_operation_queue_queued_total"] == 1
    assert found["queen_operation_queue_messages_total"] == 2
    assert found["queen_operation_queue_failed_total"] == 0
    assert found["queen_operation_queue_oldest_seconds"] >= 0


async def _series(wire: Wire) -> dict[str, float]:
    text = (await wire.call("GET", "/metrics/prometheus")).body
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


# Bounds.


async def test_a_full_line_refuses_and_serves_again_when_it_has_drained(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue = unique()
    async with Wire(start_broker(QUEEN_LOAD_PARTITION_QUEUE_MAX="3").url) as wire:
        await block(database, queue, "p")
        statuses = [(await wire.push(queue, n, partition="p")).status for n in range(4)]
        assert statuses == [202, 202, 429, 429]
        refused = await wire.push(queue, "refused", partition="p")
        assert 1 <= int(refused.headers["retry-after"]) <= 30
        assert "error" in refused.body
        # Others are not concerned, and a request is refused as a whole.
        assert (await wire.push(queue, "free", partition="q")).status == 201
        items = [{"queue": queue, "partition": name, "payload": "no"} for name in "qp"]
        assert (await _push(wire, *items)).status == 429
        await unblock(database)
        await wait_until_done(database)
        assert (await wire.push(queue, "after", partition="p")).status == 201
    p, q = await ensure(database, queue, "p", "q")
    assert await stored(database, p) == ["blocker", 0, 1, "after"]
    assert await stored(database, q) == ["free"]


async def test_too_deep_a_queue_refuses_although_something_waits(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue = unique()
    broker = start_broker(**EAGER, QUEEN_LOAD_PUSH_QUEUE_MAX="3")
    async with Wire(broker.url) as wire:
        await block(database, queue)
        await _push_under_load(wire, queue)
        answers = [await wire.push(queue, n) for n in range(6)]
        assert [answer.status for answer in answers][-1] == 429
        waiting = await database.fetchval(
            "SELECT count(*) FROM queen.operation_queue WHERE is_blocking"
        )
        assert waiting <= 4
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 30
        await unblock(database)
        await wait_until_done(database)

        async def is_served() -> bool:
            return (await wire.push(queue, "after")).status in (201, 202)

        await wait_until_async(is_served, timeout_s=SOON_S, what="pushes to be served again")


# Workers that died.


async def test_what_a_dead_worker_had_claimed_is_run_by_a_living_one(
    wire: Wire, database: asyncpg.Connection
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    async with database.transaction():
        await enqueue(database, place, 1, 2)
        await database.execute("UPDATE queen.operation_queue SET timeout_seconds = 1")
        assert len((await claim(database, "dead")).rows) == 2
    assert (await wire.push(queue, 3)).status == 202
    await wait_until_done(database)
    assert await stored(database, place) == [1, 2, 3]
    assert (await _series(wire))["queen_operation_queue_reclaimed_total"] == 2
