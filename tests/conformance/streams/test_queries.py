"""Queries: registered, resumed, reset, listed, removed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.conformance.shorthand import drain
from tests.support.broker import SOON_S, Api, unique
from tests.support.stream_calls import new_query, out, put
from tests.support.waiting import wait_until_async


async def test_a_query_is_registered_resumed_and_reset(api: Api) -> None:
    query = await new_query(api, 1)
    first = query.id
    again = await query.register()
    assert (again["status"], again["success"], again["query_id"]) == (200, True, first)
    assert (again["fresh"], again["reset"]) == (False, False)
    (message,) = await query.pop()
    place = message["partitionId"]
    assert (await query.cycle(place, [put("a", 1)], [], message))["success"]
    other = await query.register("v2")
    assert (other["status"], other["success"], other["query_id"]) == (409, False, first)
    assert "config_hash mismatch" in other["error"]
    assert other["code"] == "conflict"
    assert await query.state(place) == {"a": 1}
    reset = await query.register("v2", reset=True)
    assert (reset["status"], reset["reset"], reset["fresh"]) == (200, True, False)
    assert reset["query_id"] == first
    assert await query.state(place) == {}
    assert (await query.register("v1"))["status"] == 409


async def test_one_of_many_first_registrations_is_fresh(api: Api) -> None:
    query = await new_query(api)
    body = {"name": unique(), "source_queue": query.source, "config_hash": "h"}
    responses = await asyncio.gather(
        *(api.http.post("/streams/v1/queries", json=body) for _ in range(8))
    )
    answers = [one.json() for one in responses]
    assert sum(one["fresh"] for one in answers) == 1
    assert len({one["query_id"] for one in answers}) == 1


async def test_a_query_is_listed_with_lag_and_last_error_and_removed(api: Api) -> None:
    query = await new_query(api, 1, 2, 3)
    (message,) = await query.pop(batch=1)
    place = message["partitionId"]
    assert (await query.cycle(place, [put("a", 1)], [], message))["success"]
    assert not (await query.cycle(place, [], [], message))["success"]

    async def error() -> Any:
        return (await query.show())["lastError"]

    shown = await wait_until_async(error, timeout_s=SOON_S, what="the error to be noted")
    assert "consumed" in shown
    listed = (await api.http.get("/api/v1/streams")).json()
    (mine,) = [one for one in listed["streams"] if one["name"] == query.name]
    assert (mine["sourceQueue"], mine["sinkQueue"]) == (query.source, query.sink)
    assert (mine["totalLag"], mine["stateKeys"], mine["partitions"]) == (2, 1, 1)
    assert mine["maxTimeLag"] >= 0
    gone = await api.http.delete(f"/api/v1/streams/{query.name}")
    assert gone.json()["consumerGroups"] == [query.group]
    for method in ("GET", "DELETE"):
        missing = await api.http.request(method, f"/api/v1/streams/{query.name}")
        assert missing.status_code == 404
        assert query.name in missing.json()["error"]
    refused = await query.cycle(place, [put("a", 2)])
    assert "register" in refused["error"]
    # Started again, it reads everything again.
    await query.register()
    assert [one["data"] for one in await query.pop()] == [1, 2, 3]


@pytest.mark.parametrize("what", ["queue", "partition"])
async def test_state_goes_with_its_partition(api: Api, what: str) -> None:
    query = await new_query(api, 1)
    (message,) = await query.pop()
    place = message["partitionId"]
    assert (await query.cycle(place, [put("a", 1)], [], message))["success"]
    path = f"/api/v1/resources/queues/{query.source}"
    gone = await api.http.delete(path + ("/partitions/p" if what == "partition" else ""))
    assert gone.status_code == 200, gone.text
    shown = await query.show()
    assert (shown["stateKeys"], shown["stateBytes"], shown["partitions"]) == (0, 0, 0)
    assert "does not exist" in (await query.cycle(place, [put("a", 1)]))["error"]
    # The query goes on with what comes next.
    await api.push(query.source, 2, partition="p")
    (message,) = await query.pop()
    done = await query.cycle(message["partitionId"], [put("b", 1)], [out(query.sink, 2)], message)
    assert done["success"]
    assert await query.state(message["partitionId"]) == {"b": 1}
    # A sink that was deleted is made again.
    await api.http.delete(f"/api/v1/resources/queues/{query.sink}")
    assert (await query.cycle(message["partitionId"], [], [out(query.sink, 3)]))["success"]
    assert await drain(api, query.sink) == [3]


_ID = "00000000-0000-4000-8000-000000000000"
_CYCLE = {"query_id": _ID, "partition_id": _ID}
_BAD: list[tuple[str, Any, int, str]] = [
    ("queries", {}, 400, "name is required"),
    ("queries", {"name": "", "source_queue": "q", "config_hash": "h"}, 400, "name"),
    ("queries", {"name": "n", "source_queue": "", "config_hash": "h"}, 400, "source_queue"),
    ("queries", {"name": "n", "source_queue": "q", "config_hash": ""}, 400, "config_hash"),
    ("queries", {"name": "n\0", "source_queue": "q", "config_hash": "h"}, 400, "NUL"),
    ("queries", {"name": 5, "source_queue": "q", "config_hash": "h"}, 400, "name"),
    ("queries", [], 400, "object"),
    ("state/get", {"query_id": _ID}, 400, "partition_id is required"),
    ("state/get", {"query_id": "x", "partition_id": _ID}, 400, "query_id"),
    ("state/get", {**_CYCLE, "keys": "a"}, 400, "keys"),
    ("state/get", {**_CYCLE, "keys": ["a\0"]}, 400, "NUL"),
    ("state/get", {**_CYCLE, "ripe_at_or_before": "soon"}, 400, "ripe_at_or_before"),
    ("cycle", {"partition_id": _ID}, 400, "query_id is required"),
    ("cycle", {**_CYCLE, "partition_id": "p"}, 400, "partition_id"),
    ("cycle", {**_CYCLE, "state_ops": [{"type": "merge", "key": "a"}]}, 400, "upsert or delete"),
    ("cycle", {**_CYCLE, "state_ops": [{"type": "delete", "key": ""}]}, 400, "key"),
    ("cycle", {**_CYCLE, "state_ops": [{"type": "delete", "key": "\0"}]}, 400, "NUL"),
    ("cycle", {**_CYCLE, "state_ops": [{"type": "delete", "key": "é" * 1025}]}, 400, "2050 bytes"),
    ("cycle", {**_CYCLE, "push_items": [{"payload": 1}]}, 400, "queue is required"),
    ("cycle", {**_CYCLE, "push_items": [{"queue": ""}]}, 400, "queue"),
    ("cycle", {**_CYCLE, "push_items": [{"queue": "q", "traceId": "t"}]}, 400, "traceId"),
    ("cycle", {**_CYCLE, "ack": {}}, 400, "transactionId"),
    ("cycle", {**_CYCLE, "ack": {"transactionId": ""}}, 400, "ack.transactionId"),
    ("cycle", {**_CYCLE, "ack": {"transactionId": "t", "count": -1}}, 400, "count"),
    ("cycle", {**_CYCLE, "release_lease": 1}, 400, "release_lease"),
    ("cycle", {**_CYCLE, "state_version": -1}, 400, "state_version"),
    ("cycle", {**_CYCLE, "consumer_group": "g" * 999}, 400, "consumer_group"),
    (
        "cycle",
        {**_CYCLE, "state_ops": [{"type": "upsert", "key": "big", "value": "x" * 2**20}]},
        413,
        "stream_value_bytes_max",
    ),
]


async def test_bad_input_is_refused_in_words(api: Api) -> None:
    for path, body, status, word in _BAD:
        response = await api.http.post(f"/streams/v1/{path}", json=body)
        assert response.status_code == status, (path, word, response.text)
        assert word in response.json()["error"], (path, word, response.text)
    assert (await api.http.get("/streams/v1/cycle")).status_code == 405
    unknown = await api.http.post("/streams/v1/state/get", json=_CYCLE)
    assert not unknown.json()["success"]
    assert "register" in unknown.json()["error"]
