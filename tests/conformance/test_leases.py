"""Leases: they expire, and POST /api/v1/lease/:leaseId/extend prolongs them."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.conformance.shorthand import let_lease_run_out, next_of
from tests.support.broker import Api, unique


async def extend(api: Api, lease: str, **body: Any) -> dict[str, Any]:
    response = await api.http.post(f"/api/v1/lease/{lease}/extend", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_an_expired_lease_makes_its_messages_deliverable_again(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1)
    await api.push(queue, 1, 2)
    first = await api.pop(queue, batch=2)
    second = await next_of(api, queue, batch=2)
    assert [one["id"] for one in second] == [one["id"] for one in first]
    assert second[0]["leaseId"] != first[0]["leaseId"]


async def test_a_lease_time_of_zero_still_leases(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=0)
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    assert message["leaseId"]
    assert await api.pop(queue) == []


async def test_extend_answers_an_object_with_the_expiry_under_every_known_name(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    answer = await extend(api, message["leaseId"], seconds=600)
    assert answer["success"] is True
    assert answer["leaseId"] == message["leaseId"]
    assert answer["newExpiresAt"] == answer["lease_expires_at"] == answer["expiresAt"]
    assert answer["newExpiresAt"].endswith("Z")
    expires = datetime.fromisoformat(answer["newExpiresAt"])
    created = datetime.fromisoformat(message["createdAt"])
    assert (expires - created).total_seconds() >= 599


async def test_extend_reads_an_escaped_path_and_takes_no_other_method(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    escaped = message["leaseId"].replace("-", "%2D")
    assert (await extend(api, escaped))["leaseId"] == message["leaseId"]
    path = f"/api/v1/lease/{message['leaseId']}/extend"
    assert (await api.http.get(path)).status_code == 405
    assert (await api.http.options(path)).status_code == 204
    assert (await api.http.post("/api/v1/lease//extend")).status_code == 404
    assert (await api.http.post("/api/v1/lease/%FF/extend")).status_code == 400


async def test_extend_needs_no_body(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    for arguments in ({}, {"content": b""}, {"json": {}}):
        response = await api.http.post(f"/api/v1/lease/{message['leaseId']}/extend", **arguments)
        assert response.status_code == 200, response.text
        assert response.json()["success"] is True


async def test_an_extended_lease_outlives_the_lease_time_of_its_queue(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1)
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    await extend(api, message["leaseId"], seconds=60)
    await let_lease_run_out(api)
    assert await api.pop(queue) == []
    (result,) = await api.ack(message)
    assert result["success"] is True


async def test_extend_never_shortens_a_lease(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    long = await extend(api, message["leaseId"], seconds=1000)
    short = await extend(api, message["leaseId"], seconds=1)
    assert short["newExpiresAt"] == long["newExpiresAt"]


async def test_one_extend_prolongs_the_lease_in_all_its_partitions(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1)
    await api.push_items([{"queue": queue, "partition": p, "payload": p} for p in "abc"])
    messages = await api.pop(queue, batch=3, partitions=3)
    assert len(messages) == 3
    await extend(api, messages[0]["leaseId"], seconds=60)
    await let_lease_run_out(api)
    assert await api.pop(queue, batch=3, partitions=3) == []
    results = await api.ack(*messages)
    assert [result["success"] for result in results] == [True] * 3


async def test_a_lease_over_several_partitions_is_live_while_one_of_them_is(api: Api) -> None:
    queue = unique()
    await api.push_items([{"queue": queue, "partition": p, "payload": p} for p in "abc"])
    messages = await api.pop(queue, batch=3, partitions=3)
    for message in messages[:2]:
        await api.ack(message)
    assert (await extend(api, messages[2]["leaseId"]))["success"] is True


async def test_a_lease_that_ran_out_cannot_be_extended(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1)
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    await let_lease_run_out(api)
    response = await api.http.post(f"/api/v1/lease/{message['leaseId']}/extend")
    assert 400 <= response.status_code < 500
    assert "expired" in response.json()["error"]
    assert await api.data(queue) == [1]


async def test_a_lease_that_was_taken_over_cannot_be_extended(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1)
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    await next_of(api, queue)
    response = await api.http.post(f"/api/v1/lease/{message['leaseId']}/extend")
    assert 400 <= response.status_code < 500
    assert response.json()["error"].startswith("Lease")


async def test_a_lease_whose_messages_are_acked_cannot_be_extended(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    messages = await api.pop(queue)
    await api.ack(*messages)
    response = await api.http.post(f"/api/v1/lease/{messages[0]['leaseId']}/extend")
    assert 400 <= response.status_code < 500
    assert response.json()["error"].startswith("Lease")


@pytest.mark.parametrize(
    "lease",
    [
        str(uuid.uuid4()),
        str(uuid.UUID(int=0)),
        "not-a-uuid",
        "1",
        "'; --",
        "%F0%9F%98%80",
        "a" * 300,
    ],
    ids=["unknown", "zero", "text", "number", "sql", "emoji", "long"],
)
async def test_an_unknown_lease_cannot_be_extended(api: Api, lease: str) -> None:
    response = await api.http.post(f"/api/v1/lease/{lease}/extend", json={"seconds": 60})
    assert 400 <= response.status_code < 500
    assert response.json()["error"].startswith("Lease not found")


@pytest.mark.parametrize("seconds", [0, -1, 86_401, 10**30, 1.5, "60", True])
async def test_seconds_must_be_a_sensible_number(api: Api, seconds: Any) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue)
    path = f"/api/v1/lease/{message['leaseId']}/extend"
    response = await api.http.post(path, json={"seconds": seconds})
    assert response.status_code == 400
    assert "seconds" in response.json()["error"]


async def test_a_pop_says_when_its_lease_ends_and_may_choose_how_long_it_lasts(
    api: Api, shared_database_url: str
) -> None:
    database = await asyncpg.connect(shared_database_url)
    try:
        for query, seconds in (
            ({}, 30),
            ({"leaseSeconds": 0}, 30),
            ({"leaseSeconds": 86_400}, 86_400),
        ):
            queue = unique()
            await api.configure(queue, leaseTime=30)
            await api.push(queue, 1, partition="p")
            await api.push(queue, 2, partition="q")
            params = {"partitions": 2, "batch": 2, **query}
            answer = (await api.http.get(f"/api/v1/pop/queue/{queue}", params=params)).json()
            assert len(answer["messages"]) == 2
            rows = await database.fetch(
                "SELECT lease_expires_at, lease_expires_at - lease_acquired_at AS length"
                " FROM queen.partition_consumers WHERE lease_id = $1",
                uuid.UUID(answer["leaseId"]),
            )
            assert [row["length"] for row in rows] == [timedelta(seconds=seconds)] * 2
            told = datetime.fromisoformat(answer["leaseExpiresAt"])
            assert abs(told - min(row["lease_expires_at"] for row in rows)) < timedelta(
                seconds=0.002
            )
    finally:
        await database.close()


async def test_what_is_acked_at_once_has_no_lease_that_ends(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    path = f"/api/v1/pop/queue/{queue}?autoAck=true&leaseSeconds=5"
    assert (await api.http.get(path)).json()["leaseExpiresAt"] is None


@pytest.mark.parametrize("seconds", ["-1", "86401", "999999999999"])
async def test_a_pop_cannot_ask_for_any_lease(api: Api, seconds: str) -> None:
    response = await api.http.get(f"/api/v1/pop/queue/q?leaseSeconds={seconds}")
    assert response.status_code == 400
    assert seconds in response.json()["error"] and "86400" in response.json()["error"]


async def test_leases_that_ran_out_are_counted_once(api: Api, shared_database_url: str) -> None:
    queue = unique()
    await api.push(queue, 1)
    database = await asyncpg.connect(shared_database_url)
    count = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM queen.expired_leases"
    try:
        before = await database.fetchval(count)
        await api.pop(queue, leaseSeconds=1)
        (message,) = await next_of(api, queue)
        await api.ack(message)
        await api.pop(queue)
        # Others may have let leases run out meanwhile.
        assert await database.fetchval(count) > before
    finally:
        await database.close()
