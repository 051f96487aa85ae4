"""The types of what `Queen` takes and gives. `make types` checks them; nothing runs this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from queenmq import (
    AckResult,
    AckResults,
    Buffered,
    BufferStats,
    DeadLetter,
    DeadLetters,
    Message,
    PushFailed,
    PushResult,
    Queen,
    Renewal,
    RequestFailed,
    TraceOutcome,
    TransactionAnswer,
    wire,
)


@dataclass
class Order:
    total: int


async def push(queen: Queen) -> None:
    results = await queen.push("orders", [Order(1)], partition="a")
    assert_type(results, list[PushResult])
    assert_type(results[0].message_id, str | None)
    assert_type(results[0].status, str)
    assert_type(await queen.push_buffered("orders", 1, message_count=5), Buffered)
    assert_type(queen.get_buffer_stats(), BufferStats)
    assert_type(await queen.queue("orders").push(1), list[PushResult] | Buffered | None)
    try:
        await queen.push("orders", 1)
    except PushFailed as error:
        assert_type(error.results, list[PushResult])
    except RequestFailed as error:
        assert_type(error.code, str | None)


async def pop(queen: Queen) -> None:
    messages = await queen.pop("orders", batch=10, wait=True, type=Order)
    assert_type(messages, list[Message[Order]])
    assert_type(messages[0].data.total, int)
    assert_type(messages[0].transaction_id, str)
    assert_type(await queen.pop("orders"), list[Message[Any]])
    assert_type(await queen.ack(messages), AckResults)
    assert_type(await queen.ack(messages[0], False, error="why"), AckResult)
    assert_type(await queen.ack({"transactionId": "a", "partitionId": "b"}), AckResult)
    assert_type(await queen.nack(messages), AckResults)
    assert_type(await queen.renew(messages[0]), Renewal)
    assert_type(await queen.renew(messages), list[Renewal])
    assert_type(await messages[0].trace({"data": 1}), TraceOutcome)
    assert_type(await queen.dead_letters("orders"), list[DeadLetter[Any]])
    assert_type(await queen.queue("orders").dlq().limit(5).get(), DeadLetters)


async def work(queen: Queen) -> None:
    assert_type(await queen.transaction().push("a", 1).commit(), TransactionAnswer)
    configured = await queen.create_queue("orders", lease_time=60)
    assert_type(configured.options.lease_time, int)
    assert_type((await queen.delete_queue("orders")).existed, bool)
    assert_type((await queen.seek("orders", "g", to_end=True)).partitions_updated, int)
    async for message in queen.consume("orders"):
        assert_type(message, Message[Any])


async def admin(queen: Queen) -> None:
    groups = await queen.admin.list_consumer_groups()
    assert_type(groups, list[wire.ConsumerGroup])
    assert_type(groups[0].total_lag, int)
    lags = await queen.admin.get_lagging_consumers(60)
    assert_type(lags[0].oldest_unconsumed_at, str | None)
    letters = await queen.admin.list_dead_letters(queue="orders", limit=5)
    assert_type(letters.messages, list[DeadLetter[Any]])
    operation = await queen.admin.get_operation("id")
    assert_type(operation.retry_count, int)
    status = await queen.admin.get_status(queue="orders", from_="2030-01-31T12:00:00Z")
    assert_type(status.throughput[0].ingested, int)
    assert_type((await queen.admin.why("orders")).findings, list[wire.Finding])
    assert_type((await queen.pipeline.list_runs(limit=1)).runs, list[wire.PipelineRun])


async def mistakes(queen: Queen) -> None:
    """Calls that a type checker must refuse. `warn_unused_ignores` fails if it does not."""
    await queen.push("orders")  # type: ignore[call-arg]
    await queen.pop("orders", batch="ten")  # type: ignore[call-overload]
    await queen.admin.list_queues(serch="a")  # type: ignore[call-arg]
    (await queen.admin.get_queue("orders")).optoins  # type: ignore[attr-defined] # noqa: B018
    Queen("http://localhost:6632", retry_atempts=1)  # type: ignore[call-arg]
