"""The OpenAPI document is true: every route is in it, and real answers are what it says.

All answers that tests of this folder get are compared with it: see `conftest.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from queenmq import __version__
from queenmq.server.dashboard.assets import load_dashboard
from queenmq.server.routing.openapi import build_document
from tests.support.broker import Api, unique
from tests.support.openapi import Document, Judge
from tests.support.routes import find_specs
from tests.support.stream_calls import new_query, out, put

NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
async def document(api: Api) -> Document:
    """The document of a live broker."""
    response = await api.http.get("/openapi.json")
    assert response.status_code == 200
    found: Document = response.json()
    return found


def test_the_schemas_are_schemas(document: Document) -> None:
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    text = str(document)
    named = set(re.findall(r"#/components/schemas/([\w.]+)", text))
    assert named <= set(document["components"]["schemas"])


def test_a_broker_serves_every_route_of_the_table(document: Document) -> None:
    # What the broker was wired with, and what the table lists.
    assert document == build_document(find_specs(), version=__version__)
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert len({one["operationId"] for one in operations}) == len(operations) > 60
    assert all(one["summary"] for one in operations)


async def _ok(response: httpx.Response, *statuses: int) -> Any:
    assert response.status_code in (statuses or (200,)), response.text
    return response.json() if response.content else None


async def _messages(api: Api, queue: str) -> Mapping[str, Any]:
    """Walk the routes of messages; the last message that was popped."""
    http = api.http
    await _ok(await http.post("/api/v1/configure", json={"queue": queue, "task": "t"}))
    item = {"queue": queue, "payload": {"a": [1, None, 2.5]}, "transactionId": "a"}
    for _ in range(2):
        await _ok(await http.post("/api/v1/push", json={"items": [item, {"queue": queue}]}), 201)
        keyed = {"items": [{"queue": queue}], "idempotencyKey": unique("key")}
        await _ok(await http.post("/api/v1/push/once", json=keyed), 201)
    (first, *_) = (await _ok(await http.get(f"/api/v1/pop/queue/{queue}")))["messages"]
    await _ok(await http.post("/api/v1/ack", json=first))
    path = f"/api/v1/pop/queue/{queue}/partition/Default"
    popped = await _ok(await http.get(path, params={"consumerGroup": "g"}))
    await _ok(await http.post(f"/api/v1/lease/{popped['leaseId']}/extend"))
    await _ok(await http.get(path, params={"consumerGroup": "g"}), 204)
    await _ok(await http.get("/api/v1/pop", params={"task": "t", "consumerGroup": "h"}))
    body = {"acknowledgments": popped["messages"], "consumerGroup": "g", "next": path + "?batch=1"}
    await _ok(await http.post("/api/v1/ack/batch", json=body))
    operations = [{"type": "push", "items": [item | {"transactionId": "b"}]}]
    await _ok(await http.post("/api/v1/transaction", json={"operations": operations}))
    await _ok(await http.post("/api/v1/transaction", json={"operations": operations}))
    return {**first, "payload": item}


async def _inspection(api: Api, queue: str, message: Mapping[str, Any]) -> None:
    http, place = api.http, f"{message['partitionId']}/{message['transactionId']}"
    trace = {**message, "data": {"x": 1}, "traceNames": "name"}
    await _ok(await http.post("/api/v1/traces", json=trace), 201)
    for path in (
        f"deliveries/{place}", "analytics/group-lag", "analytics/runs",
        f"consumer-groups/g/queues/{queue}/partitions",
        f"traces/{place}", "traces/names", "traces/by-name/name", f"messages/{place}", "messages",
        f"why/{queue}", "why", "status", "status/analytics", "status/queues",
        f"status/queues/{queue}", f"status/queues/{queue}/messages", "status/buffers",
        "resources/overview",
        "resources/queues", f"resources/queues/{queue}", "resources/namespaces", "resources/tasks",
        "consumer-groups", "consumer-groups/g", "consumer-groups/lagging?minLagSeconds=0",
        "operations", "operations/stats", "operations/aside", "analytics/retention",
        "analytics/pipeline", "analytics/archive", "system/settings",
        "system/maintenance", "system/maintenance/pop",
        "system/shared-state", "resources/partitions", "analytics/system-metrics",
        "analytics/worker-metrics", "analytics/queue-lag", "analytics/queue-ops",
        "analytics/queue-parked-replicas", "analytics/postgres-stats", "dlq/errors",
        f"resources/queues/{queue}/partitions", f"resources/queues/{queue}/partitions/Default",
        f"consumer-groups/g/queues/{queue}/seek-preview?toEnd=true",
    ):  # fmt: skip
        await _ok(await http.get(f"/api/v1/{path}"))
    for path in ("/", f"/dashboard/{load_dashboard().version}/main.js"):
        assert (await http.get(path)).status_code == 200
    for path in ("/dashboard", "/ui"):
        assert (await http.get(path)).status_code == 307
    for path in ("/health", "/health/live", "/health/ready", "/metrics", "/metrics/prometheus"):
        await _ok(await http.get(path)) if "prom" not in path else await http.get(path)
    await _ok(await http.post("/api/v1/stats/refresh"))
    await _ok(await http.post("/api/v1/operations/retry"))
    await _ok(await http.get("/api/v1/migration/status"))
    await _ok(await http.post("/api/v1/migration/reset"))
    nowhere = {"host": "127.0.0.1", "port": "1", "database": "d", "user": "u"}
    await _ok(await http.post("/api/v1/migration/test-connection", json=nowhere))
    for path in ("system/maintenance", "system/maintenance/pop"):
        await _ok(await http.post(f"/api/v1/{path}", json={"enabled": False}))


async def _removal(api: Api, queue: str, message: Mapping[str, Any]) -> None:
    http, ids = api.http, message["partitionId"]
    group = "/api/v1/consumer-groups/g"
    await _ok(await http.post(f"{group}/queues/{queue}/seek", json={"toEnd": True}))
    await _ok(await http.post(f"{group}/queues/{queue}/partitions/Default/seek"))
    await _ok(await http.post(f"{group}/queues/{queue}/partitions/Default/release"))
    for action in ("pause", "resume"):
        await _ok(await http.post(f"{group}/{action}"))
    start = {"subscriptionTimestamp": "2030-01-31T12:00:00Z"}
    await _ok(await http.post(f"{group}/subscription", json=start))
    await api.push(queue, 1, transactionId="c")
    await _ok(await http.post(f"/api/v1/messages/{ids}/c/dlq", json={"error": "why"}))
    await _ok(await http.get("/api/v1/dlq", params={"queue": queue}))
    await _ok(await http.post(f"/api/v1/messages/{ids}/c/retry"))
    await _ok(await http.post(f"/api/v1/messages/{ids}/b/dlq"))
    await _ok(await http.post("/api/v1/dlq/retry", json={"queue": queue}))
    await _ok(await http.delete("/api/v1/dlq", params={"queue": queue}))
    await _ok(await http.delete(f"/api/v1/messages/{ids}/a"))
    await _ok(await http.delete(f"{group}/queues/{queue}"))
    await _ok(await http.delete(group))
    await _ok(await http.delete(f"/api/v1/queues/{queue}/clear"))
    await _ok(await http.delete(f"/api/v1/resources/queues/{queue}/partitions/Default"))
    await _ok(await http.delete(f"/api/v1/resources/queues/{queue}"))


async def _streams(api: Api) -> None:
    """Walk the routes of streams, through answers of each shape."""
    http = api.http
    query = await new_query(api, 1, 2)
    assert (await query.register("another"))["status"] == 409
    (message, *_) = await query.pop(batch=1)
    place = message["partitionId"]
    pushes = [out(query.sink, 1, transactionId="same")] * 2
    done = await query.cycle(place, [put("a", {"n": 1})], pushes, message)
    assert [one["status"] for one in done["push_results"]] == ["queued", "duplicate"]
    assert not (await query.cycle(place, [], [], message))["success"]
    assert await query.state(place) == {"a": {"n": 1}}
    body = {"query_id": NOWHERE, "partition_id": place}
    assert not (await _ok(await http.post("/streams/v1/state/get", json=body)))["success"]
    await _ok(await http.get("/api/v1/streams"))
    await query.show()
    await _ok(await http.delete(f"/api/v1/streams/{query.name}"))


async def _access(api: Api) -> None:
    """Walk the routes of access that a broker without authentication has, too."""
    http = api.http
    body = {"name": unique("token"), "queues": ["a.*"], "verbs": ["push"], "expiresInDays": 1}
    token = await _ok(await http.post("/api/v1/tokens", json=body), 201)
    await _ok(await http.get("/api/v1/tokens"))
    await _ok(await http.delete(f"/api/v1/tokens/{token['id']}"))
    await _ok(await http.post("/api/login"))
    await _ok(await http.get("/api/me"))
    await _ok(await http.post("/api/logout"))
    assert (await _ok(await http.get("/api/v1/audit")))["entries"]


#: They need a broker under load, or a run of a job. The tests of the client read their answers into
#: the same Structs.
ELSEWHERE = {
    "get_api_v1_operations_operation_id",
    "post_api_v1_operations_operation_id_retry",
    "post_api_v1_operations_operation_id_discard",
    "get_api_v1_analytics_pipeline_table",
    "get_api_v1_analytics_runs_run",
    # They need a second database; see tests/acceptance/test_database_move.py.
    "post_api_v1_migration_start",
    "post_api_v1_migration_validate",
}


async def test_real_answers_are_what_the_document_says(
    api: Api, judge: Judge, document: Document
) -> None:
    judge.seen.clear()
    queue = unique("openapi.task")
    message = await _messages(api, queue)
    await _inspection(api, queue, message)
    await _removal(api, queue, message)
    await _streams(api)
    await _access(api)
    await api.http.get("/openapi.json")
    known = {one["operationId"] for path in document["paths"].values() for one in path.values()}
    assert known - judge.seen == ELSEWHERE


async def test_errors_are_what_the_document_says(api: Api) -> None:
    codes = {}
    for method, path, body in (
        ("POST", "/api/v1/push", "{"),
        ("GET", f"/api/v1/resources/queues/{unique()}", ""),
        ("POST", f"/api/v1/lease/{NOWHERE}/extend", ""),
        ("GET", f"/api/v1/operations/{NOWHERE}", ""),
        ("POST", f"/api/v1/operations/{NOWHERE}/retry", ""),
        ("POST", f"/api/v1/operations/{NOWHERE}/discard", ""),
        ("GET", "/api/v1/analytics/pipeline/nonsense", ""),
    ):
        response = await api.http.request(method, path, content=body)
        codes[path.rsplit("/", 1)[0]] = (response.status_code, response.json()["code"])
    assert set(codes.values()) == {(400, "invalid_request"), (404, "not_found")}
