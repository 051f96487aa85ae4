"""Queues: configure, delete and clear."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from tests.conformance.shorthand import SOON_MS, drain
from tests.support.broker import Api, unique

DEFAULTS = {
    "leaseTime": 300,
    "retryLimit": 3,
    "priority": 0,
    "maxSize": 0,
    "ttl": 3600,
    "deadLetterQueue": False,
    "dlqAfterMaxRetries": False,
    "delayedProcessing": 0,
    "windowBuffer": 0,
    "retentionSeconds": 0,
    "completedRetentionSeconds": 0,
    "retentionEnabled": False,
    "encryptionEnabled": False,
    "maxWaitTimeSeconds": 0,
    "archiveBeforeDelete": False,
    "partitionIdleSeconds": 2_592_000,
}


async def test_configure_echoes_every_option(api: Api) -> None:
    queue = unique()
    answer = await api.configure(queue, namespace="n", task="t", leaseTime=7, priority=-2)
    assert answer["configured"] is True
    assert (answer["queue"], answer["namespace"], answer["task"]) == (queue, "n", "t")
    for name in ("queueId", "partitionId"):
        assert str(uuid.UUID(answer[name])) == answer[name]
    assert "retryDelay" in answer["options"]
    expected = {**DEFAULTS, "leaseTime": 7, "priority": -2}
    assert expected.items() <= answer["options"].items()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"options": None},
        {"options": {}},
        {"namespace": None, "task": None, "options": {"x": 1}},
    ],
    ids=["bare", "null", "empty", "unknown-option"],
)
async def test_options_may_be_left_out(api: Api, body: dict[str, Any]) -> None:
    response = await api.http.post("/api/v1/configure", json={"queue": unique(), **body})
    assert response.status_code == 200, response.text
    answer = response.json()
    assert (answer["namespace"], answer["task"]) == ("", "")
    assert DEFAULTS.items() <= answer["options"].items()


@pytest.mark.parametrize(
    ("body", "ignored"),
    [
        ({"options": {"leaseTime": 5}}, []),
        ({"options": {"leasetime": 5, "leaseTime": 6}}, ["options.leasetime"]),
        ({"leaseTime": 5, "options": None}, ["leaseTime"]),
        ({"a": 1, "options": {"b": {"c": [1]}, "": 2}}, ["a", "options.b", "options."]),
    ],
    ids=["known", "misspelt", "outside-of-options", "several"],
)
async def test_names_that_mean_nothing_are_ignored_and_listed(
    api: Api, body: dict[str, Any], ignored: list[str]
) -> None:
    response = await api.http.post("/api/v1/configure", json={"queue": unique(), **body})
    assert response.status_code == 200, response.text
    assert response.json()["ignored"] == ignored


async def test_omitted_options_fall_back_to_their_defaults(api: Api) -> None:
    queue = unique()
    first = await api.configure(queue, leaseTime=7, retryLimit=9, maxSize=5)
    second = await api.configure(queue, retryLimit=1)
    assert second["queueId"] == first["queueId"]
    assert second["partitionId"] == first["partitionId"]
    assert {**DEFAULTS, "retryLimit": 1}.items() <= second["options"].items()


async def test_configure_creates_the_default_partition(api: Api) -> None:
    queue = unique()
    configured = await api.configure(queue)
    (pushed,) = await api.push(queue, 1)
    assert pushed["partition_id"] == configured["partitionId"]


async def test_reconfiguring_keeps_messages_cursors_and_leases(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2, 3)
    assert await api.data(queue, autoAck=True) == [1]
    (message,) = await api.pop(queue)
    await api.configure(queue, leaseTime=10)
    assert await api.pop(queue) == []
    assert (await api.ack(message))[0]["success"]
    assert await drain(api, queue) == [3]


async def test_delete_removes_the_queue_and_says_whether_it_was_there(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    for existed in (True, False):
        response = await api.http.delete(f"/api/v1/resources/queues/{queue}")
        assert response.status_code == 200
        assert response.json() == {"deleted": True, "queue": queue, "existed": existed}
    assert await api.pop(queue) == []
    assert await api.pop(queue, partition="Default") == []


async def test_a_deleted_queue_starts_anew_with_default_options(api: Api) -> None:
    queue = unique()
    await api.configure(queue, maxSize=1)
    (old,) = await api.push(queue, 1, transactionId="same")
    await api.ack(*await api.pop(queue, consumerGroup="g"), status="dlq", group="g")
    await api.http.delete(f"/api/v1/resources/queues/{queue}")
    answers = await api.push_items(
        [{"queue": queue, "payload": n, "transactionId": t} for n, t in enumerate(("same", "b"))]
    )
    assert [answer["status"] for answer in answers] == ["queued", "queued"]
    assert answers[0]["partition_id"] != old["partition_id"]
    assert await api.dead_letters(queue) == []
    assert await drain(api, queue, consumerGroup="g") == [0, 1]


async def test_acks_and_extends_of_a_deleted_queue_are_refused(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    await api.http.delete(f"/api/v1/resources/queues/{queue}")
    (result,) = await api.ack(message)
    assert result["success"] is False
    response = await api.http.post(f"/api/v1/lease/{message['leaseId']}/extend")
    assert response.status_code == 404


async def test_a_waiting_pop_outlives_the_deletion_of_its_queue(api: Api) -> None:
    queue = unique()
    await api.configure(queue)
    waiting = [
        asyncio.create_task(api.data(queue, wait=True, timeout=SOON_MS, consumerGroup="a")),
        asyncio.create_task(
            api.data(queue, partition="Default", wait=True, timeout=SOON_MS, consumerGroup="b")
        ),
    ]
    assert await api.pop(queue, consumerGroup="a") == []
    await api.http.delete(f"/api/v1/resources/queues/{queue}")
    await api.push(queue, 1)
    assert await asyncio.gather(*waiting) == [[1], [1]]


async def test_pushes_that_race_with_deletions_are_answered_and_kept_or_gone_as_a_whole(
    api: Api,
) -> None:
    queue = unique()
    pushes = [api.push(queue, n, n) for n in range(20)]
    deletions = [api.http.delete(f"/api/v1/resources/queues/{queue}") for _ in range(5)]
    answers = await asyncio.gather(*pushes, *deletions)
    assert all(one["status"] == "queued" for answer in answers[:20] for one in answer)
    found = await drain(api, queue)
    assert found[::2] == found[1::2]


async def test_clear_drops_all_messages_and_keeps_the_queue(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryLimit=0)
    await api.push_items([{"queue": queue, "partition": p, "payload": p} for p in "abc"])
    await api.ack(*await api.pop(queue, partition="a"), status="failed")
    response = await api.http.delete(f"/api/v1/queues/{queue}/clear")
    assert response.status_code == 200
    assert response.json() == {
        "success": True,
        "queue": queue,
        "partition": None,
        "messagesDeleted": 3,
    }
    assert await drain(api, queue) == []
    assert await drain(api, queue, consumerGroup="other") == []
    assert await api.dead_letters(queue) == []
    await api.push(queue, "later", partition="a")
    await api.ack(*await api.pop(queue), status="failed")
    assert [letter["data"] for letter in await api.dead_letters(queue)] == ["later"]


async def test_clear_of_one_partition_leaves_the_others(api: Api) -> None:
    queue = unique()
    await api.push_items([{"queue": queue, "partition": p, "payload": p} for p in "abc"])
    response = await api.http.delete(f"/api/v1/queues/{queue}/clear", params={"partition": "b"})
    assert response.json()["messagesDeleted"] == 1
    assert sorted(await drain(api, queue)) == ["a", "c"]


async def test_clear_ends_leases_and_frees_the_partition(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    await api.http.delete(f"/api/v1/queues/{queue}/clear")
    (result,) = await api.ack(message)
    assert result["success"] is False
    await api.push(queue, 2)
    assert await api.data(queue) == [2]


async def test_a_cleared_transaction_id_may_be_pushed_again(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, transactionId="same")
    await api.http.delete(f"/api/v1/queues/{queue}/clear")
    (again,) = await api.push(queue, 2, transactionId="same")
    assert again["status"] == "queued"
    assert await drain(api, queue) == [2]


@pytest.mark.parametrize("query", [{}, {"partition": "b"}], ids=["queue", "partition"])
async def test_clear_of_what_does_not_exist_is_not_found(api: Api, query: dict[str, str]) -> None:
    queue = unique()
    if query:
        await api.push(queue, 1)
    response = await api.http.delete(f"/api/v1/queues/{queue}/clear", params=query)
    assert response.status_code == 404
    assert queue in response.json()["error"]
