"""Requests are merged into one database call; data that the database refuses fails one request.

The edge lets nothing through that the schema refuses, so a constraint of our own plays the part.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import asyncpg
import pytest

from tests.conformance.shorthand import ack_of, drain
from tests.support.broker import Api, BrokerProcess, unique


@pytest.fixture
async def picky(
    database: asyncpg.Connection, start_broker: Callable[..., BrokerProcess]
) -> AsyncIterator[Api]:
    """A broker with one call in flight per kind, on a database that refuses what says poison."""
    for table, column in (("messages", "payload"), ("dead_letter_queue", "error_message")):
        await database.execute(
            f"ALTER TABLE queen.{table} ADD CHECK ({column}::text NOT LIKE '%poison%')"
        )
    client = Api(start_broker(QUEEN_PUSH_CALLS_MAX="1", QUEEN_ACK_CALLS_MAX="1").url)
    yield client
    await client.close()


async def test_a_poisoned_push_fails_alone_among_fifty_merged_ones(picky: Api) -> None:
    queue = unique()
    await picky.push(queue, "warm-up")
    poison = {"items": [{"queue": queue, "payload": "fine"}, {"queue": queue, "payload": "poison"}]}
    good = [picky.push(queue, n, transactionId=f"t{n}") for n in range(50)]
    answers = await asyncio.gather(
        *good[:25], picky.http.post("/api/v1/push", json=poison), *good[25:]
    )
    refused = answers.pop(25)
    assert refused.status_code == 400
    assert "refused" in refused.json()["error"]
    assert {one["status"] for answer in answers for one in answer} == {"queued"}
    assert sorted(await drain(picky, queue), key=str) == sorted([*range(50), "warm-up"], key=str)


async def test_pushes_after_a_poisoned_one_keep_their_order(picky: Api) -> None:
    queue = unique()
    body = {"items": [{"queue": queue, "payload": "poison"}]}
    for n in range(5):
        await picky.push(queue, n)
        assert (await picky.http.post("/api/v1/push", json=body)).status_code == 400
    assert await drain(picky, queue) == list(range(5))


async def test_a_poisoned_ack_fails_alone_among_fifty_merged_ones(picky: Api) -> None:
    queue = unique()
    await picky.push_items(
        [{"queue": queue, "partition": f"p{n}", "payload": n} for n in range(51)]
    )
    messages = await picky.pop(queue, batch=51, partitions=51)
    acks = [ack_of(message, "dlq", error="no good") for message in messages]
    acks[25]["error"] = "poison"
    answers = await asyncio.gather(*(picky.http.post("/api/v1/ack", json=ack) for ack in acks))
    refused = answers.pop(25)
    assert refused.status_code == 400
    assert all(answer.json()[0]["dlq"] for answer in answers)
    assert len(await picky.dead_letters(queue)) == 50
    (result,) = await picky.ack(messages[25])
    assert result["success"] is True


async def test_a_poisoned_transaction_leaves_nothing_behind(picky: Api) -> None:
    queue = unique()
    items = [{"queue": queue, "payload": payload} for payload in ("fine", "poison")]
    body = {"operations": [{"type": "push", "items": items}]}
    response = await picky.http.post("/api/v1/transaction", json=body)
    assert response.status_code == 400
    assert await picky.pop(queue) == []
