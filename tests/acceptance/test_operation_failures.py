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


async def test_what_was_accepted_is_stored_whatever_the_size_of_its_queue(
    wire: Wire, database: asyncpg.Connection
) -> None:
    """One request that the queue could never hold, and a bound that was lowered meanwhile."""
    queue = unique()
    (place,) = await ensure(database, queue)
    await wire.call("POST", "/api/v1/system/maintenance", {"enabled": True})
    items = [{"queue": queue, "payload": n} for n in range(5)]
    assert (await wire.call("POST", "/api/v1/push", {"items": items})).body[0][
        "status"
    ] == "buffered"
    body = {"queue": queue, "options": {"maxSize": 2}}
    assert (await wire.call("POST", "/api/v1/configure", body)).status == 200
    await wire.call("POST", "/api/v1/system/maintenance", {"enabled": False})

    async def is_stored() -> bool:
        return await stored(database, place) == [0, 1, 2, 3, 4]

    await wait_until_async(is_stored, timeout_s=SOON_S, what="the accepted push to be stored")
    # It is more than the queue may hold, so nothing else is accepted until it is consumed.
    (refused,) = (await wire.push(queue, 5)).body
    assert (refused["status"], "maxSize" in refused["error"]) == ("failed", True)
    await wire.ack(await wire.pop(queue, batch=5))
    (accepted,) = (await wire.push(queue, 6)).body
    assert accepted["status"] == "queued"


async def test_an_operation_that_waits_can_be_discarded(
    wire: Wire, database: asyncpg.Connection
) -> None:
    (place,) = await ensure(database, unique())
    first, second = await enqueue(database, place, 1, 2)
    await database.execute("UPDATE queen.operation_queue SET next_run_at = 'infinity'")
    answer = await wire.call("POST", f"/api/v1/operations/{first}/discard", {})
    assert (answer.status, answer.body["status"]) == (200, "discarded")
    again = await wire.call("POST", f"/api/v1/operations/{first}/discard", {})
    assert again.status == 409 and "is discarded" in again.body["error"]
    assert (await wire.call("POST", f"/api/v1/operations/{second}/retry", {})).status == 409
    await database.execute("UPDATE queen.operation_queue SET next_run_at = '-infinity'")
    await wait_until_done(database)
    assert await stored(database, place) == [2]
