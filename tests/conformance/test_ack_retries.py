"""Failures: how often a message is redelivered, when, and what a mixed batch does."""

from __future__ import annotations

import pytest

from tests.conformance.shorthand import ack_of, drain, next_of, settle
from tests.support.broker import Api, unique


async def fail_until_dead(api: Api, queue: str, *, group: str | None = None) -> int:
    """Fail the first message until it is a dead letter; how often it was delivered."""
    query = {"consumerGroup": group} if group else {}
    for attempt in range(1, 20):
        (message,) = await api.pop(queue, **query)
        assert message["retryCount"] == attempt - 1
        (result,) = await api.ack(message, status="failed", error=f"attempt {attempt}", group=group)
        assert result["success"] and result["leaseReleased"]
        if result["dlq"]:
            return attempt
    raise AssertionError("the message was never given up")


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
async def test_a_retry_limit_is_the_number_of_redeliveries(api: Api, limit: int) -> None:
    queue = unique()
    await api.configure(queue, retryLimit=limit)
    await api.push(queue, "bad", "next")
    assert await fail_until_dead(api, queue) == limit + 1
    (letter,) = await api.dead_letters(queue)
    assert letter["data"] == "bad"
    assert letter["errorMessage"] == f"attempt {limit + 1}"
    assert letter["retryCount"] == limit
    assert await drain(api, queue) == ["next"]


async def test_the_default_retry_limit_is_three(api: Api) -> None:
    queue = unique()
    await api.push(queue, "bad")
    assert await fail_until_dead(api, queue) == 4


async def test_a_message_may_succeed_on_its_last_attempt(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryLimit=2)
    await api.push(queue, 1)
    for _ in range(2):
        await api.ack(*await api.pop(queue), status="failed")
    await api.ack(*await api.pop(queue))
    assert await api.pop(queue) == []
    assert await api.dead_letters(queue) == []


async def test_each_message_has_retries_of_its_own(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryLimit=1)
    await api.push(queue, *range(3))
    for n in range(3):
        assert await fail_until_dead(api, queue) == 2
        assert len(await api.dead_letters(queue)) == n + 1


async def test_retries_of_one_message_do_not_count_for_the_next_of_its_batch(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryLimit=1)
    await api.push(queue, "a", "b")
    first, second = await api.pop(queue, batch=2)
    await settle(api, ack_of(first, "failed"))
    first, second = await api.pop(queue, batch=2)
    results = await settle(api, ack_of(first), ack_of(second, "failed"))
    assert [result["dlq"] for result in results] == [False, False]
    assert await drain(api, queue) == ["b"]


async def test_failing_a_whole_batch_is_one_retry(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryLimit=1)
    await api.push(queue, *range(10))
    results = await api.ack(*await api.pop(queue, batch=10), status="failed")
    assert all(result["success"] and result["leaseReleased"] for result in results)
    assert not any(result["dlq"] for result in results)
    assert await api.data(queue, batch=10) == list(range(10))


async def test_groups_count_their_retries_apart(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryLimit=1)
    await api.push(queue, 1)
    assert await fail_until_dead(api, queue, group="a") == 2
    assert await fail_until_dead(api, queue, group="b") == 2
    letters = await api.dead_letters(queue)
    assert sorted(letter["consumerGroup"] for letter in letters) == ["a", "b"]
    assert await drain(api, queue) == [1]


async def test_a_failure_in_the_middle_stops_the_batch_there_and_loses_nothing(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(5))
    messages = await api.pop(queue, batch=5)
    statuses = ["completed", "completed", "failed", "completed", "completed"]
    acks = [ack_of(one, status) for one, status in zip(messages, statuses, strict=True)]
    results = await settle(api, *acks)
    assert [result["success"] for result in results] == [True, True, True, False, False]
    assert results[3]["error"] and results[4]["error"]
    assert await drain(api, queue) == [2, 3, 4]
    assert await api.dead_letters(queue) == []


@pytest.mark.parametrize("word", ["failed", "retry"])
async def test_completed_then_failed_then_completed_redelivers_from_the_failure(
    api: Api, word: str
) -> None:
    queue = unique()
    await api.push(queue, "a", "b", "c")
    first, second, third = await api.pop(queue, batch=3)
    # The order of the request does not matter; that of the messages does.
    await settle(api, ack_of(third), ack_of(second, word), ack_of(first))
    assert await drain(api, queue) == ["b", "c"]


