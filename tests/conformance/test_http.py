"""Behaviour of all routes: health, CORS, and the answers to wrong paths and methods."""

from __future__ import annotations

import pytest

from tests.conformance.shorthand import send_raw
from tests.support.broker import Api, BrokerProcess, unique

ROUTES = [
    ("POST", "/api/v1/push"),
    ("GET", "/api/v1/pop"),
    ("GET", "/api/v1/pop/queue/x"),
    ("GET", "/api/v1/pop/queue/x/partition/y"),
    ("POST", "/api/v1/ack"),
    ("POST", "/api/v1/ack/batch"),
    ("POST", "/api/v1/lease/x/extend"),
    ("POST", "/api/v1/transaction"),
    ("POST", "/api/v1/configure"),
    ("GET", "/api/v1/resources/queues"),
    ("GET", "/api/v1/resources/queues/x"),
    ("DELETE", "/api/v1/resources/queues/x"),
    ("GET", "/api/v1/resources/namespaces"),
    ("GET", "/api/v1/resources/tasks"),
    ("GET", "/api/v1/consumer-groups"),
    ("GET", "/api/v1/consumer-groups/lagging"),
    ("GET", "/api/v1/consumer-groups/x"),
    ("DELETE", "/api/v1/consumer-groups/x"),
    ("POST", "/api/v1/consumer-groups/x/subscription"),
    ("DELETE", "/api/v1/consumer-groups/x/queues/y"),
    ("POST", "/api/v1/consumer-groups/x/queues/y/seek"),
    ("POST", "/api/v1/consumer-groups/x/queues/y/partitions/z/seek"),
    ("DELETE", "/api/v1/queues/x/clear"),
    ("GET", "/api/v1/dlq"),
    ("DELETE", "/api/v1/dlq"),
    ("POST", "/api/v1/dlq/retry"),
    ("GET", "/health"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
]
WRONG = [
    (method, path)
    for path in dict.fromkeys(path for _, path in ROUTES)
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH")
    if (method, path) not in ROUTES
]


async def test_health_has_the_documented_fields(api: Api) -> None:
    response = await api.http.get("/health")
    assert response.status_code == 200
    body = response.json()
    assert (body["status"], body["database"]) == ("healthy", "connected")
    assert isinstance(body["server"], str) and isinstance(body["version"], str)
    assert isinstance(body["worker_id"], int)
    assert "enabled" in body["shared_state"]
    assert {"worker_id", "status"} <= set(body["queen"])


@pytest.mark.parametrize("path", ["/health/live", "/health/ready"])
async def test_probes_answer_200_with_a_status(api: Api, path: str) -> None:
    response = await api.http.get(path)
    assert response.status_code == 200
    assert response.json()["status"] in ("live", "ready")


async def test_health_answers_head_without_a_body(api: Api) -> None:
    response = await api.http.head("/health")
    assert (response.status_code, response.content) == (200, b"")


@pytest.mark.parametrize("path", [path for _, path in ROUTES] + ["/", "/nowhere", "/api/v1/else"])
async def test_options_on_any_path_answers_204_without_a_grant(api: Api, path: str) -> None:
    response = await api.http.options(path)
    assert (response.status_code, response.content) == (204, b"")
    assert not [name for name in response.headers if name.startswith("access-control")]


async def test_answers_of_every_kind_carry_json(api: Api) -> None:
    queue = unique()
    answers = [
        await api.http.post("/api/v1/push", json={"items": [{"queue": queue, "payload": 1}]}),
        await api.http.get(f"/api/v1/pop/queue/{queue}"),
        await api.http.post("/api/v1/push", content=b"{"),
        await api.http.post("/api/v1/configure", json={"queue": queue}),
        await api.http.post("/api/v1/configure", content=b"{"),
        await api.http.post("/api/v1/lease/x/extend"),
        await api.http.get("/health"),
        await api.http.get("/nowhere"),
        await api.http.put("/api/v1/push"),
        await api.http.put("/api/v1/configure"),
    ]
    assert [one.status_code for one in answers] == [
        201,
        200,
        400,
        200,
        400,
        404,
        200,
        404,
        405,
        405,
    ]
    for answer in answers:
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "path",
    ["/nowhere", "/api", "/api/v1", "/api/v1/pushes", "/api/v1/push/", "/api/v1/pop/queue/",
     "/api/v1/pop/queues/x", "/api/v2/push", "/%00", "/%F0%9F%98%80", "/api/v1/queues/x"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_an_unknown_path_is_404_with_an_error(api: Api, method: str, path: str) -> None:
    response = await api.http.request(method, path)
    assert response.status_code == 404
    assert set(response.json()) == {"error", "code"}
    assert "No route matches" in response.json()["error"]


@pytest.mark.parametrize(("method", "path"), WRONG)
async def test_a_wrong_method_is_405_with_an_error(api: Api, method: str, path: str) -> None:
    response = await api.http.request(method, path)
    assert response.status_code == 405
    error = response.json()["error"]
    assert path in error and method in error


@pytest.mark.parametrize("path", ["/api/v1/push", "/api/v1/pop/queue/x", "/api/v1/dlq", "/health"])
@pytest.mark.parametrize("method", ["TRACE", "PROPFIND", "LOCK"])
async def test_a_rare_method_is_405_with_an_error(
    broker: BrokerProcess, method: str, path: str
) -> None:
    request = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    status, rest = await send_raw(broker.url, request.encode())
    assert status == 405
    assert rest.split(b"\r\n\r\n", 1)[1].startswith(b'{"error":')


async def test_requests_on_one_connection_are_answered_in_order(broker: BrokerProcess) -> None:
    request = b"GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
    paths = [b"/health/live", b"/nowhere", b"/health/ready"]
    last = [b"", b"", b"Connection: close\r\n"]
    requests = [request % pair for pair in zip(paths, last, strict=True)]
    status, rest = await send_raw(broker.url, b"".join(requests))
    assert status == 200
    assert rest.index(b'"live"') < rest.index(b"No route") < rest.index(b'"ready"')
