"""GET /api/v1/why: one answer to "why is this not moving?"."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.conformance.shorthand import SOON_MS, drain
from tests.support.broker import SOON_S, Api, unique
from tests.support.waiting import wait_until_async


async def why(api: Api, queue: str, **query: Any) -> Any:
    response = await api.http.get(f"/api/v1/why/{queue}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def codes(api: Api, queue: str, **query: Any) -> list[str]:
    return [one["code"] for one in (await why(api, queue, **query))["findings"]]


async def test_answer_has_the_documented_fields(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2, 3, partition="p", transactionId=None)
    (message,) = await api.pop(queue)
    found = await why(api, queue, partition="p")
    assert set(found) == {
        "queue", "partition", "consumerGroup", "summary", "findings", "backlog", "oldestMessage",
        "partitionCounts", "partitions", "operations", "broker", "groups", "timestamp",
    }  # fmt: skip
    assert (found["queue"], found["partition"]) == (queue, "p")
    assert (found["consumerGroup"], found["groups"]) == ("__QUEUE_MODE__", ["__QUEUE_MODE__"])
    (one,) = found["findings"]
    assert set(one) == {"code", "message", "action", "partitions"}
    assert (one["code"], one["partitions"]) == ("leased", ["p"])
    assert message["leaseId"] in one["message"] == found["summary"]
    assert found["backlog"] == 3
    assert found["partitionCounts"] == {
        "all": 1, "behind": 1, "ready": 0, "leased": 1, "waiting": 0, "blocked": 0,
    }  # fmt: skip
    (place,) = found["partitions"]
    assert set(place) == {
        "partition", "partitionId", "state", "backlog", "nextTransactionId", "oldestMessage",
        "leaseId", "leaseExpiresAt", "leasedMessages", "retryCount", "retryAt", "lastError",
        "expiredLeases", "blockedTransactionId", "lastConsumedAt",
    }  # fmt: skip
    assert (place["state"], place["leaseId"]) == ("leased", message["leaseId"])
    assert (place["leasedMessages"], place["nextTransactionId"]) == (1, message["transactionId"])
    assert place["oldestMessage"] == found["oldestMessage"] == f"{message['createdAt'][:23]}Z"
    assert found["operations"] == {"pending": 0, "processing": 0, "failed": 0}
    assert set(found["broker"]) == {
        "waitingPops", "bufferedPushes", "maintenanceMode", "popMaintenanceMode",
    }  # fmt: skip


async def test_messages_without_consumers_are_ready(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    assert await codes(api, queue) == ["ready", "group_unknown", "no_consumer_waiting"]
    await drain(api, queue)
    assert await codes(api, queue) == ["no_backlog"]


async def test_delay_window_and_retry_are_told(api: Api) -> None:
    for options, code in (
        ({"delayedProcessing": 600}, "delayed_processing"),
        ({"windowBuffer": 600}, "window_buffer"),
    ):
        queue = unique()
        await api.configure(queue, **options)
        await api.push(queue, 1)
        assert (await codes(api, queue))[0] == code
    queue = unique()
    await api.configure(queue, retryDelay=600_000)
    await api.push(queue, 1)
    await api.ack(*await api.pop(queue), status="failed")
    found = await why(api, queue)
    assert found["findings"][0]["code"] == "retry_delayed"
    assert (found["partitions"][0]["retryCount"], found["partitions"][0]["state"]) == (1, "waiting")


async def test_last_error_is_told_until_the_message_has_passed(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2, 3)
    await api.ack(*await api.pop(queue), status="failed", error="first")
    (message,) = await api.pop(queue)
    await api.ack(message, status="failed", error="disk full" + 2_000 * "!")
    found = await why(api, queue)
    assert found["partitions"][0]["lastError"] == "disk full" + 991 * "!"
    assert "the last try failed: disk full!" in found["summary"]
    again, _ = await api.pop(queue, batch=2)
    assert (await why(api, queue))["partitions"][0]["lastError"].startswith("disk full")
    await api.ack(again)
    assert (await why(api, queue))["partitions"][0]["lastError"] is None


async def test_groups_have_their_own_reasons(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    await api.pop(queue, consumerGroup="held")
    await api.pop(queue, consumerGroup="done", autoAck=True)
    assert await codes(api, queue, consumerGroup="held") == ["leased"]
    assert await codes(api, queue, consumerGroup="done") == ["no_backlog"]
    assert "group_unknown" in await codes(api, queue, consumerGroup="unknown")
    assert (await why(api, queue))["consumerGroup"] == "held", "the one with most before it"
    await api.pop(queue)
    assert (await why(api, queue))["consumerGroup"] == "__QUEUE_MODE__"


async def test_waiting_pops_of_this_broker_are_counted(api: Api) -> None:
    namespace = unique("n")
    queue = f"{namespace}.t"
    await api.configure(queue, namespace=namespace, task="t")
    by_name = asyncio.create_task(api.pop(queue, wait=True, timeout=SOON_MS))
    scope = {"namespace": namespace, "wait": "true", "timeout": str(SOON_MS)}
    by_space = asyncio.create_task(api.http.get("/api/v1/pop", params=scope))

    async def both_wait() -> bool:
        return bool((await why(api, queue))["broker"]["waitingPops"] == 2)

    await wait_until_async(both_wait, timeout_s=SOON_S, what="two parked pops")
    assert "consumers_waiting" in await codes(api, queue)
    assert (await why(api, queue, consumerGroup="g"))["broker"]["waitingPops"] == 0
    await api.push(queue, 1)
    await api.push(queue, 2, partition="p")
    await asyncio.gather(by_name, by_space)


async def test_last_dead_letter_is_told_with_its_error(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, transactionId="x")
    await api.ack(*await api.pop(queue), status="dlq", error="boom")
    finding = (await why(api, queue))["findings"][-1]
    assert finding["code"] == "last_dead_letter"
    assert "boom" in finding["message"] and "'x'" in finding["message"]


async def test_full_queue_is_told(api: Api) -> None:
    queue = unique()
    await api.configure(queue, maxSize=2)
    await api.push(queue, 1, 2)
    assert "queue_full" in await codes(api, queue)


async def test_group_with_a_later_start_is_told_when_it_starts(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    response = await api.http.get(
        f"/api/v1/pop/queue/{queue}/partition/other",
        params={"consumerGroup": "g", "subscriptionFrom": "2999-01-01T00:00:00Z"},
    )
    assert response.status_code == 204
    await api.push(queue, 2, partition="other")
    assert "starts_later" in await codes(api, queue, partition="other", consumerGroup="g")


async def test_unknown_queue_and_partition_are_not_found(api: Api) -> None:
    queue = unique()
    response = await api.http.get(f"/api/v1/why/{queue}")
    assert (response.status_code, queue in response.json()["error"]) == (404, True)
    await api.push(queue, 1)
    response = await api.http.get(f"/api/v1/why/{queue}", params={"partition": "nowhere"})
    assert (response.status_code, "nowhere" in response.json()["error"]) == (404, True)
