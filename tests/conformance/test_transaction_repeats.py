"""A transaction that is sent again, as after a lost answer: done once, answered as at first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.conformance.shorthand import let_lease_run_out
from tests.conformance.test_transactions import ack_in, push_of
from tests.support.broker import Api, BrokerProcess, running_broker, unique


async def _popped(api: Api, count: int = 1) -> tuple[str, str, list[Any]]:
    """A queue with leased messages, and one to push to."""
    source, target = unique(), unique()
    await api.configure(source, leaseTime=1)
    await api.push(source, *range(count))
    return source, target, await api.pop(source, batch=count)


def _leases(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"requiredLeases": [message["leaseId"]]}


@pytest.mark.parametrize("way", ["required leases", "lease of the ack", "no lease", "key"])
async def test_the_answer_is_that_of_the_first_try(api: Api, way: str) -> None:
    source, target, (first, second) = await _popped(api, 2)
    more: dict[str, Any] = {}
    lease: dict[str, Any] = {}
    if way == "required leases":
        more = _leases(first)
    elif way == "lease of the ack":
        lease = {"leaseId": first["leaseId"]}
    elif way == "key":
        more = {"idempotencyKey": unique()}
    operations = [
        push_of(target, "a", "b"),
        ack_in(first, **lease),
        ack_in(second, "dlq", **lease),
        push_of(target, "c", transactionId="own"),
    ]
    answers = [await api.transaction(operations, **more) for _ in range(3)]
    assert answers[0]["success"]
    assert answers[0]["results"][3]["dlq"]
    assert answers[1:] == answers[:1] * 2
    assert await api.data(target, batch=10) == ["a", "b", "c"]
    assert len(await api.dead_letters(source)) == 1


async def test_it_is_recognised_after_its_lease_was_lost(api: Api) -> None:
    source, target, (first, second) = await _popped(api, 2)
    operations = [push_of(target, "out"), ack_in(first)]
    done = await api.transaction(operations, **_leases(first))
    assert done["success"]
    # The rest of the lease runs out and is given to another consumer.
    await let_lease_run_out(api)
    assert [one["data"] for one in await api.pop(source)] == [second["data"]]
    assert await api.transaction(operations, **_leases(first)) == done
    assert await api.data(target, batch=10) == ["out"]


async def test_what_was_not_done_is_refused_once_its_lease_is_lost(api: Api) -> None:
    _, target, (message,) = await _popped(api)
    await let_lease_run_out(api)
    answer = await api.transaction([push_of(target, "out"), ack_in(message)], **_leases(message))
    assert not answer["success"]
    assert message["leaseId"] in answer["error"]
    assert await api.data(target) == []


async def test_a_message_that_is_delivered_again_is_worked_on_again(api: Api) -> None:
    source, target, (message,) = await _popped(api)
    await let_lease_run_out(api)
    (again,) = await api.pop(source)
    operations = [push_of(target, "out"), ack_in(message)]
    assert not (await api.transaction(operations, **_leases(message)))["success"]
    assert (await api.transaction(operations, **_leases(again)))["success"]
    assert await api.data(target, batch=10) == ["out"]


@pytest.mark.parametrize("names_lease", [True, False])
async def test_after_a_seek_the_same_acks_are_another_transaction(
    api: Api, names_lease: bool
) -> None:
    source, target, (message,) = await _popped(api)
    path = f"/api/v1/consumer-groups/__QUEUE_MODE__/queues/{source}/seek"
    for _ in range(2):
        more = _leases(message) if names_lease else {}
        operations = [push_of(target, "out"), ack_in(message)]
        assert (await api.transaction(operations, **more))["success"]
        assert await api.pop(source) == []
        response = await api.http.post(path, json={"timestamp": "2020-01-01T00:00:00Z"})
        assert response.json()["partitionsUpdated"] == 1
        (message,) = await api.pop(source)
    assert await api.data(target, batch=10) == ["out", "out"]


async def test_pushes_alone_may_be_meant_twice_unless_they_have_a_key(api: Api) -> None:
    queue, key = unique(), unique()
    for _ in range(2):
        assert (await api.transaction([push_of(queue, "meant")]))["success"]
    for _ in range(2):
        answer = await api.transaction([push_of(queue, "once")], idempotencyKey=key)
        assert answer["success"]
    assert await api.data(queue, batch=10) == ["meant", "meant", "once"]


async def test_a_key_is_of_one_transaction(api: Api) -> None:
    queue, key = unique(), unique()
    assert (await api.transaction([push_of(queue, 1)], idempotencyKey=key))["success"]
    answer = await api.transaction([push_of(queue, 2)], idempotencyKey=key)
    assert not answer["success"]
    assert "idempotencyKey" in answer["error"]
    assert await api.data(queue, batch=10) == [1]


async def test_a_refused_transaction_may_be_tried_again_by_its_key(api: Api) -> None:
    queue, key = unique(), unique()
    await api.configure(queue, maxSize=1)
    await api.push(queue, "first")
    operations = [push_of(queue, "second")]
    for _ in range(2):
        assert not (await api.transaction(operations, idempotencyKey=key))["success"]
    await api.configure(queue, maxSize=2)
    assert (await api.transaction(operations, idempotencyKey=key))["success"]
    assert await api.data(queue, batch=10) == ["first", "second"]


@pytest.mark.parametrize("key", ["", "x" * 256, 5])
async def test_a_bad_key_is_refused(api: Api, key: object) -> None:
    body = {"operations": [push_of(unique(), 1)], "idempotencyKey": key}
    response = await api.http.post("/api/v1/transaction", json=body)
    assert response.status_code == 400
    assert "idempotencyKey" in response.json()["error"]


async def test_copies_that_race_at_two_brokers_are_done_once(
    api: Api, broker: BrokerProcess, shared_database_url: str
) -> None:
    with running_broker(database_url=shared_database_url) as other:
        elsewhere = Api(other.url)
        try:
            for _ in range(10):
                _, target, (message,) = await _popped(api)
                operations = [push_of(target, "a"), ack_in(message), push_of(target, "b")]
                answers = await asyncio.gather(
                    *(
                        one.transaction(operations, **_leases(message))
                        for one in [api, elsewhere] * 4
                    )
                )
                assert answers[0]["success"]
                assert all(answer == answers[0] for answer in answers)
                assert await api.data(target, batch=10) == ["a", "b"]
        finally:
            await elsewhere.close()
