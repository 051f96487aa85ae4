"""What was accepted and could not be stored is shown, and goes again with one order."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.acceptance.load import Wire
from tests.acceptance.operation_side import (
    allow_payloads,
    refuse_payload,
    wait_for_status,
    wait_until_done,
)
from tests.isolation.sessions import ensure
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.operations import enqueue
from tests.support.producers import pop_all
from tests.support.waiting import wait_until_async

StartBroker = Callable[..., BrokerProcess]


async def _ops(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "queenmq", "ops", *arguments, "--url", url]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)


async def _buffer(wire: Wire, *, is_on: bool) -> None:
    body = {"enabled": is_on}
    assert (await wire.call("POST", "/api/v1/system/maintenance", body)).status == 200


async def _wait_until_drained(wire: Wire) -> None:
    async def is_drained() -> bool:
        answer = await wire.call("GET", "/api/v1/system/maintenance")
        return bool(answer.body["bufferedMessages"] == 0)

    await wait_until_async(is_drained, timeout_s=SOON_S, what="the spool to be drained")


async def _set_aside(wire: Wire, queue: str) -> None:
    """Let the second of three accepted pushes be refused by the database."""
    await _buffer(wire, is_on=True)
    for payload in (1, "bad", 2):
        answer = await wire.push(queue, payload, partition="p", transaction_id=f"t-{payload}")
        assert answer.status == 201 and answer.body[0]["status"] == "buffered", answer
    await _buffer(wire, is_on=False)
    await _wait_until_drained(wire)


async def _fail_operation(database: asyncpg.Connection, queue: str) -> UUID:
    (place,) = await ensure(database, queue)
    (operation_id,) = await enqueue(database, place, "bad")
    await wait_for_status(database, operation_id, "failed")
    return operation_id


async def _health(wire: Wire) -> Any:
    answer = await wire.call("GET", "/health")
    assert answer.status == 200, answer
    return answer.body


async def test_what_was_given_up_is_shown_and_retried_with_one_command(
    database: asyncpg.Connection, start_broker: StartBroker
) -> None:
    broker = start_broker()
    kept, queued = unique(), unique()
    await refuse_payload(database, '"bad"')
    async with Wire(broker.url) as wire:
        await _set_aside(wire, kept)
        assert await pop_all(broker.url, kept, 2) == {"p": [1, 2]}, "only the one at fault"
        await _fail_operation(database, queued)
        await _assert_shown(wire, broker.url, kept)
    # It is on disk, and outlives the broker.
    broker.kill()
    broker = start_broker()
    async with Wire(broker.url) as wire:
        again = await _ops(broker.url, "retry", "--all")
        assert again.returncode == 0, again.stderr
        assert again.stdout == "retrying failed operations: 1, pushes set aside: 1\n"

        async def is_aside_again() -> bool:
            found = await wire.call("GET", "/api/v1/operations/aside")
            return bool(found.body["total"] == 1)

        await wait_until_async(is_aside_again, timeout_s=SOON_S, what="another refusal")
        await allow_payloads(database)
        for _ in range(2):
            assert (await _ops(broker.url, "retry", "--all")).returncode == 0
            await _wait_until_drained(wire)
            await wait_until_done(database)
        assert await pop_all(broker.url, kept, 1) == {"p": ["bad"]}
        assert await pop_all(broker.url, queued, 1) == {"Default": ["bad"]}
        found = await wire.call("GET", "/api/v1/operations/aside")
        assert (found.body["records"], found.body["total"]) == ([], 0)
        await wait_until_async(
            lambda: _is_healthy(wire), timeout_s=SOON_S, what="/health to be content"
        )


async def _is_healthy(wire: Wire) -> bool:
    body = await _health(wire)
    return bool(body["status"] == "healthy" and body["problems"] == [])


async def _assert_shown(wire: Wire, url: str, queue: str) -> None:
    listed = await _ops(url, "aside")
    assert queue in listed.stdout and "no such payload here" in listed.stdout, listed
    stats = await _ops(url, "stats")
    assert "ASIDE" in stats.stdout
    (record,) = (await wire.call("GET", "/api/v1/operations/aside")).body["records"]
    assert (record["queues"], record["partitions"]) == ([queue], ["p"])
    assert (record["itemCount"], record["isReadable"]) == (1, True)
    assert record["setAsideAt"] and record["size"] > 0

    async def is_shown() -> bool:
        body = await _health(wire)
        text = " ".join(body["problems"])
        return body["status"] == "degraded" and "set aside" in text and "failed" in text

    await wait_until_async(is_shown, timeout_s=SOON_S, what="/health to show both")
    metrics = (await wire.call("GET", "/metrics/prometheus")).body
    assert "queen_file_buffer_failed 1\n" in metrics
    assert "queen_operation_queue_undecided 1\n" in metrics


async def test_an_order_to_retry_names_one_operation_or_all(broker: BrokerProcess) -> None:
    for arguments in ((), ("--all", "01a1e27d-ffeb-7ea9-b445-f3dcf83be995")):
        refused = await _ops(broker.url, "retry", *arguments)
        assert refused.returncode == 2 and "--all" in refused.stderr, refused


@pytest.mark.parametrize("code", ["P0001", "23514", "22023", "44000"])
async def test_data_that_is_refused_fails_its_request_alone(
    code: str, database: asyncpg.Connection, start_broker: StartBroker
) -> None:
    """A trigger of an operator's own, whatever SQLSTATE it uses for that."""
    broker, queue = start_broker(QUEEN_PUSH_CALLS_MAX="1"), unique()
    await refuse_payload(database, '"bad"', code=code)
    async with Wire(broker.url) as wire:
        assert (await wire.push(queue, "warm-up")).status == 201

    async def push(payload: Any) -> int:
        async with Wire(broker.url) as one:
            return (await one.push(queue, payload)).status

    statuses = await asyncio.gather(*map(push, [*range(10), "bad", *range(10, 20)]))
    assert statuses == [201] * 10 + [400] + [201] * 10
    found = await pop_all(broker.url, queue, 21)
    assert sorted(found["Default"][1:]) == list(range(20))
