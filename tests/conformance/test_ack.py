"""POST /api/v1/ack and /ack/batch: statuses, leases and cursors."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.conformance.shorthand import ack_of, drain, let_lease_run_out, next_of, settle
from tests.support.broker import Api, unique


async def test_one_ack_answers_an_array_of_one_with_the_documented_fields(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, partition="a")
    (message,) = await api.pop(queue)
    response = await api.http.post("/api/v1/ack", json=ack_of(message))
    assert response.status_code == 200
    assert response.json() == [
        {
            "index": 0,
            "transactionId": message["transactionId"],
            "success": True,
            "error": None,
            "queueName": queue,
            "partitionName": "a",
            "leaseReleased": True,
            "dlq": False,
        }
    ]


async def test_a_batch_of_acks_answers_in_request_order(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(5))
    messages = await api.pop(queue, batch=5)
    shuffled = [messages[n] for n in (3, 0, 4, 2, 1)]
    results = await api.ack(*shuffled)
    assert [result["index"] for result in results] == list(range(5))
    assert [result["transactionId"] for result in results] == [
        message["transactionId"] for message in shuffled
    ]
    assert all(result["success"] for result in results)
    assert await api.pop(queue) == []


async def test_an_empty_batch_of_acks_is_answered_with_an_empty_array(api: Api) -> None:
    response = await api.http.post("/api/v1/ack/batch", json={"acknowledgments": []})
    assert (response.status_code, response.json()) == (200, [])


@pytest.mark.parametrize("status", ["completed", "success", None, ""])
async def test_a_completed_message_is_passed(api: Api, status: str | None) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    (message,) = await api.pop(queue)
    body = {**ack_of(message), "status": status}
    response = await api.http.post("/api/v1/ack", json=body)
    assert response.json()[0]["success"] is True
    assert await api.data(queue) == [2]


async def test_a_failed_message_is_redelivered_at_once(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    (message,) = await api.pop(queue)
    (result,) = await api.ack(message, status="failed")
    assert result["success"] and result["leaseReleased"] and not result["dlq"]
    (again,) = await api.pop(queue)
    assert again["id"] == message["id"]
    assert again["leaseId"] != message["leaseId"]
    assert again["retryCount"] == 1


async def test_a_message_to_retry_is_redelivered_without_counting(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryLimit=0)
    await api.push(queue, 1)
    for _ in range(5):
        (message,) = await api.pop(queue)
        (result,) = await api.ack(message, status="retry")
        assert result["success"] and result["leaseReleased"] and not result["dlq"]
    assert await api.dead_letters(queue) == []


async def test_a_message_sent_to_the_dead_letters_is_passed(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    (message,) = await api.pop(queue)
    (result,) = await api.ack(message, status="dlq", error="no good")
    assert result["success"] and result["dlq"] and result["leaseReleased"]
    assert await api.data(queue) == [2]
    (letter,) = await api.dead_letters(queue)
    assert (letter["id"], letter["errorMessage"]) == (message["id"], "no good")


@pytest.mark.parametrize("status", ["done", "COMPLETED", "ack", "pending"])
async def test_an_unknown_status_changes_nothing(api: Api, status: str) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    (result,) = await api.ack(message, status=status)
    assert result["success"] is False and result["leaseReleased"] is False
    assert await api.pop(queue) == []
    assert (await api.ack(message))[0]["success"]


async def test_acking_only_the_last_message_passes_all_before_it(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(6))
    messages = await api.pop(queue, batch=5)
    (result,) = await api.ack(messages[-1])
    assert result["success"] and result["leaseReleased"]
    assert await api.data(queue, batch=10) == [5]


async def test_acks_one_by_one_end_the_lease_with_the_last(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(4))
    messages = await api.pop(queue, batch=3)
    released = [(await api.ack(message))[0]["leaseReleased"] for message in messages]
    assert released == [False, False, True]
    assert await api.data(queue) == [3]


async def test_acks_that_arrive_out_of_order_lose_nothing(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(4))
    messages = await api.pop(queue, batch=3)
    for n in (1, 0, 2):
        (result,) = await api.ack(messages[n])
        assert result["success"]
    assert await api.data(queue) == [3]


async def test_a_partly_acked_batch_is_redelivered_from_the_cursor(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1)
    await api.push(queue, *range(4))
    messages = await api.pop(queue, batch=4)
    await api.ack(messages[0], messages[1], lease=False)
    assert [one["data"] for one in await next_of(api, queue, batch=4)] == [2, 3]


async def test_a_repeated_ack_succeeds_after_the_lease_has_ended(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    messages = await api.pop(queue, batch=2)
    await api.ack(*messages)
    results = await api.ack(*messages)
    assert [result["success"] for result in results] == [True, True]
    assert await api.pop(queue) == []


async def test_a_late_ack_never_moves_a_cursor_back(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(5))
    messages = await api.pop(queue, batch=4)
    await api.ack(*messages)
    for message in messages:
        (result,) = await api.ack(message, lease=False)
        assert result["success"] is True
    assert await api.data(queue, batch=10) == [4]


async def test_a_late_failure_does_not_bring_a_passed_message_back(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    (message,) = await api.pop(queue)
    await api.ack(message)
    for status in ("failed", "retry", "dlq"):
        (result,) = await api.ack(message, status=status, lease=False)
        assert result["success"] is False and result["error"]
    assert await api.data(queue, batch=10) == [2]
    assert await api.dead_letters(queue) == []


async def test_a_lease_that_was_taken_over_is_refused_and_changes_nothing(api: Api) -> None:
    queues = {status: unique() for status in ("completed", "failed", "dlq", "retry")}
    stale = {}
    for status, queue in queues.items():
        await api.configure(queue, leaseTime=1, retryLimit=5)
        await api.push(queue, 1, 2)
        (stale[status],) = await api.pop(queue)
        await api.configure(queue, leaseTime=60, retryLimit=5)
    for status, queue in queues.items():
        (live,) = await next_of(api, queue)
        assert live["id"] == stale[status]["id"]
        (result,) = await api.ack(stale[status], status=status)
        assert (result["success"], result["error"]) == (False, "Invalid or expired lease")
        assert await api.dead_letters(queue) == []
        (result,) = await api.ack(live)
        assert result["success"] is True


async def test_a_lease_that_ran_out_is_refused_although_nobody_took_over(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1)
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    await let_lease_run_out(api)
    (result,) = await api.ack(message)
    assert (result["success"], result["error"]) == (False, "Invalid or expired lease")
    assert await api.data(queue) == [1]


@pytest.mark.parametrize(
    "lease", [str(uuid.uuid4()), "not-a-uuid", "0"], ids=["other", "text", "0"]
)
async def test_a_lease_id_that_is_not_the_live_one_is_refused(api: Api, lease: str) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    (result,) = await settle(api, {**ack_of(message), "leaseId": lease})
    assert (result["success"], result["error"]) == (False, "Invalid or expired lease")
    assert (await api.ack(message))[0]["success"]


@pytest.mark.parametrize("lease", [{}, {"leaseId": None}, {"leaseId": ""}])
async def test_an_ack_without_a_lease_id_skips_the_lease_check(
    api: Api, lease: dict[str, Any]
) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    (message,) = await api.pop(queue)
    ack = {name: message[name] for name in ("transactionId", "partitionId")}
    (result,) = await settle(api, {**ack, **lease})
    assert result["success"] and result["leaseReleased"]
    assert await api.data(queue) == [2]


async def test_an_unknown_message_is_not_found_and_spoils_no_other(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    nobody = {**ack_of(message), "transactionId": "nobody"}
    nowhere = {**ack_of(message), "partitionId": str(uuid.uuid4())}
    results = await settle(api, nobody, ack_of(message), nowhere)
    assert [result["success"] for result in results] == [False, True, False]
    assert [result["error"] for result in results] == [
        "Message not found",
        None,
        "Message not found",
    ]


@pytest.mark.parametrize("group", [{}, {"consumerGroup": None}, {"consumerGroup": ""}])
@pytest.mark.parametrize("route", ["/api/v1/ack", "/api/v1/ack/batch"])
async def test_no_group_means_the_default_group(
    api: Api, route: str, group: dict[str, Any]
) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    (message,) = await api.pop(queue)
    ack = ack_of(message)
    body = {"acknowledgments": [ack]} if route.endswith("batch") else ack
    response = await api.http.post(route, json={**body, **group})
    assert response.json()[0]["success"] is True
    assert await api.data(queue) == [2]


async def test_an_ack_counts_for_its_group_only(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    (mine,) = await api.pop(queue, consumerGroup="a")
    (theirs,) = await api.pop(queue, consumerGroup="b")
    (wrong,) = await api.ack(mine, group="b")
    assert wrong["error"] == "Invalid or expired lease"
    assert (await api.ack(mine, group="a"))[0]["success"]
    assert (await api.ack(theirs, group="b", status="failed"))[0]["success"]
    assert await drain(api, queue, consumerGroup="a") == []
    assert await drain(api, queue, consumerGroup="b") == [1]


async def test_one_batch_settles_messages_of_several_partitions(api: Api) -> None:
    queue = unique()
    await api.push_items(
        [{"queue": queue, "partition": p, "payload": n} for p in "abc" for n in range(3)]
    )
    messages = await api.pop(queue, batch=9, partitions=3)
    results = await api.ack(*messages)
    assert all(result["success"] and result["leaseReleased"] for result in results)
    assert await api.pop(queue) == []
