"""Lists of queues, namespaces and tasks with their counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tests.conformance.shorthand import drain
from tests.support.broker import Api, unique

RESOURCES = "/api/v1/resources"


async def get(api: Api, path: str, **query: Any) -> Any:
    response = await api.http.get(f"{RESOURCES}/{path}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def test_queue_shows_its_partitions_with_their_counts(api: Api) -> None:
    queue = unique()
    ids = await api.configure(queue, namespace="n", task="t", retryDelay=600_000)
    await api.push(queue, *range(6), partition="p")
    first = await api.pop(queue, partition="p", batch=4)
    await api.ack(first[0], first[1])
    await api.ack(first[2], status="dlq")
    found = await get(api, f"queues/{queue}")
    assert (found["id"], found["name"]) == (ids["queueId"], queue)
    assert (found["namespace"], found["task"]) == ("n", "t")
    assert found["options"] == ids["options"] and found["options"]["retryDelay"] == 600_000
    default, place = found["partitions"]
    nothing = {name: 0 for name in default["stats"]}
    counts = {**nothing, "total": 6, "pending": 2, "processing": 1, "completed": 3, "deadLetter": 1}
    assert set(nothing) == {"total", "pending", "processing", "completed", "failed", "deadLetter"}
    assert (default["name"], default["stats"]) == ("Default", nothing)
    assert default["id"] == ids["partitionId"]
    assert (default["oldestMessage"], default["newestMessage"]) == (None, None)
    assert (place["name"], place["stats"]) == ("p", counts)
    assert place["oldestMessage"] == f"{first[0]['createdAt'][:23]}Z"
    assert found["totals"] == counts
    for time in (found["createdAt"], place["createdAt"], place["newestMessage"]):
        assert time.endswith("Z")
    await api.ack(first[3], status="failed")
    assert (await get(api, f"queues/{queue}"))["totals"] == {
        **counts, "pending": 3, "processing": 0, "failed": 1
    }  # fmt: skip


async def test_what_the_slowest_group_has_not_passed_is_pending(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2, 3)
    assert (await get(api, f"queues/{queue}"))["totals"]["pending"] == 3
    await drain(api, queue, consumerGroup="fast")
    await api.pop(queue, consumerGroup="slow", autoAck=True)
    totals = (await get(api, f"queues/{queue}"))["totals"]
    assert (totals["pending"], totals["completed"]) == (2, 1)
    short = await get(api, f"queues/{queue}", partitions="false")
    assert (short["totals"], short["partitions"]) == (totals, [])


async def test_cleared_queue_holds_nothing(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    await api.http.delete(f"/api/v1/queues/{queue}/clear")
    found = await get(api, f"queues/{queue}")
    assert set(found["totals"].values()) == {0}
    assert found["partitions"][0]["newestMessage"] is None


async def test_queues_are_listed_newest_first(api: Api) -> None:
    word = unique("word")
    older, newer = f"{word}-older", f"{word}-NEWER"
    await api.push(older, 1, 2)
    await api.push(older, 3, partition="p")
    await api.push(newer, 1)
    await api.pop(newer)
    everything = (await get(api, "queues"))["queues"]
    listed = [one for one in everything if one["name"] in (older, newer)]
    assert [one["name"] for one in listed] == [newer, older]
    assert [one["partitions"] for one in listed] == [1, 2]
    assert [one["messages"] for one in listed] == [
        {"total": 1, "pending": 0, "processing": 1},
        {"total": 3, "pending": 3, "processing": 0},
    ]
    assert set(listed[0]) >= {"id", "namespace", "task", "createdAt"}
    assert (await get(api, "queues", search=word.upper()))["queues"] == listed
    page = await get(api, "queues", search=word, limit=1, offset=1)
    assert page["queues"] == listed[1:]


async def test_namespaces_and_tasks_add_up_their_queues(api: Api) -> None:
    namespace, task = unique("namespace"), unique("task")
    for name in "ab":
        await api.push(f"{namespace}.{task}.{name}", 1, 2)
    await drain(api, f"{namespace}.{task}.a")
    expected = {"queues": 2, "partitions": 2, "messages": {"total": 4, "pending": 2}}
    spaces = (await get(api, "namespaces"))["namespaces"]
    tasks = (await get(api, "tasks"))["tasks"]
    assert {"namespace": namespace, **expected} in spaces
    assert {"task": task, **expected} in tasks
    assert "" not in {one["namespace"] for one in spaces} | {one["task"] for one in tasks}


async def test_unknown_queue_is_not_found(api: Api) -> None:
    name = unique()
    response = await api.http.get(f"{RESOURCES}/queues/{name}")
    assert (response.status_code, name in response.json()["error"]) == (404, True)


async def test_page_out_of_range_is_refused(api: Api) -> None:
    response = await api.http.get(f"{RESOURCES}/queues", params={"limit": 10_001})
    assert (response.status_code, "limit 10001" in response.text) == (400, True)


async def _all_partitions(api: Api) -> AsyncIterator[Any]:
    """Page through the partitions of all queues: other tests have made thousands."""
    offset, size = 0, 10_000
    while True:
        page = {"limit": size, "offset": offset}
        answer = await api.http.get("/api/v1/resources/partitions", params=page)
        for one in (found := answer.json()["partitions"]):
            yield one
        if len(found) < size:
            return
        offset += size


async def test_partitions_of_all_queues_come_in_pages(api: Api) -> None:
    queue, other = unique(), unique()
    for name in ("b", "a", "c"):
        await api.push(queue, 1, 2, partition=name)
    await api.push(other, 1)
    found = (await api.http.get("/api/v1/resources/partitions", params={"queue": queue})).json()
    assert [(one["queue"], one["name"]) for one in found["partitions"]] == [
        (queue, name) for name in ("a", "b", "c")
    ]
    first = found["partitions"][0]
    assert set(first) == {
        "id", "name", "queue", "namespace", "task", "createdAt", "messages", "newestMessage",
    }  # fmt: skip
    assert first["messages"] == {"total": 2}
    assert found["pagination"] == {"limit": 100, "offset": 0}
    page = {"queue": queue, "limit": 1, "offset": 1}
    found = (await api.http.get("/api/v1/resources/partitions", params=page)).json()
    assert [one["name"] for one in found["partitions"]] == ["b"]
    every = [one async for one in _all_partitions(api)]
    assert {queue, other} <= {one["queue"] for one in every}
    places = [(one["queue"], one["name"]) for one in every]
    assert len(set(places)) == len(places)


async def test_shared_state_tells_what_the_broker_remembers(api: Api) -> None:
    await api.push(unique(), 1)
    found = (await api.http.get("/api/v1/system/shared-state")).json()
    assert found["enabled"] is True
    assert found["partitionsRemembered"] >= 1
    assert found["maintenanceMode"] is False
