"""Our client and `queen ops` against a real broker whose pushes wait as operations."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from queenmq import BadRequest, Queen
from queenmq.client.errors import RequestFailed
from tests.acceptance.operation_side import (
    allow_payloads,
    block,
    refuse_payload,
    unblock,
    wait_for_status,
)
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.waiting import wait_until_async

StartBroker = Callable[..., BrokerProcess]


def _ops(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "queenmq", "ops", *arguments, "--url", url]
    return subprocess.run(command, capture_output=True, text=True, timeout=SOON_S)


async def _push_bad_and_good(
    queen: Queen, queue: str, database: asyncpg.Connection
) -> tuple[Any, Any]:
    """Two operations in line, of which the first has failed for good."""
    await refuse_payload(database, '"bad"')
    await block(database, queue)
    (first,) = await queen.push(queue, ["bad"])
    (second,) = await queen.push(queue, ["good"])
    await unblock(database)
    await wait_for_status(database, first["operationId"], "failed")
    return first, second


async def test_a_client_that_returns_gets_the_operation(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue, broker = unique(), start_broker()
    await block(database, queue)
    async with Queen(broker.url) as queen:
        (result,) = await queen.push(queue, [1])
        assert (result["status"], result["reason"]) == ("buffered", "maintaining_order")
        found = await queen.admin.get_operation(result["operationId"])
        assert (found["status"], found["queue"], found["itemCount"]) == ("pending", queue, 1)
        with pytest.raises(BadRequest, match="operationId"):
            await queen.admin.get_operation("nonsense")


async def test_a_client_that_polls_gets_what_became_of_it(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue, broker = unique(), start_broker()
    await block(database, queue)
    async with Queen(broker.url, queued_operation_behavior="poll") as queen:
        pushing = asyncio.create_task(queen.push(queue, [1, 2]))

        async def is_behind() -> bool:
            waiting = await database.fetchval("SELECT count(*) FROM queen.operation_queue")
            return bool(waiting == 2)

        await wait_until_async(is_behind, timeout_s=SOON_S, what="the push to wait")
        assert not pushing.done()
        await unblock(database)
        results: list[Any] = list(await pushing)
        assert [one["status"] for one in results] == ["queued", "queued"]
        messages = await queen.pop(queue, batch=10, wait=True)
        assert [message.data for message in messages] == ["blocker", 1, 2]
        assert [message.id for message in messages[1:]] == [one["message_id"] for one in results]


async def test_operators_list_retry_and_discard_from_the_command_line(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue, broker = unique(), start_broker()
    async with Queen(broker.url) as queen:
        first, second = await _push_bad_and_good(queen, queue, database)
        failed = first["operationId"]

        listed = await asyncio.to_thread(_ops, broker.url, "list", "--status", "failed")
        assert (
            listed.returncode == 0
            and failed in listed.stdout
            and "no such payload" in listed.stdout
        )
        shown = await asyncio.to_thread(_ops, broker.url, "show", failed, "-o", "json")
        assert json.loads(shown.stdout)["retryCount"] == 3
        refused = await asyncio.to_thread(_ops, broker.url, "retry", second["operationId"])
        assert refused.returncode == 1 and "only a failed one can be retried" in refused.stderr

        await allow_payloads(database)
        retried = await asyncio.to_thread(_ops, broker.url, "retry", failed)
        assert retried.stdout == f"operation {failed} is pending\n"
        await wait_for_status(database, second["operationId"], "completed")
        messages = await queen.pop(queue, batch=10, wait=True)
        assert [message.data for message in messages] == ["blocker", "bad", "good"]


async def test_a_discarded_operation_lets_the_others_go(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue, broker = unique(), start_broker()
    async with Queen(broker.url) as queen:
        first, second = await _push_bad_and_good(queen, queue, database)
        unasked = await asyncio.to_thread(_ops, broker.url, "discard", first["operationId"])
        assert unasked.returncode == 2, "nobody confirmed"
        done = await asyncio.to_thread(_ops, broker.url, "discard", "--yes", first["operationId"])
        assert done.stdout == f"operation {first['operationId']} is discarded\n"
        await wait_for_status(database, second["operationId"], "completed")
        with pytest.raises(RequestFailed, match="is discarded; only one that is not stored"):
            await queen.admin.discard_operation(first["operationId"])
        stats = await asyncio.to_thread(_ops, broker.url, "stats", "-o", "json")
        assert json.loads(stats.stdout)["byStatus"]["discarded"]["operations"] == 1
