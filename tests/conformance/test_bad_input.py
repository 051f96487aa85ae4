"""Malformed requests get a 4xx and a sentence; the broker and everybody else's requests live on."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.conformance.bad_requests import CASES, PUSH, Bad, body_of
from tests.conformance.shorthand import ack_of, drain, settle
from tests.support.broker import Api, BrokerProcess, running_broker, unique


def error_of(response: httpx.Response) -> str:
    """The one sentence of an error answer."""
    assert response.headers["content-type"] == "application/json", response.text
    body = response.json()
    assert set(body) == {"error", "code"}
    error: str = body["error"]
    assert error and "\n" not in error and len(error) < 400
    return error


async def assert_still_serves(api: Api) -> None:
    queue = unique()
    await api.push(queue, "good")
    (message,) = await api.pop(queue)
    assert message["data"] == "good"
    assert (await api.ack(message))[0]["success"]


@pytest.mark.parametrize("bad", CASES.values(), ids=CASES)
async def test_a_malformed_request_is_refused_with_a_sentence(api: Api, bad: Bad) -> None:
    response = await api.http.request(bad.method, bad.path, content=body_of(bad))
    assert response.status_code == bad.status, response.text
    assert bad.names in error_of(response)
    await assert_still_serves(api)


STRANGE = {
    "drop": "'; DROP TABLE queen.messages; --",
    "delete": '"; DELETE FROM queen.queues; --',
    "parameter": "$1",
    "format": "%s %(name)s {}",
    "sleep": "\\'; SELECT pg_sleep(60); --",
    "null": "NULL",
    "array": "{a,b}",
    "emoji": "👩‍🚀🛰",
    "right-to-left": "\u202eright-to-left",
    "byte-order-mark": "\ufeffmark",
    "blanks": "\t\r\n",
}


@pytest.mark.parametrize("name", STRANGE.values(), ids=STRANGE)
async def test_a_strange_name_is_only_a_name(api: Api, name: str) -> None:
    queue = f"{unique()}{name}"
    (answer,) = await api.push(queue, name, partition=name, transactionId=name)
    assert answer["status"] == "queued"
    path = f"/api/v1/pop/queue/{httpx.QueryParams({'q': queue})}".replace("q=", "", 1)
    response = await api.http.get(path.replace("+", "%20"), params={"consumerGroup": name})
    assert response.status_code == 200, response.text
    (message,) = response.json()["messages"]
    assert (message["queue"], message["partition"], message["data"]) == (queue, name, name)
    (result,) = await api.ack(message, status="dlq", error=name, group=name)
    assert result["dlq"]
    (letter,) = await api.dead_letters(queue)
    assert (letter["errorMessage"], letter["consumerGroup"]) == (name, name)
    await assert_still_serves(api)


@pytest.fixture(scope="module")
def small_broker(shared_database_url: str) -> Iterator[BrokerProcess]:
    """A broker with small limits."""
    limits = {
        "QUEEN_MAX_BODY_BYTES": "20000",
        "QUEEN_MAX_PAYLOAD_BYTES": "1000",
        "QUEEN_MAX_ITEMS": "10",
        "QUEEN_MAX_NAME_LENGTH": "40",
        "QUEEN_MAX_BATCH_SIZE": "5",
    }
    with running_broker(database_url=shared_database_url, **limits) as process:
        yield process


@pytest.fixture
async def small(small_broker: BrokerProcess) -> AsyncIterator[Api]:
    """The API of the broker with small limits."""
    client = Api(small_broker.url)
    yield client
    await client.close()


def push_body(count: int = 1, *, payload: Any = 1, queue: str = "q") -> dict[str, Any]:
    return {"items": [{"queue": queue, "payload": payload}] * count}


def transaction_body(operations: int, **push: Any) -> dict[str, Any]:
    return {"operations": [{"type": "push", **push_body(**push)}] * operations}


TRANSACTION, BATCH = "/api/v1/transaction", "/api/v1/ack/batch"
ACKS = {"acknowledgments": [{"transactionId": "t", "partitionId": "p"}] * 11}
OVER = {
    "body": (PUSH, push_body(payload="x" * 30_000), 413, "body"),
    "payload": (PUSH, push_body(payload="x" * 1_001), 413, "payload"),
    "items": (PUSH, push_body(11), 400, "items"),
    "name": (PUSH, push_body(queue="n" * 41), 400, "queue"),
    "acks": (BATCH, ACKS, 400, "acknowledgments"),
    "operations": (TRANSACTION, transaction_body(11), 400, "operations"),
    "operation-items": (TRANSACTION, transaction_body(2, count=6), 400, "items"),
    "operation-payload": (TRANSACTION, transaction_body(1, payload="x" * 1_001), 413, "payload"),
    "configure-body": ("/api/v1/configure", {"queue": "q", "x": "x" * 30_000}, 413, "body"),
    "extend-body": ("/api/v1/lease/x/extend", {"x": "x" * 30_000}, 413, "body"),
}


@pytest.mark.parametrize(("path", "body", "status", "names"), OVER.values(), ids=OVER)
async def test_a_request_over_a_limit_is_refused(
    small: Api, path: str, body: Any, status: int, names: str
) -> None:
    response = await small.http.post(path, json=body)
    assert response.status_code == status, response.text
    assert names in error_of(response)
    await assert_still_serves(small)


async def test_a_request_at_the_limits_is_accepted(small: Api) -> None:
    queue = unique()[:40]
    answers = await small.push(queue, *["x" * 998] * 10)
    assert {answer["status"] for answer in answers} == {"queued"}
    response = await small.http.get(f"/api/v1/pop/queue/{queue}", params={"batch": 6})
    assert response.status_code == 400
    assert "batch" in error_of(response)
    assert len(await drain(small, queue, batch=5)) == 10


async def chunks(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def test_a_chunked_body_without_a_length_is_accepted(small: Api) -> None:
    queue = unique()[:40]
    body = b'{"items":[{"queue":"' + queue.encode() + b'","payload":"' + b"x" * 900 + b'"}]}'
    response = await small.http.post(PUSH, content=chunks(body, 7))
    assert response.status_code == 201, response.text
    assert await small.data(queue) == ["x" * 900]


async def test_a_chunked_body_over_the_limit_is_refused(small: Api) -> None:
    response = await small.http.post(PUSH, content=chunks(b" " * 100_000, 5_000))
    assert response.status_code == 413
    assert "body" in error_of(response)
    await assert_still_serves(small)


async def test_bad_pushes_fail_alone_among_concurrent_good_ones(api: Api) -> None:
    queue = unique()
    bodies = [
        {"items": [{"queue": queue, "payload": "bad", "traceId": "x"}]},
        {"items": [{"queue": queue, "payload": "bad", "transactionId": "a\x00"}]},
        {"items": [{"queue": queue, "payload": "bad"}, {"queue": queue, "partition": 3}]},
    ]
    bad = [api.http.post(PUSH, json=body) for body in bodies]
    good = [api.push(queue, n, transactionId=f"t{n}") for n in range(50)]
    answers = await asyncio.gather(*good[:25], *bad, *good[25:])
    assert [response.status_code for response in answers[25:28]] == [400] * 3
    results = [one for answer in answers[:25] + answers[28:] for one in answer]
    assert {one["status"] for one in results} == {"queued"}
    assert sorted(await drain(api, queue)) == list(range(50))


async def test_a_full_queue_fails_alone_among_concurrent_pushes(api: Api) -> None:
    queue, full = unique(), unique()
    await api.configure(full, maxSize=1)
    await api.push(full, "first")
    pushes = [api.push(queue, n) for n in range(50)]
    answers = await asyncio.gather(*pushes[:25], api.push(full, "second"), *pushes[25:])
    (refused,) = answers.pop(25)
    assert refused["status"] == "failed"
    assert {one["status"] for answer in answers for one in answer} == {"queued"}
    assert sorted(await drain(api, queue)) == list(range(50))


async def test_bad_acks_fail_alone_among_concurrent_good_ones(api: Api) -> None:
    queue = unique()
    await api.push_items([{"queue": queue, "partition": f"p{n}", "payload": n} for n in range(50)])
    messages = await api.pop(queue, batch=50, partitions=50)
    strange = [
        {**ack_of(messages[0]), "partitionId": str(uuid.uuid4())},
        {**ack_of(messages[0]), "leaseId": str(uuid.uuid4())},
        {**ack_of(messages[0]), "status": "nonsense"},
    ]
    refused = api.http.post("/api/v1/ack", json={**ack_of(messages[0]), "partitionId": "x"})
    good = [settle(api, ack_of(message)) for message in messages]
    bad = [settle(api, one) for one in strange]
    answers = await asyncio.gather(*good[:25], *bad, refused, *good[25:])
    assert answers[28].status_code == 400
    assert all(answer[0]["success"] for answer in answers[:25] + answers[29:])
    assert not any(answer[0]["success"] for answer in answers[25:28])
    assert await api.pop(queue) == []


async def test_pops_of_unknown_places_do_not_disturb_concurrent_good_ones(api: Api) -> None:
    queue = unique()
    await api.push_items([{"queue": queue, "partition": f"p{n}", "payload": n} for n in range(20)])
    good = [api.data(queue, partition=f"p{n}") for n in range(20)]
    unknown = [api.data(unique(), partition="x") for _ in range(20)]
    answers = await asyncio.gather(*good, *unknown)
    assert answers == [[n] for n in range(20)] + [[]] * 20
