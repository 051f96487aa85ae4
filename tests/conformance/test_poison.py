"""Messages on which a consumer dies: leases that run out count, and guilt is found one by one."""

from __future__ import annotations

from typing import Any

from tests.conformance.shorthand import drain, next_of
from tests.support.broker import Api, unique


async def next_data(api: Api, queue: str, **query: Any) -> list[Any]:
    return [message["data"] for message in await next_of(api, queue, batch=10, **query)]


async def test_after_as_many_expiries_as_retries_messages_come_one_at_a_time(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1, retryLimit=2)
    await api.push(queue, "ok", "bad", "fine")
    assert await next_data(api, queue) == ["ok", "bad", "fine"]
    assert await next_data(api, queue) == ["ok", "bad", "fine"]
    (first,) = await next_of(api, queue, batch=10)
    assert first["data"] == "ok"
    # Without the lease: a machine that stalls for a second must not turn this ack into a refusal.
    await api.ack(first, lease=False)
    assert await next_data(api, queue) == ["bad"]
    assert await next_data(api, queue) == ["fine"]
    (letter,) = await api.dead_letters(queue)
    assert letter["data"] == "bad"
    assert "lease expired" in letter["errorMessage"].lower()


async def test_a_poison_message_is_skipped_without_a_dead_letter_when_told_so(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1, retryLimit=1, onPoison="skip")
    await api.push(queue, "bad", "next")
    assert await next_data(api, queue) == ["bad", "next"]
    assert await next_data(api, queue) == ["bad"]
    assert await next_data(api, queue) == ["next"]
    assert await api.dead_letters(queue) == []


async def test_a_poison_message_blocks_its_partition_and_group_when_told_so(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1, retryLimit=1, onPoison="block")
    await api.push(queue, "bad", "next")
    assert await next_data(api, queue) == ["bad", "next"]
    (bad,) = await next_of(api, queue, batch=10)
    assert await api.pop(queue, batch=10, wait=True, timeout=2000) == []
    await api.push(queue, "elsewhere", partition="other")
    assert await drain(api, queue) == ["elsewhere"]
    assert await drain(api, queue, partition="Default", consumerGroup="other") == ["bad", "next"]
    assert await api.dead_letters(queue) == []
    (result,) = await api.ack(bad, lease=False)
    assert result["success"]
    assert await next_data(api, queue) == ["next"]


async def test_a_blocked_partition_goes_on_when_the_queue_is_told_otherwise(api: Api) -> None:
    queue = unique()
    options = {"leaseTime": 1, "retryLimit": 1}
    await api.configure(queue, **options, onPoison="block")
    await api.push(queue, "bad")
    await next_of(api, queue)
    await next_of(api, queue)
    assert await api.pop(queue, wait=True, timeout=2000) == []
    await api.configure(queue, **options, onPoison="dlq")
    assert await next_data(api, queue) == ["bad"]


async def test_innocent_messages_of_a_condemned_batch_are_delivered(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1, retryLimit=1)
    await api.push(queue, *range(5))
    assert await next_data(api, queue) == [0, 1, 2, 3, 4]
    await api.configure(queue, leaseTime=60, retryLimit=1)
    for n in range(5):
        (message,) = await next_of(api, queue, batch=10)
        assert message["data"] == n
        await api.ack(message)
    await api.push(queue, 5, 6, 7)
    assert await api.data(queue, batch=10) == [5, 6, 7]
    assert await api.dead_letters(queue) == []


async def test_a_consumer_that_makes_progress_is_not_condemned(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1, retryLimit=1)
    await api.push(queue, *range(6))
    for n in range(3):
        messages = await next_of(api, queue, batch=10)
        assert [message["data"] for message in messages] == list(range(n, 6))[: len(messages)]
        await api.ack(messages[0], lease=False)
    assert await api.dead_letters(queue) == []


async def test_expiries_of_one_group_do_not_count_for_another(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1, retryLimit=1)
    await api.push(queue, 1, 2)
    assert await next_data(api, queue, consumerGroup="a") == [1, 2]
    assert await next_data(api, queue, consumerGroup="a") == [1]
    assert await next_data(api, queue, consumerGroup="b") == [1, 2]


async def test_an_expiry_is_told_to_the_next_consumer(api: Api) -> None:
    queue = unique()
    await api.configure(queue, leaseTime=1, retryLimit=5)
    await api.push(queue, 1)
    counts = [(await next_of(api, queue))[0]["retryCount"] for _ in range(3)]
    assert counts == [0, 1, 2]
