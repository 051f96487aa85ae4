"""GET /api/v1/pop/queue/...: what is delivered, how much of it, and the shape of the answer."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Any

import pytest

from tests.conformance.shorthand import drain
from tests.support.broker import Api, unique


async def answer_of(api: Api, queue: str, **query: Any) -> dict[str, Any]:
    response = await api.http.get(f"/api/v1/pop/queue/{queue}", params=query)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def fill(api: Api, queue: str, *, partitions: int, messages: int) -> None:
    """The same numbers into each partition."""
    await api.push_items(
        [
            {"queue": queue, "partition": f"p{place}", "payload": n}
            for place in range(partitions)
            for n in range(messages)
        ]
    )


async def test_an_answer_has_the_documented_fields(api: Api) -> None:
    queue = unique()
    (pushed,) = await api.push(queue, 1, partition="a")
    answer = await answer_of(api, queue, consumerGroup="g")
    message = answer["messages"][0]
    assert answer["success"] is True
    assert (answer["queue"], answer["partition"]) == (queue, "a")
    assert answer["partitionId"] == pushed["partition_id"] == message["partitionId"]
    assert answer["consumerGroup"] == message["consumerGroup"] == "g"
    assert answer["leaseId"] == message["leaseId"] != ""
    assert answer["partitionsClaimed"] == 1
    assert {
        "id",
        "transactionId",
        "traceId",
        "data",
        "producerSub",
        "createdAt",
        "partition",
    } <= set(message)
    assert (message["queue"], message["partition"], message["retryCount"]) == (queue, "a", 0)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", message["createdAt"])


async def test_an_empty_pop_answers_204_without_a_body(api: Api) -> None:
    response = await api.http.get(f"/api/v1/pop/queue/{unique()}")
    assert response.status_code == 204
    assert response.content == b""


async def test_unknown_queues_and_partitions_are_empty_and_not_created(api: Api) -> None:
    queue = unique()
    assert await api.pop(queue) == []
    assert await api.pop(queue, partition="a") == []
    await api.push(queue, 1)
    assert await api.pop(queue, partition="a") == []
    deleted = await api.http.delete(f"/api/v1/resources/queues/{unique()}")
    assert deleted.json()["existed"] is False


async def test_the_default_batch_is_one(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(3))
    assert await api.data(queue) == [0]


async def test_messages_of_a_partition_come_first_in_first_out(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(50))
    found = []
    while messages := await api.pop(queue, batch=7):
        assert len(messages) <= 7
        found += [message["data"] for message in messages]
        await api.ack(*messages)
    assert found == list(range(50))


async def test_batch_caps_the_whole_answer_over_several_partitions(api: Api) -> None:
    queue = unique()
    await fill(api, queue, partitions=5, messages=100)
    answer = await answer_of(api, queue, batch=10, partitions=5)
    assert len(answer["messages"]) == 10
    counts = Counter(message["partition"] for message in answer["messages"])
    for partition, count in counts.items():
        mine = [one["data"] for one in answer["messages"] if one["partition"] == partition]
        assert mine == list(range(count))
    assert answer["partitionsClaimed"] == len(counts)


async def test_without_partitions_one_pop_drains_one_partition(api: Api) -> None:
    queue = unique()
    await fill(api, queue, partitions=5, messages=20)
    answer = await answer_of(api, queue, batch=1000)
    assert [message["data"] for message in answer["messages"]] == list(range(20))
    assert len({message["partition"] for message in answer["messages"]}) == 1
    assert answer["partitionsClaimed"] == 1


async def test_several_partitions_share_one_lease_id(api: Api) -> None:
    queue = unique()
    await fill(api, queue, partitions=5, messages=3)
    answer = await answer_of(api, queue, batch=100, partitions=4)
    assert answer["partitionsClaimed"] == 4
    assert len(answer["messages"]) == 12
    assert {message["leaseId"] for message in answer["messages"]} == {answer["leaseId"]}
    assert len({message["partitionId"] for message in answer["messages"]}) == 4


async def test_partitions_left_over_by_one_pop_are_free_for_the_next(api: Api) -> None:
    queue = unique()
    await fill(api, queue, partitions=6, messages=2)
    first = await answer_of(api, queue, batch=100, partitions=3)
    second = await answer_of(api, queue, batch=100, partitions=6)
    names = [{message["partition"] for message in one["messages"]} for one in (first, second)]
    assert len(names[0]) == len(names[1]) == 3
    assert names[0].isdisjoint(names[1])
    assert await api.pop(queue, batch=100, partitions=6) == []


async def test_a_full_batch_leaves_the_partitions_it_did_not_need_unleased(api: Api) -> None:
    queue = unique()
    await fill(api, queue, partitions=5, messages=10)
    first = await api.pop(queue, batch=10, partitions=5)
    taken = {message["partition"] for message in first}
    rest = await api.pop(queue, batch=1000, partitions=5)
    assert {message["partition"] for message in rest} == {f"p{n}" for n in range(5)} - taken


async def test_partitions_is_ignored_when_the_path_names_one(api: Api) -> None:
    queue = unique()
    await fill(api, queue, partitions=3, messages=2)
    messages = await api.pop(queue, partition="p1", batch=100, partitions=3)
    assert {message["partition"] for message in messages} == {"p1"}
    assert len(messages) == 2


async def test_a_leased_partition_is_closed_to_its_group_only(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    assert await api.data(queue, batch=1, consumerGroup="a") == [1]
    assert await api.data(queue, batch=1, consumerGroup="a") == []
    assert await api.data(queue, partition="Default", consumerGroup="a") == []
    assert await api.data(queue, batch=2, consumerGroup="b") == [1, 2]
    assert await api.data(queue, batch=2) == [1, 2]


async def test_groups_have_cursors_of_their_own(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(10))
    for group in ("a", "b", "c"):
        assert await drain(api, queue, consumerGroup=group) == list(range(10))
        assert await drain(api, queue, consumerGroup=group) == []
    assert await drain(api, queue) == list(range(10))


@pytest.mark.parametrize("spelling", ["", "__QUEUE_MODE__"], ids=["empty", "spelt-out"])
async def test_the_default_group_may_be_left_out(api: Api, spelling: str) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    (message,) = await api.pop(queue)
    assert message["consumerGroup"] == "__QUEUE_MODE__"
    assert await api.pop(queue, consumerGroup=spelling) == []


async def test_auto_ack_leases_nothing_and_moves_on(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(4))
    answer = await answer_of(api, queue, batch=2, autoAck="true")
    assert answer["leaseId"] == ""
    assert [message["leaseId"] for message in answer["messages"]] == ["", ""]
    assert await api.data(queue, batch=10) == [2, 3]


async def test_auto_ack_over_several_partitions_passes_each_of_them(api: Api) -> None:
    queue = unique()
    await fill(api, queue, partitions=4, messages=5)
    found = await drain(api, queue, batch=7, partitions=4)
    assert sorted(found) == sorted(list(range(5)) * 4)


async def test_concurrent_pops_never_share_a_partition(api: Api) -> None:
    queue = unique()
    await fill(api, queue, partitions=20, messages=3)
    answers = await asyncio.gather(*(api.pop(queue, batch=3) for _ in range(30)))
    found = [messages for messages in answers if messages]
    assert len(found) == 20
    assert len({messages[0]["partition"] for messages in found}) == 20
    assert all([one["data"] for one in messages] == [0, 1, 2] for messages in found)


async def test_concurrent_auto_acked_pops_deliver_every_message_once(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(60))
    found: list[int] = []

    async def work() -> None:
        while batch := await api.data(queue, batch=4, autoAck=True):
            found.extend(batch)

    await asyncio.gather(*(work() for _ in range(8)))
    found += await drain(api, queue)
    assert sorted(found) == list(range(60))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"batch": "two"}, [0]),
        ({"batch": ""}, [0]),
        ({"batch": "2", "partitions": "many"}, [0, 1]),
        ({"batch": "2", "timeout": "soon", "wait": "yes"}, [0, 1]),
        ({"batch": "2", "namespace": "other", "task": "other"}, [0, 1]),
        ({"batch": "2", "unknown": "x"}, [0, 1]),
        ({"batch": "2", "wait": "1"}, [0, 1]),
    ],
    ids=["text", "empty", "partitions", "timeout", "namespace", "unknown", "wait"],
)
async def test_values_that_do_not_parse_fall_back_to_the_default(
    api: Api, query: dict[str, str], expected: list[int]
) -> None:
    queue = unique()
    await api.push(queue, *range(3))
    assert await api.data(queue, **query) == expected


@pytest.mark.parametrize(
    ("value", "is_leased"),
    [("true", False), ("1", False), ("false", True), ("yes", True), ("True", True), ("", True)],
)
async def test_booleans_are_true_for_true_and_1_only(api: Api, value: str, is_leased: bool) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = await api.pop(queue, autoAck=value)
    assert bool(message["leaseId"]) is is_leased
