"""Queues, pushes and pops through the official client."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import httpx
import pytest
from queen import Queen

from tests.support.broker import unique


def data_of(messages: list[dict[str, Any]]) -> list[Any]:
    return [message["data"] for message in messages]


async def test_a_queue_is_created_configured_and_deleted(client: Queen) -> None:
    queue = unique()
    created = await client.queue(queue).create()
    assert created["configured"] is True
    assert created["options"]["leaseTime"] == 300
    options = {"lease_time": 20, "retry_limit": 7, "priority": 3, "max_size": 9}
    changed = await client.queue(queue).namespace("n").task("t").config(options).create()
    assert changed["ignored"] == [], "every name that the official client sends is known"
    assert (changed["namespace"], changed["task"]) == ("n", "t")
    names = ("leaseTime", "retryLimit", "priority", "maxSize")
    assert [changed["options"][name] for name in names] == [20, 7, 3, 9]
    assert (await client.queue(queue).delete())["deleted"] is True
    assert (await client.queue(queue).delete())["deleted"] is True


async def test_callbacks_of_create_see_success_and_error(client: Queen) -> None:
    seen: list[Any] = []

    async def note(value: Any) -> None:
        seen.append(value)

    await client.queue(unique()).create().on_success(note)
    await client.queue(unique()).config({"lease_time": -1}).create().on_error(note)
    assert seen[0]["configured"] is True
    assert "leaseTime" in str(seen[1])


async def test_one_message_is_pushed_and_popped(client: Queen) -> None:
    queue = unique()
    (answer,) = await client.queue(queue).push({"data": {"n": 1}})
    assert answer["status"] == "queued"
    (message,) = await client.queue(queue).batch(5).wait(False).pop()
    assert message["data"] == {"n": 1}
    assert message["id"] == answer["message_id"]
    assert {"transactionId", "partitionId", "leaseId", "createdAt"} <= set(message)


@pytest.mark.parametrize(
    "payload", [None, {}, 0, "", [], {"a": {"b": [1, None, "ü"]}}, "x" * 2_000_000]
)
async def test_a_payload_of_any_kind_survives(client: Queen, payload: Any) -> None:
    queue = unique()
    await client.queue(queue).push({"data": payload})
    assert data_of(await client.queue(queue).wait(False).pop()) == [payload]


async def test_a_batch_keeps_its_order(client: Queen) -> None:
    queue = unique()
    answers = await client.queue(queue).push([{"data": n} for n in range(100)])
    assert len(answers) == 100
    messages = await client.queue(queue).batch(100).wait(False).pop()
    assert data_of(messages) == list(range(100))


async def test_an_empty_batch_is_an_empty_answer(client: Queen) -> None:
    assert await client.queue(unique()).push([]) == []


async def test_a_repeated_transaction_id_calls_the_duplicate_callback(client: Queen) -> None:
    queue, seen = unique(), []

    async def note(items: list[dict[str, Any]], error: Exception) -> None:
        seen.extend(items)

    (first,) = await client.queue(queue).push({"transactionId": "same", "data": 1})
    (second,) = (
        await client.queue(queue).push({"transactionId": "same", "data": 2}).on_duplicate(note)
    )
    assert second["status"] == "duplicate"
    assert seen[0]["result"]["message_id"] == first["message_id"]


async def test_a_full_queue_raises_the_error_of_the_item(client: Queen) -> None:
    queue = unique()
    await client.queue(queue).config({"max_size": 1}).create()
    await client.queue(queue).push({"data": 1})
    with pytest.raises(Exception, match="maxSize"):
        await client.queue(queue).push({"data": 2})


async def test_a_refused_push_raises_the_sentence_of_the_server(client: Queen) -> None:
    with pytest.raises(httpx.HTTPStatusError, match="queue"):
        await client.queue("n" * 300).push({"data": 1})


async def test_a_trace_id_comes_back(client: Queen) -> None:
    queue, trace = unique(), str(uuid.uuid4())
    (answer,) = await client.queue(queue).push({"data": 1, "traceId": trace})
    assert answer["trace_id"] == trace
    (message,) = await client.queue(queue).wait(False).pop()
    assert message["traceId"] == trace


async def test_buffered_pushes_arrive_when_flushed(client: Queen) -> None:
    queue = unique()
    options = {"message_count": 1000, "time_millis": 600_000}
    for n in range(25):
        answer = await client.queue(queue).buffer(options).push({"data": n})
        assert answer["buffered"] is True
    assert await client.queue(queue).wait(False).pop() == []
    await client.queue(queue).flush_buffer()
    assert data_of(await client.queue(queue).batch(100).wait(False).pop()) == list(range(25))


async def test_a_full_buffer_flushes_itself(client: Queen) -> None:
    queue = unique()
    options = {"message_count": 10, "time_millis": 600_000}
    for n in range(10):
        await client.queue(queue).buffer(options).push({"data": n})
    messages = await client.queue(queue).batch(10).wait(True).pop()
    assert data_of(messages) == list(range(10))


async def test_a_buffer_flushes_when_its_time_is_up(client: Queen) -> None:
    queue = unique()
    await client.queue(queue).buffer({"message_count": 1000, "time_millis": 100}).push({"data": 1})
    assert data_of(await client.queue(queue).wait(True).pop()) == [1]


async def test_buffers_are_flushed_together(client: Queen) -> None:
    queues = [unique() for _ in range(3)]
    for queue in queues:
        options = {"message_count": 1000, "time_millis": 600_000}
        await client.queue(queue).partition("p").buffer(options).push([{"data": 1}, {"data": 2}])
    await client.flush_all_buffers()
    for queue in queues:
        assert data_of(await client.queue(queue).batch(9).wait(False).pop()) == [1, 2]


async def test_a_pop_that_waits_is_woken(client: Queen) -> None:
    queue = unique()
    waiting = asyncio.create_task(client.queue(queue).wait(True).pop())
    assert await client.queue(queue).wait(False).pop() == []
    await client.queue(queue).push({"data": 1})
    assert data_of(await waiting) == [1]


async def test_a_pop_that_waits_in_vain_is_empty(client: Queen) -> None:
    assert await client.queue(unique()).wait(True).timeout_millis(100).pop() == []


@pytest.mark.parametrize("name", ["p", "two words", "a/b", "a:b", "ключ", "Default"])
async def test_partitions_are_popped_by_name(client: Queen, name: str) -> None:
    queue = unique()
    await client.queue(queue).partition(name).push([{"data": name}, {"data": 2}])
    messages = await client.queue(queue).partition(name).batch(9).wait(False).pop()
    assert data_of(messages) == [name, 2]
    assert {message["partition"] for message in messages} == {name}


async def test_one_pop_drains_several_partitions(client: Queen) -> None:
    queue = unique()
    for n in range(5):
        await client.queue(queue).partition(f"p{n}").push([{"data": m} for m in range(20)])
    messages = await client.queue(queue).batch(10).partitions(5).wait(False).pop()
    assert len(messages) == 10
    assert len({message["leaseId"] for message in messages}) == 1
    results = await client.ack(messages)
    assert results["success"] is True
    assert len(await client.queue(queue).batch(1000).partitions(5).wait(False).pop()) == 90


async def test_without_partitions_one_pop_takes_one(client: Queen) -> None:
    queue = unique()
    for n in range(3):
        await client.queue(queue).partition(f"p{n}").push([{"data": m} for m in range(5)])
    messages = await client.queue(queue).batch(100).wait(False).pop()
    assert data_of(messages) == list(range(5))
    assert len({message["partition"] for message in messages}) == 1


async def test_queues_are_popped_by_namespace_and_task(client: Queen) -> None:
    namespace, queue = unique("namespace"), unique()
    await client.queue(queue).namespace(namespace).task("t").create()
    await client.queue(queue).push({"data": 1})
    (message,) = await client.queue().namespace(namespace).task("t").wait(False).pop()
    assert (message["data"], message["queue"]) == (1, queue)


@pytest.mark.parametrize("option", ["delayed_processing", "window_buffer"])
async def test_messages_can_be_held_back(client: Queen, option: str) -> None:
    queue = unique()
    await client.queue(queue).config({option: 1}).create()
    await client.queue(queue).push([{"data": 1}, {"data": 2}])
    assert data_of(await client.queue(queue).batch(9).wait(True).pop()) == [1, 2]


async def test_a_queue_is_cleared_through_the_admin_api(client: Queen) -> None:
    queue = unique()
    await client.queue(queue).push([{"data": 1}, {"data": 2}])
    assert (await client.admin.clear_queue(queue))["success"] is True
    assert await client.queue(queue).wait(False).pop() == []
