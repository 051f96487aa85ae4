"""Single calls of our client on a broker: what goes in comes out, refusals are errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from queenmq import PayloadMismatch, PushFailed, Queen, ResourceNotFound, TransactionFailed
from tests.support.broker import unique


@dataclass
class Order:
    total: int


class Line(msgspec.Struct):
    price: float


async def test_typed_payloads_go_in_and_come_out(queen: Queen) -> None:
    queue = unique()
    await queen.push(queue, [Order(1), Line(2.5), {"total": 3}], partition="p")
    first, second, third = await queen.pop(queue, partition="p", batch=3)
    assert (first.data, second.data, third.data) == ({"total": 1}, {"price": 2.5}, {"total": 3})
    await queen.ack(first)
    await queen.nack(second, "later")
    (second,) = await queen.pop(queue, type=Line)
    assert second.data == Line(2.5)
    assert (second.queue, second.partition, second.retry_count) == (queue, "p", 1)


async def test_a_payload_that_does_not_fit_can_be_settled(queen: Queen) -> None:
    queue = unique()
    await queen.push(queue, [{"total": 1}, {"total": "much"}])
    with pytest.raises(PayloadMismatch, match="total") as caught:
        await queen.pop(queue, batch=5, type=Order)
    assert (await queen.ack(caught.value.messages))["success"]
    assert await queen.pop(queue) == []


async def test_a_push_may_spread_over_partitions(queen: Queen) -> None:
    queue = unique()
    items = [{"data": n, "partition": f"p{n % 2}"} for n in range(4)]
    await queen.push(queue, items)
    await queen.push_buffered(queue, items)
    await queen.flush_all_buffers()
    for place in range(2):
        messages = await queen.pop(queue, partition=f"p{place}", batch=9)
        assert [message.data for message in messages] == [place, place + 2] * 2


async def test_a_full_queue_refuses_some_items_and_says_which(queen: Queen) -> None:
    queue, told = unique(), []
    await queen.create_queue(queue, max_size=2)
    with pytest.raises(PushFailed, match="1 of 3") as caught:
        await queen.push(queue, [1, 2, 3])
    statuses = [one["status"] for one in caught.value.results]
    assert statuses == ["queued", "queued", "failed"]
    push = queen.queue(queue).push([{"data": 4}])
    await push.on_error(lambda items, error: told.append((items[0]["payload"], str(error))))
    assert told[0][0] == 4 and "not stored" in told[0][1]


async def test_callbacks_of_a_push_get_their_items(queen: Queen) -> None:
    queue, stored, double = unique(), [], []
    item = {"data": 1, "transactionId": "same"}
    for _ in range(2):
        push = queen.queue(queue).push([item])
        await push.on_success(stored.extend).on_duplicate(lambda items, error: double.extend(items))
    assert [one["result"]["status"] for one in (*stored, *double)] == ["queued", "duplicate"]


async def test_names_of_any_kind_work(queen: Queen) -> None:
    queue, place, group = unique("a/b ü?#%"), "p/ü &=", "g/ +"
    await queen.create_queue(queue)
    await queen.push(queue, 1, partition=place)
    (message,) = await queen.pop(queue, partition=place, group=group)
    assert (message.queue, message.partition, message.consumer_group) == (queue, place, group)
    assert (await queen.ack(message))["success"]
    assert (await queen.admin.clear_queue(queue, place))["messagesDeleted"] == 1
    assert (await queen.delete_queue(queue))["existed"]


async def test_a_pop_that_acks_takes_no_lease(queen: Queen) -> None:
    queue = unique()
    await queen.push(queue, [1, 2])
    (first,) = await queen.queue(queue).auto_ack(True).pop()
    (second,) = await queen.pop(queue, auto_ack=True)
    assert (first.data, first.lease_id, second.data) == (1, "", 2)
    assert (await queen.renew(first))["success"] is False


async def test_messages_of_several_groups_are_acked_in_one_call(queen: Queen) -> None:
    queue = unique()
    await queen.push(queue, 1)
    messages = [(await queen.pop(queue, group=group))[0] for group in ("a", "b")]
    messages += await queen.pop(queue)
    acked = await queen.ack(messages)
    assert acked["success"] and len(acked["results"]) == 3
    messages[1]["transactionId"] = "none"
    acked = await queen.ack(messages)
    assert [one["success"] for one in acked["results"]] == [True, False, True]
    assert acked["success"] is False


async def test_a_transaction_is_whole_or_nothing(queen: Queen) -> None:
    source, target = unique(), unique()
    await queen.push(source, [1, 2])
    first, second = await queen.pop(source, batch=2, group="g")
    async with queen.transaction() as transaction:
        transaction.push(target, "a").queue(target).partition("p").push("b").ack(first)
    with pytest.raises(ZeroDivisionError):
        async with queen.transaction() as transaction:
            transaction.push(target, "never")
            raise ZeroDivisionError
    stale = {**second, "transactionId": "none"}
    with pytest.raises(TransactionFailed, match="Message not found"):
        await queen.transaction().push(target, "never").ack(stale).commit()
    messages = await queen.pop(target, batch=9, partitions=9)
    assert sorted(message.data for message in messages) == ["a", "b"]
    with pytest.raises(ValueError, match="empty"):
        await queen.transaction().commit()


async def test_a_transaction_under_a_lost_lease_is_refused(queen: Queen) -> None:
    queue = unique()
    await queen.push(queue, 1)
    (message,) = await queen.pop(queue)
    await queen.ack(message, "retry")
    with pytest.raises(TransactionFailed, match="Lease"):
        await queen.transaction().push(queue, 2).require(message).commit()


async def test_what_the_server_does_not_know_is_not_found(queen: Queen) -> None:
    told: list[Any] = []
    with pytest.raises(ResourceNotFound):
        await queen.admin.clear_queue(unique())
    answer = await queen.renew("00000000-0000-4000-8000-000000000000")
    assert answer["success"] is False and "404" in answer["error"]
    assert await queen.queue(unique()).delete().on_success(told.append)
    assert told[0]["existed"] is False
    for call in ("push", "create", "delete", "dlq"):
        with pytest.raises(ValueError, match="name of a queue"):
            builder = getattr(queen.queue(), call)
            await builder(*([1] if call == "push" else []))
