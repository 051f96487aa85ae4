"""The types of what `SyncQueen` takes and gives. `make types` checks them; nothing runs this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from queenmq import (
    AckResult,
    AckResults,
    Buffered,
    DeadLetter,
    DeadLetters,
    Message,
    PushResult,
    Renewal,
    SyncQueen,
    TransactionAnswer,
    wire,
)
from queenmq.client.sync.builders import SyncQueue, SyncTransaction
from queenmq.client.sync.streams import SyncRunner, SyncStream


@dataclass
class Order:
    total: int


def messages(queen: SyncQueen) -> None:
    assert_type(queen.push("orders", [1], partition="a"), list[PushResult])
    assert_type(queen.push_buffered("orders", 1), Buffered)
    found = queen.pop("orders", batch=10, type=Order)
    assert_type(found, list[Message[Order]])
    assert_type(queen.ack(found), AckResults)
    assert_type(queen.ack(found[0]), AckResult)
    assert_type(queen.renew(found[0]), Renewal)
    assert_type(queen.dead_letters("orders"), list[DeadLetter[Any]])
    for message in queen.consume("orders", batch=10, limit=3):
        assert_type(message, Message[Any])
    queen.consume("orders", print, signals=True).run()


def builders(queen: SyncQueen) -> None:
    queue = queen.queue("orders").partition("a").batch(5)
    assert_type(queue, SyncQueue)
    assert_type(queue.pop(), list[Message[Any]])
    assert_type(queue.create().queue_id, str)
    assert_type(queue.dlq("g").limit(5).get(), DeadLetters)
    transaction = queen.transaction().push("a", 1)
    assert_type(transaction, SyncTransaction)
    assert_type(transaction.queue("b").partition("p").push(1).commit(), TransactionAnswer)


def streams(queen: SyncQueen) -> None:
    stream = queen.stream("orders").key_by(str).window_tumbling(60, grace_period=5).aggregate({})
    assert_type(stream.map(str).to(queen.queue("sums")), SyncStream)
    with stream.start("sums", batch_size=10) as runner:
        assert_type(runner, SyncRunner)


def admin(queen: SyncQueen) -> None:
    assert_type(queen.admin.list_consumer_groups(), list[wire.ConsumerGroup])
    assert_type(queen.admin.list_queues(search="a").queues[0].messages.pending, int)
    assert_type(queen.admin.get_operation_stats().depth, int)
    assert_type(queen.pipeline.get_table("queues", limit=5).rows, list[dict[str, Any]])


def mistakes(queen: SyncQueen) -> None:
    """Calls that a type checker must refuse. `warn_unused_ignores` fails if it does not."""
    queen.push("orders")  # type: ignore[call-arg]
    queen.queue("orders").batch("ten")  # type: ignore[arg-type]
    queen.admin.list_queues(serch="a")  # type: ignore[call-arg]
    queen.admin.nonsense()  # type: ignore[attr-defined]
    queen.stream("orders").window_tumbling(60, grace="5")  # type: ignore[call-arg]
    queen.transaction().nonsense()  # type: ignore[attr-defined]
