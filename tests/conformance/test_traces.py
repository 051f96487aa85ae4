"""Traces of messages."""

from __future__ import annotations

from typing import Any

from tests.support.broker import Api, unique

TRACES = "/api/v1/traces"


async def message_of(api: Api, queue: str, payload: Any = 1) -> Any:
    (pushed,) = await api.push(queue, payload)
    (message,) = (await api.http.get("/api/v1/messages", params={"queue": queue})).json()[
        "messages"
    ]
    assert message["id"] == pushed["message_id"]
    return message


async def add(api: Api, message: Any, data: Any, status: int = 201, **more: Any) -> Any:
    place = {name: message[name] for name in ("transactionId", "partitionId")}
    response = await api.http.post(TRACES, json={**place, "data": data, **more})
    assert response.status_code == status, response.text
    return response.json()


async def get(api: Api, path: str, **query: Any) -> Any:
    response = await api.http.get(f"{TRACES}/{path}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def test_traces_of_a_message_come_oldest_first(api: Api) -> None:
    message = await message_of(api, unique())
    first = await add(api, message, {"step": 1}, traceNames=["b", "a"], eventType="start")
    await add(api, message, [2], consumerGroup="g", traceNames=None)
    assert set(first) == {"success", "traceId"} and first["success"]
    found = (await get(api, f"{message['partitionId']}/{message['transactionId']}"))["traces"]
    for one in found:
        assert one.pop("created_at").endswith("Z")
        one["is_id"] = len(one.pop("id")) == 36
    assert found == [
        {
            "is_id": True, "event_type": "start", "data": {"step": 1},
            "consumer_group": "__QUEUE_MODE__", "worker_id": None, "trace_names": ["a", "b"],
        },
        {
            "is_id": True, "event_type": "info", "data": [2], "consumer_group": "g",
            "worker_id": None, "trace_names": [],
        },
    ]  # fmt: skip


async def test_traces_are_found_by_name_newest_first(api: Api) -> None:
    queue, name = unique(), unique("a name/with ü")
    message = await message_of(api, queue, {"order": 7})
    for n in range(3):
        await add(api, message, n, traceNames=name if n else [name, name, "other"])
    quoted = name.replace("/", "%2F")
    answer = await get(api, f"by-name/{quoted}", limit=2)
    assert (answer["total"], answer["pagination"]) == (3, {"limit": 2, "offset": 0})
    assert [one["data"] for one in answer["traces"]] == [2, 1]
    (last,) = (await get(api, f"by-name/{quoted}", limit=2, offset=2))["traces"]
    assert set(last) == {
        "id", "transaction_id", "partition_id", "event_type", "data", "consumer_group",
        "worker_id", "created_at", "queue_name", "partition_name", "message_payload",
        "trace_names",
    }  # fmt: skip
    assert last["trace_names"] == sorted([name, "other"])
    assert (last["transaction_id"], last["partition_id"]) == (
        message["transactionId"], message["partitionId"]
    )  # fmt: skip
    assert (last["queue_name"], last["partition_name"]) == (queue, "Default")
    assert last["message_payload"] == {"order": 7}


async def test_large_payload_is_left_out_of_a_list(api: Api) -> None:
    name = unique("name")
    message = await message_of(api, unique(), "x" * 70_000)
    await add(api, message, 1, traceNames=[name])
    (one,) = (await get(api, f"by-name/{name}"))["traces"]
    assert one["message_payload"] is None


async def test_names_are_listed_last_used_first_with_their_counts(api: Api) -> None:
    queue, older, newer = unique(), unique("name"), unique("name")
    message = await message_of(api, queue)
    await add(api, message, 1, traceNames=[older])
    await add(api, message, 2, traceNames=[older])
    await add(api, message, 3, traceNames=[newer])
    answer = await get(api, "names", limit=2)
    assert answer["total"] >= 2
    assert answer["pagination"] == {"limit": 2, "offset": 0}
    assert [(one["trace_name"], one["trace_count"]) for one in answer["trace_names"]] == [
        (newer, 1), (older, 2)
    ]  # fmt: skip
    assert {one["message_count"] for one in answer["trace_names"]} == {1}
    assert answer["trace_names"][0]["last_seen"] >= answer["trace_names"][1]["last_seen"]
    beyond = await get(api, "names", offset=100_000)
    assert (beyond["trace_names"], beyond["total"]) == ([], answer["total"])


async def test_dead_letter_that_left_its_partition_can_still_be_traced(api: Api) -> None:
    message = await message_of(api, unique())
    place = f"{message['partitionId']}/{message['transactionId']}"
    await add(api, message, 1)
    assert (await api.http.post(f"/api/v1/messages/{place}/dlq")).status_code == 200
    await add(api, message, 2)
    assert [one["data"] for one in (await get(api, place))["traces"]] == [1, 2]


async def test_unknown_message_is_not_found(api: Api) -> None:
    message = await message_of(api, unique())
    answer = await add(api, {**message, "transactionId": "unknown"}, 1, 404)
    assert answer["error"].startswith("Message not found")
    assert (await get(api, f"{message['partitionId']}/unknown"))["traces"] == []


async def test_large_trace_is_refused(api: Api) -> None:
    message = await message_of(api, unique())
    answer = await add(api, message, "x" * 65_536, 413)
    assert "data has 65538 bytes" in answer["error"]


async def test_traces_go_with_their_queue(api: Api) -> None:
    for path in ("/api/v1/queues/{}/clear", "/api/v1/resources/queues/{}"):
        queue, name = unique(), unique("name")
        await add(api, await message_of(api, queue), 1, traceNames=[name])
        await api.http.delete(path.format(queue))
        assert (await get(api, f"by-name/{name}"))["total"] == 0
