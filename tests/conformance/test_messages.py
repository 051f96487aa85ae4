"""Single messages: listed, shown, deleted, dead-lettered and pushed again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.conformance.shorthand import SOON_MS, drain
from tests.support.broker import Api, unique

MESSAGES = "/api/v1/messages"
FIELDS = {
    "id", "transactionId", "partitionId", "queuePath", "queue", "partition", "namespace", "task",
    "status", "queueStatus", "busStatus", "traceId", "producerSub", "queuePriority", "createdAt",
    "leaseExpiresAt", "seq",
}  # fmt: skip


async def list_of(api: Api, **query: Any) -> Any:
    response = await api.http.get(MESSAGES, params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def ids_of(api: Api, **query: Any) -> list[str]:
    return [one["transactionId"] for one in (await list_of(api, **query))["messages"]]


def path_of(message: dict[str, Any], end: str = "") -> str:
    return f"{MESSAGES}/{message['partitionId']}/{message['transactionId']}{end}"


async def push_named(api: Api, queue: str, *names: str, partition: str = "p") -> None:
    """One push per message; its payload is its transaction id."""
    for name in names:
        await api.push(queue, name, partition=partition, transactionId=name)


async def act(api: Api, message: dict[str, Any], end: str, status: int = 200, **body: Any) -> Any:
    response = await api.http.post(path_of(message, end), json=body or None)
    assert response.status_code == status, response.text
    return response.json()


async def test_list_has_the_documented_fields(api: Api) -> None:
    queue, trace_id = unique(), "8f9e8d8c-0000-4000-8000-000000000001"
    await api.configure(queue, namespace="n", task="t", priority=5)
    await api.push(queue, {"a": 1}, partition="p", transactionId="x", traceId=trace_id)
    answer = await list_of(api, queue=queue)
    assert answer["mode"] == {"hasQueueMode": False, "busGroupsCount": 0, "type": "none"}
    assert (answer["pagination"], answer["isCut"]) == ({"limit": 200, "offset": 0}, False)
    (one,) = answer["messages"]
    assert set(one) == FIELDS
    assert (one["queuePath"], one["queue"], one["partition"]) == (f"{queue}/p", queue, "p")
    assert (one["namespace"], one["task"], one["queuePriority"]) == ("n", "t", 5)
    assert (one["transactionId"], one["traceId"]) == ("x", trace_id)
    assert (one["status"], one["queueStatus"]) == ("pending", None)
    assert one["busStatus"] == {"consumedBy": 0, "totalGroups": 0}
    assert one["leaseExpiresAt"] is None and one["createdAt"].endswith("Z")


async def test_status_follows_the_default_group_where_it_has_a_cursor(api: Api) -> None:
    queue = unique()
    await push_named(api, queue, "done", "held", "dead", "left")
    await api.pop(queue, autoAck=True)
    (held,) = await api.pop(queue)
    shown = {one["transactionId"]: one for one in (await list_of(api, queue=queue))["messages"]}
    assert [shown[name]["status"] for name in ("done", "held", "left")] == [
        "completed", "processing", "pending"
    ]  # fmt: skip
    assert shown["held"]["leaseExpiresAt"] is not None
    assert shown["left"]["leaseExpiresAt"] is None
    await api.ack(held)
    await api.ack(*await api.pop(queue), status="dlq")
    shown = {one["transactionId"]: one for one in (await list_of(api, queue=queue))["messages"]}
    assert (shown["dead"]["status"], shown["dead"]["queueStatus"]) == ("dead_letter", "completed")
    mode = (await list_of(api, queue=queue))["mode"]
    assert mode == {"hasQueueMode": True, "busGroupsCount": 0, "type": "queue"}


async def test_message_is_completed_when_all_named_groups_have_passed_it(api: Api) -> None:
    queue = unique()
    await push_named(api, queue, "x")
    await api.pop(queue, consumerGroup="fast", autoAck=True)
    await api.pop(queue, consumerGroup="slow")
    answer = await list_of(api, queue=queue)
    (one,) = answer["messages"]
    assert answer["mode"] == {"hasQueueMode": False, "busGroupsCount": 2, "type": "bus"}
    assert (one["status"], one["busStatus"]) == ("processing", {"consumedBy": 1, "totalGroups": 2})
    await api.http.post(f"/api/v1/consumer-groups/slow/queues/{queue}/seek", json={"toEnd": True})
    (one,) = (await list_of(api, queue=queue))["messages"]
    assert (one["status"], one["busStatus"]) == ("completed", {"consumedBy": 2, "totalGroups": 2})
    await api.pop(queue)
    assert (await list_of(api, queue=queue))["mode"]["type"] == "hybrid"


async def test_newest_come_first_and_pages_cover_all_once(api: Api) -> None:
    queue, names = unique(), [f"m{n}" for n in range(7)]
    for n, name in enumerate(names):
        await push_named(api, queue, name, partition=f"p{n % 2}")
    newest_first = names[::-1]
    assert await ids_of(api, queue=queue) == newest_first
    pages = [await ids_of(api, queue=queue, limit=3, offset=offset) for offset in (0, 3, 6, 9)]
    assert pages == [newest_first[:3], newest_first[3:6], newest_first[6:], []]
    in_one = [name for n, name in enumerate(names) if n % 2 == 0][::-1]
    assert await ids_of(api, queue=queue, partition="p0") == in_one
    pages = [await ids_of(api, queue=queue, partition="p0", limit=2, offset=n) for n in (0, 2, 4)]
    assert pages == [in_one[:2], in_one[2:], []]


async def test_items_of_one_push_are_listed_from_the_last_to_the_first(api: Api) -> None:
    queue = unique()
    items = [{"queue": queue, "payload": n, "transactionId": f"m{n}"} for n in range(5)]
    await api.push_items(items)
    assert await ids_of(api, queue=queue) == ["m4", "m3", "m2", "m1", "m0"]


@pytest.mark.parametrize("place", [{}, {"partition": "p"}])
async def test_status_filters_before_the_page_is_cut(api: Api, place: dict[str, str]) -> None:
    queue = unique()
    await push_named(api, queue, *(f"m{n}" for n in range(6)))
    await api.pop(queue, batch=2, autoAck=True)
    await api.pop(queue, batch=1)
    where = {"queue": queue, **place}
    assert await ids_of(api, **where, status="completed") == ["m1", "m0"]
    assert await ids_of(api, **where, status="processing") == ["m2"]
    assert await ids_of(api, **where, status="pending", limit=2) == ["m5", "m4"]
    assert await ids_of(api, **where, status="pending", limit=2, offset=2) == ["m3"]
    assert await ids_of(api, **where, status="dead_letter") == []


@pytest.mark.parametrize("place", [{}, {"partition": "p"}])
async def test_times_bound_the_list(api: Api, place: dict[str, str]) -> None:
    queue = unique()
    await push_named(api, queue, "m0", "m1")
    where = {"queue": queue, **place}
    newest, _ = (await list_of(api, **where))["messages"]
    assert await ids_of(api, **where, **{"from": "2001-01-01", "to": "2999-01-01"}) == ["m1", "m0"]
    assert await ids_of(api, **where, **{"from": "2001-01-01", "to": "2002-01-01"}) == []
    assert await ids_of(api, **where, **{"from": "2998-01-01", "to": "2999-01-01"}) == []
    assert newest["transactionId"] == "m1"


async def test_list_spans_the_queues_of_a_namespace_and_task(api: Api) -> None:
    space, task = unique("space"), unique("task")
    for name, which in (("a", task), ("b", task), ("c", "other")):
        await push_named(api, f"{space}.{which}.{name}", name)
    assert await ids_of(api, ns=space) == ["c", "b", "a"]
    assert await ids_of(api, ns=space, task=task) == ["b", "a"]
    assert await ids_of(api, task=task, limit=1, offset=1) == ["a"]
    assert (await ids_of(api))[:3] == ["c", "b", "a"]


async def test_unknown_queue_has_no_messages(api: Api) -> None:
    assert await ids_of(api, queue=unique()) == []
    assert await ids_of(api, queue=unique(), partition="p") == []


async def test_message_is_shown_with_payload_options_and_groups(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=30, retryLimit=2, retryDelay=600_000, ttl=7, priority=1)
    await api.push(queue, {"a": "ü"}, partition="p", transactionId="with/slash and ü")
    (message,) = await api.pop(queue, consumerGroup="g")
    await api.pop(queue, consumerGroup="h", autoAck=True)
    response = await api.http.get(path_of(message))
    assert response.status_code == 200, response.text
    found = response.json()
    assert set(found) == FIELDS | {
        "payload", "isEncrypted", "decryptionError", "errorMessage", "retryCount", "queueConfig",
        "mode", "consumerGroups",
    }  # fmt: skip
    assert (found["payload"], found["isEncrypted"]) == ({"a": "ü"}, False)
    assert (found["errorMessage"], found["retryCount"]) == (None, 0)
    assert found["queueConfig"] == {
        "leaseTime": 30, "retryLimit": 2, "retryDelay": 600_000, "ttl": 7, "priority": 1,
    }  # fmt: skip
    assert found["mode"] == {
        "hasQueueMode": False, "busGroupsCount": 2, "type": "bus", "consumedByGroups": ["h"],
    }  # fmt: skip
    first, second = found["consumerGroups"]
    assert (first["name"], first["consumed"]) == ("g", False)
    assert first["leaseExpiresAt"] == found["leaseExpiresAt"] is not None
    assert second == {"name": "h", "consumed": True, "leaseExpiresAt": None}
    await api.ack(message, status="failed", group="g")
    assert (await api.http.get(path_of(message))).json()["retryCount"] == 1


async def test_dead_message_is_shown_with_its_error(api: Api) -> None:
    queue = unique()
    await push_named(api, queue, "x")
    (message,) = await api.pop(queue)
    await api.ack(message, status="dlq", error="boom")
    found = (await api.http.get(path_of(message))).json()
    assert (found["status"], found["errorMessage"]) == ("dead_letter", "boom")


@pytest.mark.parametrize(
    ("method", "end"), [("GET", ""), ("DELETE", ""), ("POST", "/retry"), ("POST", "/dlq")]
)
async def test_unknown_message_is_not_found(api: Api, method: str, end: str) -> None:
    queue = unique()
    await push_named(api, queue, "x")
    (message,) = (await list_of(api, queue=queue))["messages"]
    unknown = {**message, "transactionId": "y"}
    response = await api.http.request(method, path_of(unknown, end))
    assert response.status_code == 404
    assert response.json()["error"].startswith("Message not found")
    elsewhere = {**message, "partitionId": "8f9e8d8c-0000-4000-8000-000000000001"}
    assert (await api.http.request(method, path_of(elsewhere, end))).status_code == 404


async def test_deleted_message_is_gone_with_its_dead_letters_and_traces(api: Api) -> None:
    queue = unique()
    await push_named(api, queue, "x", "y")
    (message,) = await api.pop(queue)
    await api.ack(message, status="dlq")
    trace = {name: message[name] for name in ("transactionId", "partitionId")}
    assert (await api.http.post("/api/v1/traces", json={**trace, "data": 1})).status_code == 201
    response = await api.http.delete(path_of(message))
    assert response.status_code == 200
    assert response.json() == {
        "success": True, "partitionId": message["partitionId"], "transactionId": "x",
        "message": "the message is deleted",
    }  # fmt: skip
    assert (await api.http.delete(path_of(message))).status_code == 404
    assert await api.dead_letters(queue) == []
    traces = await api.http.get(f"/api/v1/traces/{message['partitionId']}/x")
    assert traces.json() == {"traces": []}
    assert await ids_of(api, queue=queue) == ["y"]
    assert await drain(api, queue) == ["y"]


async def test_partition_that_waited_for_a_deleted_message_goes_on_at_once(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryDelay=600_000)
    await push_named(api, queue, "bad", "good")
    (bad,) = await api.pop(queue)
    await api.ack(bad, status="failed")
    parked = asyncio.create_task(api.data(queue, wait=True, timeout=SOON_MS))
    await api.http.delete(path_of(bad))
    assert await parked == ["good"]


async def test_retries_are_told_of_the_message_behind_a_deleted_one(api: Api) -> None:
    queue = unique()
    await push_named(api, queue, "gone", "tried", "fresh")
    gone, tried, _ = await api.pop(queue, batch=3)
    await api.http.delete(path_of(gone))
    await api.ack(tried, status="failed")
    assert [(one["data"], one["retryCount"]) for one in await api.pop(queue, batch=3)] == [
        ("tried", 1),
        ("fresh", 0),
    ]


async def test_message_moved_to_the_dead_letters_leaves_its_partition(api: Api) -> None:
    queue = unique()
    await push_named(api, queue, "x", "y")
    message = (await list_of(api, queue=queue))["messages"][1]
    answer = await act(api, message, "/dlq")
    assert answer == {
        "success": True, "partitionId": message["partitionId"], "transactionId": "x",
        "message": "the message is a dead letter now", "consumerGroups": ["__QUEUE_MODE__"],
    }  # fmt: skip
    (letter,) = await api.dead_letters(queue)
    assert (letter["transactionId"], letter["data"]) == ("x", "x")
    assert letter["errorMessage"] == "Moved to the dead letters by an operator"
    found = (await api.http.get(path_of(message))).json()
    assert (found["status"], found["payload"]) == ("dead_letter", "x")
    assert await drain(api, queue) == ["y"]


async def test_reason_of_a_move_is_kept(api: Api) -> None:
    queue = unique()
    await push_named(api, queue, "x")
    (message,) = (await list_of(api, queue=queue))["messages"]
    await act(api, message, "/dlq", error="by hand")
    (letter,) = await api.dead_letters(queue)
    assert letter["errorMessage"] == "by hand"


async def test_consumed_message_cannot_be_moved(api: Api) -> None:
    queue = unique()
    await push_named(api, queue, "x")
    (message,) = await api.pop(queue, autoAck=True)
    answer = await act(api, message, "/dlq", 409)
    assert "passed by every consumer group" in answer["error"]
    assert await api.dead_letters(queue) == []


async def test_retried_message_comes_again_at_the_end_of_its_partition(api: Api) -> None:
    queue = unique()
    await push_named(api, queue, "x", "y")
    (message,) = await api.pop(queue)
    await api.ack(message, status="dlq")
    parked = asyncio.create_task(api.pop(queue, consumerGroup="g", batch=9))
    assert [one["data"] for one in await parked] == ["x", "y"]
    answer = await act(api, message, "/retry")
    assert set(answer) == {
        "success", "partitionId", "transactionId", "message", "newMessageId", "newTransactionId",
        "operationId",
    }  # fmt: skip
    assert (answer["success"], answer["transactionId"]) == (True, "x")
    assert answer["newTransactionId"] == answer["newMessageId"] is not None
    assert await api.dead_letters(queue) == []
    got = await api.pop(queue, batch=9)
    assert [one["data"] for one in got] == ["y", "x"]
    assert got[1]["id"] == answer["newMessageId"]


async def test_retry_of_what_is_not_dead_is_a_conflict(api: Api) -> None:
    queue = unique()
    await push_named(api, queue, "x")
    (message,) = (await list_of(api, queue=queue))["messages"]
    assert "not a dead letter" in (await act(api, message, "/retry", 409))["error"]


async def test_retry_into_a_full_queue_keeps_the_dead_letter(api: Api) -> None:
    queue = unique()
    await push_named(api, queue, "x", "y")
    message = (await list_of(api, queue=queue))["messages"][1]
    await act(api, message, "/dlq")
    await api.configure(queue, maxSize=1)
    assert "full" in (await act(api, message, "/retry", 409))["error"]
    assert len(await api.dead_letters(queue)) == 1


async def test_waiting_consumer_gets_a_retried_message_at_once(api: Api) -> None:
    queue = unique()
    await push_named(api, queue, "x")
    (message,) = await api.pop(queue)
    await api.ack(message, status="dlq")
    parked = asyncio.create_task(api.data(queue, wait=True, timeout=SOON_MS))
    await act(api, message, "/retry")
    assert await parked == ["x"]
