"""A push request with an idempotency key is stored once, however often it is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.conformance.shorthand import drain
from tests.support.broker import Api, unique

PUSH, ONCE = "/api/v1/push", "/api/v1/push/once"


def body(queue: str, *payloads: Any, **more: Any) -> dict[str, Any]:
    return {"items": [{"queue": queue, "payload": one} for one in payloads], **more}


@pytest.mark.parametrize("path", [PUSH, ONCE])
async def test_a_request_that_is_sent_again_has_the_answer_of_the_first(
    api: Api, path: str
) -> None:
    queue, key = unique(), unique("key")
    request = body(queue, 1, 2, 3, idempotencyKey=key)
    request["items"][1] |= {"partition": "other", "transactionId": "mine"}
    first = await api.http.post(path, json=request)
    again = [await api.http.post(one, json=request) for one in (PUSH, ONCE)]
    assert first.status_code == 201
    assert [one["status"] for one in first.json()] == ["queued"] * 3
    for one in again:
        assert (one.status_code, one.json()) == (201, first.json())
    assert await drain(api, queue, partition="Default") == [1, 3]
    assert await drain(api, queue, partition="other") == [2]


async def test_copies_that_are_sent_at_once_store_one(api: Api) -> None:
    queue, keys = unique(), [unique("key") for _ in range(5)]
    requests = [body(queue, key, 0, idempotencyKey=key) for key in keys for _ in range(6)]
    answers = await asyncio.gather(*(api.http.post(PUSH, json=one) for one in requests))
    assert {one.status_code for one in answers} == {201}
    # What belongs to one key is the same, and no two keys share anything.
    assert len({one.text for one in answers}) == len(keys)
    stored = await drain(api, queue)
    assert sorted(one for one in stored if one) == sorted(keys)
    assert len(stored) == 2 * len(keys)


async def test_the_key_may_stand_in_a_header(api: Api) -> None:
    queue, key = unique(), unique("key")
    headers = {"Idempotency-Key": key}
    first, second = [
        await api.http.post(PUSH, json=body(queue, 1), headers=headers) for _ in range(2)
    ]
    assert (first.status_code, second.json()) == (201, first.json())
    assert await drain(api, queue) == [1]
    both = await api.http.post(PUSH, json=body(queue, 1, idempotencyKey="x"), headers=headers)
    assert both.status_code == 400
    assert "differ; send one of them" in both.json()["error"]


async def test_a_key_for_another_body_is_refused_and_changes_nothing(api: Api) -> None:
    queue, key = unique(), unique("key")
    await api.http.post(PUSH, json=body(queue, 1, idempotencyKey=key))
    refused, beside = await asyncio.gather(
        api.http.post(PUSH, json=body(queue, 2, idempotencyKey=key)),
        api.http.post(PUSH, json=body(queue, 3)),
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "idempotency_key_reused")
    assert beside.status_code == 201
    assert await drain(api, queue) == [1, 3]


async def test_what_was_refused_item_by_item_is_answered_again_as_it_was(api: Api) -> None:
    queue, key = unique(), unique("key")
    await api.configure(queue, maxSize=2)
    request = body(queue, 1, 2, 3, idempotencyKey=key)
    request["items"][1]["transactionId"] = request["items"][0]["transactionId"] = "same"
    first = await api.http.post(PUSH, json=request)
    assert [one["status"] for one in first.json()] == ["queued", "duplicate", "queued"]
    full = body(queue, 4, idempotencyKey=unique("key"))
    answers = [await api.http.post(PUSH, json=full) for _ in range(2)]
    assert [one.json()[0]["status"] for one in answers] == ["failed"] * 2
    assert (await api.http.post(PUSH, json=request)).json() == first.json()
    assert await drain(api, queue) == [1, 3]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        pytest.param(None, "idempotencyKey is missing", id="none"),
        pytest.param("", "idempotencyKey must not be empty", id="empty"),
        pytest.param("k" * 300, "has 300 characters", id="long"),
        pytest.param("a\x00b", "contains a NUL character", id="nul"),
    ],
)
async def test_a_bad_key_is_refused(api: Api, key: str | None, words: str) -> None:
    more = {} if key is None else {"idempotencyKey": key}
    answer = await api.http.post(ONCE, json=body(unique(), 1, **more))
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert words in answer.json()["error"]
