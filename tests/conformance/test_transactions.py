"""POST /api/v1/transaction: pushes and acks that happen together or not at all."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from tests.conformance.shorthand import SOON_MS, drain, let_lease_run_out, next_of
from tests.support.broker import Api, unique


def push_of(queue: str, *payloads: Any, **item: Any) -> dict[str, Any]:
    items = [{"queue": queue, "payload": payload, **item} for payload in payloads]
    return {"type": "push", "items": items}


def ack_in(message: Mapping[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    """An ack as the clients send it: without the lease id."""
    names = ("transactionId", "partitionId")
    ack = {name: message[name] for name in names}
    return {"type": "ack", **ack, "status": status, **more}


async def test_a_committed_transaction_lists_a_result_per_item_in_order(api: Api) -> None:
    source, target = unique(), unique()
    await api.push(source, 1)
    (message,) = await api.pop(source)
    operations = [
        push_of(target, "a", "b"),
        ack_in(message),
        push_of(target, "c", transactionId="t"),
    ]
    answer = await api.transaction(operations, requiredLeases=[message["leaseId"]])
    assert answer["success"] is True
    assert str(uuid.UUID(answer["transactionId"])) == answer["transactionId"]
    results = answer["results"]
    assert [result["index"] for result in results] == [0, 1, 2, 3]
    assert [result["type"] for result in results] == ["push", "push", "ack", "push"]
    assert all(result["success"] for result in results)
    assert set(results[0]) == {
        "index", "type", "success", "transactionId", "messageId", "partitionId", "queueName",
    }  # fmt: skip
    assert set(results[2]) == {"index", "type", "success", "transactionId", "error", "dlq"}
    assert results[2]["transactionId"] == message["transactionId"]
    assert (results[3]["transactionId"], results[3]["queueName"]) == ("t", target)


async def test_pushed_messages_are_visible_to_the_next_pop_that_does_not_wait(api: Api) -> None:
    for _ in range(10):
        queue = unique()
        answer = await api.transaction([push_of(queue, 1), push_of(queue, 2)])
        messages = await api.pop(queue, batch=2)
        assert [message["data"] for message in messages] == [1, 2]
        ids = [result["messageId"] for result in answer["results"]]
        assert [message["id"] for message in messages] == ids


async def test_a_transaction_wakes_a_waiting_pop(api: Api) -> None:
    queue = unique()
    waiting = asyncio.create_task(api.data(queue, wait=True, timeout=SOON_MS))
    assert await api.pop(queue) == []
    await api.transaction([push_of(queue, 1)])
    assert await waiting == [1]


async def test_acks_of_a_whole_batch_leave_nothing_to_pop(api: Api) -> None:
    queue, target = unique(), unique()
    await api.push(queue, *range(5))
    messages = await api.pop(queue, batch=5)
    answer = await api.transaction([*map(ack_in, messages), push_of(target, "done")])
    assert answer["success"] is True
    assert await api.pop(queue) == []
    assert await drain(api, target) == ["done"]


async def test_nothing_survives_when_one_ack_is_refused(api: Api) -> None:
    queue, target = unique(), unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    missing = {**message, "transactionId": "nobody"}
    operations = [push_of(target, "lost"), ack_in(message), ack_in(missing)]
    answer = await api.transaction(operations)
    assert answer["success"] is False
    assert "Message not found" in answer["error"]
    assert await drain(api, target) == []
    assert await api.pop(queue) == []
    (result,) = await api.ack(message)
    assert result["success"] and result["leaseReleased"]


async def test_a_refused_transaction_pushes_nothing_to_any_queue(api: Api) -> None:
    targets = [unique() for _ in range(5)]
    (known,) = await api.push(targets[4], "first", transactionId="same")
    operations = [push_of(target, 1) for target in targets]
    operations.append(push_of(targets[4], "again", transactionId="same"))
    answer = await api.transaction(operations)
    assert answer["success"] is False
    assert "same" in answer["error"]
    for target in targets[:4]:
        assert await api.pop(target) == []
    (message,) = await api.pop(targets[4], batch=10)
    assert message["id"] == known["message_id"]


async def test_two_pushes_with_one_id_in_a_transaction_fail_it(api: Api) -> None:
    queue = unique()
    operations = [push_of(queue, n, transactionId="same") for n in range(2)]
    answer = await api.transaction(operations)
    assert answer["success"] is False
    assert await api.pop(queue) == []


async def test_the_same_id_in_two_partitions_is_no_duplicate(api: Api) -> None:
    queue = unique()
    operations = [push_of(queue, p, partition=p, transactionId="same") for p in "ab"]
    assert (await api.transaction(operations))["success"] is True


async def test_a_queue_at_its_max_size_fails_the_transaction(api: Api) -> None:
    queue, other = unique(), unique()
    await api.configure(queue, maxSize=1)
    answer = await api.transaction([push_of(other, 1), push_of(queue, 1, 2)])
    assert answer["success"] is False and answer["error"]
    assert await api.pop(queue) == []
    assert await api.pop(other) == []


@pytest.mark.parametrize("kind", ["", "pop", "PUSH", "delete"])
async def test_an_unknown_type_fails_the_transaction(api: Api, kind: str) -> None:
    queue = unique()
    answer = await api.transaction([push_of(queue, 1), {"type": kind}])
    assert answer["success"] is False
    assert "type" in answer["error"]
    assert await api.pop(queue) == []


@pytest.mark.parametrize("status", ["retry", "done", "pending"])
async def test_a_status_that_does_not_settle_fails_the_transaction(api: Api, status: str) -> None:
    queue, target = unique(), unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    answer = await api.transaction([ack_in(message, status), push_of(target, 1)])
    assert answer["success"] is False
    assert status in answer["error"]
    assert await api.pop(target) == []
    assert (await api.ack(message))[0]["success"]


@pytest.mark.parametrize("status", ["failed", "dlq"])
async def test_a_failure_in_a_transaction_is_a_dead_letter_at_once(api: Api, status: str) -> None:
    queue = unique()
    await api.configure(queue, retryLimit=5)
    await api.push(queue, "bad", "next")
    (message,) = await api.pop(queue)
    answer = await api.transaction([ack_in(message, status, error="no good")])
    assert answer["success"] is True
    assert answer["results"][0]["dlq"] is True
    (letter,) = await api.dead_letters(queue)
    assert (letter["data"], letter["errorMessage"]) == ("bad", "no good")
    assert await api.data(queue) == ["next"]


async def test_a_lost_lease_fails_the_transaction(api: Api) -> None:
    queue, target = unique(), unique()
    await api.configure(queue, leaseTime=1)
    await api.push(queue, 1)
    (lost,) = await api.pop(queue)
    await api.configure(queue, leaseTime=60)
    (live,) = await next_of(api, queue)
    operations = [ack_in(lost), push_of(target, 1)]
    answer = await api.transaction(operations, requiredLeases=[lost["leaseId"]])
    assert answer["success"] is False
    assert lost["leaseId"] in answer["error"]
    assert await api.pop(target) == []
    answer = await api.transaction(operations, requiredLeases=[live["leaseId"]])
    assert answer["success"] is True


async def test_a_lease_that_ran_out_fails_the_transaction_although_nobody_took_over(
    api: Api,
) -> None:
    queue, target = unique(), unique()
    await api.configure(queue, leaseTime=1)
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    await let_lease_run_out(api)
    operations = [ack_in(message), push_of(target, 1)]
    answer = await api.transaction(operations, requiredLeases=[message["leaseId"]])
    assert answer["success"] is False
    assert await api.pop(target) == []
    assert await api.data(queue) == [1]


@pytest.mark.parametrize(
    "lease", [str(uuid.uuid4()), "not-a-uuid", ""], ids=["other", "text", "empty"]
)
async def test_a_lease_that_never_was_fails_the_transaction(api: Api, lease: str) -> None:
    queue = unique()
    answer = await api.transaction([push_of(queue, 1)], requiredLeases=[lease])
    assert answer["success"] is False and "Lease" in answer["error"]
    assert await api.pop(queue) == []


async def test_a_lease_whose_messages_were_all_acked_does_not_fail_the_transaction(
    api: Api,
) -> None:
    queue, target = unique(), unique()
    await api.push(queue, 1)
    messages = await api.pop(queue)
    await api.ack(*messages)
    answer = await api.transaction([push_of(target, 1)], requiredLeases=[messages[0]["leaseId"]])
    assert answer["success"] is True
    assert await drain(api, target) == [1]


async def test_a_lease_that_ended_with_a_failure_fails_the_transaction(api: Api) -> None:
    queue, target = unique(), unique()
    await api.push(queue, 1)
    messages = await api.pop(queue)
    await api.ack(*messages, status="failed")
    answer = await api.transaction([push_of(target, 1)], requiredLeases=[messages[0]["leaseId"]])
    assert answer["success"] is False
    assert await api.pop(target) == []


async def test_an_ack_in_a_transaction_frees_the_partition_for_a_waiting_pop(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    (message,) = await api.pop(queue)
    waiting = asyncio.create_task(api.data(queue, wait=True, timeout=SOON_MS))
    assert await api.pop(queue) == []
    await api.transaction([ack_in(message)], requiredLeases=[message["leaseId"]])
    assert await waiting == [2]


async def test_a_lease_id_in_an_ack_must_be_the_live_one(api: Api) -> None:
    queue, target = unique(), unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    wrong = ack_in(message, leaseId=str(uuid.uuid4()))
    answer = await api.transaction([wrong, push_of(target, 1)])
    assert answer["success"] is False and "lease" in answer["error"]
    assert await api.pop(target) == []
    right = ack_in(message, leaseId=message["leaseId"])
    assert (await api.transaction([right]))["success"] is True


async def test_one_transaction_acks_several_partitions(api: Api) -> None:
    queue = unique()
    await api.push_items([{"queue": queue, "partition": p, "payload": p} for p in "abc"])
    messages = await api.pop(queue, batch=3, partitions=3)
    answer = await api.transaction(
        [ack_in(message) for message in messages], requiredLeases=[messages[0]["leaseId"]]
    )
    assert answer["success"] is True
    assert await api.pop(queue, batch=3, partitions=3) == []


async def test_an_ack_in_a_transaction_counts_for_its_group_only(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue, consumerGroup="a")
    assert (await api.transaction([ack_in(message, consumerGroup="a")]))["success"] is True
    assert await drain(api, queue, consumerGroup="a") == []
    assert await drain(api, queue, consumerGroup="b") == [1]
    assert await drain(api, queue) == [1]


async def test_a_transaction_moves_a_message_between_partitions_of_one_queue(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, partition="in")
    (message,) = await api.pop(queue, partition="in")
    operations = [push_of(queue, message["data"] + 1, partition="out"), ack_in(message)]
    answer = await api.transaction(operations, requiredLeases=[message["leaseId"]])
    assert answer["success"] is True
    assert await drain(api, queue) == [2]


async def test_concurrent_transactions_over_the_same_partitions_all_commit(api: Api) -> None:
    queue = unique()
    names = ["a", "b", "c", "d"]
    transactions = []
    for n in range(20):
        order = names if n % 2 else names[::-1]
        transactions.append(api.transaction([push_of(queue, n, partition=p) for p in order]))
    answers = await asyncio.gather(*transactions)
    assert all(answer["success"] for answer in answers)
    for name in names:
        assert sorted(await drain(api, queue, partition=name)) == list(range(20))
