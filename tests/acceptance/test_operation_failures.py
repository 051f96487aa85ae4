"""Operations whose data cannot be stored: seen, counted, and decided by somebody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from uuid import UUID

import asyncpg
import pytest

from tests.acceptance.load import Wire
from tests.acceptance.operation_side import (
    allow_payloads,
    refuse_payload,
    tries,
    wait_for_status,
    wait_until_done,
)
from tests.isolation.sessions import ensure
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.operations import enqueue, operation, operations, stored
from tests.support.waiting import wait_until_async


@pytest.fixture
async def wire(start_broker: Callable[..., BrokerProcess]) -> AsyncIterator[Wire]:
    async with Wire(start_broker(QUEEN_LOG_LEVEL="critical").url) as connection:
        yield connection


async def _fail(database: asyncpg.Connection, queue: str, *behind: str) -> tuple[UUID, UUID]:
    """Let the first operation of a queue fail for good; its partition and the operation."""
    await refuse_payload(database, '"bad"')
    (place,) = await ensure(database, queue)
    async with database.transaction():
        bad, *_ = await enqueue(database, place, "bad", *behind)
    await wait_for_status(database, bad, "failed")
    return place, bad


async def _settle(wire: Wire, operation_id: UUID, action: str) -> None:
    answer = await wire.call("POST", f"/api/v1/operations/{operation_id}/{action}")
    becomes = {"retry": "pending", "discard": "discarded"}[action]
    assert (answer.status, answer.body) == (200, {"id": str(operation_id), "status": becomes})


async def test_a_failing_operation_is_run_three_times_and_then_shown(
    wire: Wire, database: asyncpg.Connection
) -> None:
    queue = unique()
    _, bad = await _fail(database, queue)
    assert await tries(database) == 3
    (shown,) = (await wire.call("GET", "/api/v1/operations?status=failed")).body["operations"]
    assert (shown["id"], shown["queue"]) == (str(bad), queue)
    assert (shown["retryCount"], shown["maxRetries"]) == (3, 3)
    assert "no such payload here" in shown["error"] and shown["lastErrorAt"]
    stats = (await wire.call("GET", "/api/v1/operations/stats")).body
    assert (stats["depth"], stats["byStatus"]["failed"]["operations"]) == (0, 1)


async def test_a_failure_stops_its_partition_until_it_is_retried(
    wire: Wire, database: asyncpg.Connection
) -> None:
    queue = unique()
    place, bad = await _fail(database, queue, "behind")
    assert (await wire.push(queue, "later")).status == 202
    assert (await wire.push(queue, "free", partition="other")).status == 201
    assert [row["status"] for row in await operations(database, place)] == [
        "failed", "pending", "pending",
    ]  # fmt: skip
    await allow_payloads(database)
    await _settle(wire, bad, "retry")
    await wait_until_done(database)
    assert await stored(database, place) == ["bad", "behind", "later"]


async def test_a_failure_that_is_discarded_lets_the_others_go(
    wire: Wire, database: asyncpg.Connection
) -> None:
    queue = unique()
    place, bad = await _fail(database, queue, "behind")
    await _settle(wire, bad, "discard")
    await wait_until_done(database)
    assert await stored(database, place) == ["behind"]
    assert (await wire.push(queue, "later")).status == 201
    answer = await wire.call("POST", f"/api/v1/operations/{bad}/retry")
    assert answer.status == 409


async def test_a_queue_may_go_on_without_what_failed(
    wire: Wire, database: asyncpg.Connection
) -> None:
    queue = unique()
    body = {"queue": queue, "options": {"onFailedOperation": "continue"}}
    answer = await wire.call("POST", "/api/v1/configure", body)
    assert answer.body["options"]["onFailedOperation"] == "continue", answer
    place, bad = await _fail(database, queue, "behind")
    await wait_until_done(database)
    assert await stored(database, place) == ["behind"]
    assert (await operation(database, bad))["status"] == "failed"
    await allow_payloads(database)
    await _settle(wire, bad, "retry")
    await wait_until_done(database)
    assert await stored(database, place) == ["behind", "bad"]


async def test_only_the_request_at_fault_is_held_up(
    wire: Wire, database: asyncpg.Connection
) -> None:
    await refuse_payload(database, '"bad"')
    queue = unique()
    places = await ensure(database, queue, *(f"p{n}" for n in range(10)))
    async with database.transaction():
        ids = [(await enqueue(database, place, "bad" if n == 6 else n))[0]
               for n, place in enumerate(places)]  # fmt: skip
    await wait_for_status(database, ids[6], "failed")
    await wait_until_async(
        lambda: _are_completed(database, 9), timeout_s=SOON_S, what="the others to be stored"
    )
    assert [await stored(database, place) for place in places] == [
        [] if n == 6 else [n] for n in range(10)
    ]


async def _are_completed(database: asyncpg.Connection, count: int) -> bool:
    query = "SELECT count(*) FROM queen.operation_queue WHERE status = 'completed'"
    return bool(await database.fetchval(query) == count)


async def test_a_queue_at_its_max_size_holds_operations_until_it_is_consumed(
    wire: Wire, database: asyncpg.Connection
) -> None:
    queue = unique()
    body = {"queue": queue, "options": {"maxSize": 2}}
    assert (await wire.call("POST", "/api/v1/configure", body)).status == 200
    assert [(await wire.push(queue, n)).status for n in range(2)] == [201, 201]
    (place,) = await ensure(database, queue)
    (one,) = await enqueue(database, place, 2)

    async def has_been_tried() -> bool:
        return (await operation(database, one))["error_message"] is not None

    await wait_until_async(has_been_tried, timeout_s=SOON_S, what="a run without room")
    row = await operation(database, one)
    assert (row["status"] in ("pending", "processing"), row["retry_count"]) == (True, 0)
    await wire.ack(await wire.pop(queue, batch=2))
    await wait_until_done(database)
    assert await stored(database, place) == [0, 1, 2]