async def test_a_dead_letter_in_the_middle_does_not_stop_the_batch(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(4))
    messages = await api.pop(queue, batch=4)
    statuses = ["completed", "dlq", "completed", "completed"]
    acks = [ack_of(one, status) for one, status in zip(messages, statuses, strict=True)]
    results = await settle(api, *acks)
    assert all(result["success"] for result in results)
    assert [result["dlq"] for result in results] == [False, True, False, False]
    assert await api.pop(queue) == []
    assert [letter["data"] for letter in await api.dead_letters(queue)] == [1]


async def test_an_exhausted_message_in_the_middle_does_not_stop_the_batch(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryLimit=0)
    await api.push(queue, *range(3))
    messages = await api.pop(queue, batch=3)
    statuses = ["completed", "failed", "completed"]
    acks = [ack_of(one, status) for one, status in zip(messages, statuses, strict=True)]
    results = await settle(api, *acks)
    assert [(result["success"], result["dlq"]) for result in results] == [
        (True, False), (True, True), (True, False),
    ]  # fmt: skip
    assert await api.pop(queue) == []


async def test_a_failure_in_one_partition_leaves_the_others_alone(api: Api) -> None:
    queue = unique()
    await api.push_items(
        [{"queue": queue, "partition": p, "payload": f"{p}{n}"} for p in "ab" for n in range(2)]
    )
    messages = await api.pop(queue, batch=4, partitions=2)
    acks = [ack_of(one, "failed" if one["data"] == "a0" else "completed") for one in messages]
    await settle(api, *acks)
    assert await drain(api, queue) == ["a0", "a1"]


async def test_a_later_ack_of_a_stopped_batch_is_refused(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    first, second = await api.pop(queue, batch=2)
    await settle(api, ack_of(first, "failed"))
    (result,) = await settle(api, ack_of(second))
    assert (result["success"], result["error"]) == (False, "Invalid or expired lease")
    assert await drain(api, queue) == [1, 2]


async def test_a_message_that_was_never_leased_cannot_fail(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryLimit=0)
    (pushed,) = await api.push(queue, 1)
    ack = {"transactionId": pushed["transaction_id"], "partitionId": pushed["partition_id"]}
    for status in ("failed", "dlq", "retry"):
        (result,) = await settle(api, {**ack, "status": status})
        assert result["success"] is False and result["error"]
    assert await api.dead_letters(queue) == []
    assert await drain(api, queue) == [1]


async def test_a_retry_delay_holds_the_redelivery_back(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryDelay=3_600_000)
    await api.push(queue, 1, 2)
    await api.ack(*await api.pop(queue), status="failed")
    assert await api.pop(queue) == []
    assert await api.pop(queue, partition="Default") == []
    assert await api.data(queue, consumerGroup="other") == [1]


async def test_a_waiting_pop_gets_the_message_when_its_retry_delay_is_over(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryDelay=300)
    await api.push(queue, 1)
    await api.ack(*await api.pop(queue), status="failed")
    (message,) = await next_of(api, queue)
    assert (message["data"], message["retryCount"]) == (1, 1)


async def test_what_is_given_back_does_not_wait_for_the_retry_delay(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryDelay=3_600_000)
    await api.push(queue, 1, 2)
    await api.ack(*await api.pop(queue), status="retry")
    assert await api.data(queue, batch=10) == [1, 2]


async def test_a_failure_without_an_error_text_still_says_why_it_is_dead(api: Api) -> None:
    queue = unique()
    await api.configure(queue, retryLimit=0)
    await api.push(queue, 1)
    await api.ack(*await api.pop(queue), status="failed")
    (letter,) = await api.dead_letters(queue)
    assert letter["errorMessage"] == "Retries exhausted"


async def test_an_error_text_of_any_length_and_script_is_kept(api: Api) -> None:
    queue, text = unique(), "ошибка 💥 'quoted' " * 1000
    await api.push(queue, 1)
    await api.ack(*await api.pop(queue), status="dlq", error=text)
    (letter,) = await api.dead_letters(queue)
    assert letter["errorMessage"] == text
