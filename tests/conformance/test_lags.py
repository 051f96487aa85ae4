"""The lag of a group is the same number everywhere, and matches what the group gets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.shorthand import drain
from tests.support.broker import Api, unique

GROUPS = "/api/v1/consumer-groups"
LONG_AGO = "2001-01-01T00:00:00Z"


async def _get(api: Api, path: str, **query: Any) -> Any:
    response = await api.http.get(path, params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def lags(api: Api, queue: str, group: str) -> dict[str, int]:
    """The lag of a group on a queue, by the place that tells it."""
    (entry,) = [
        one for one in await _get(api, GROUPS) if (one["name"], one["queueName"]) == (group, queue)
    ]
    shown = await _get(api, f"{GROUPS}/{group}")
    late = [
        row
        for row in await _get(api, f"{GROUPS}/lagging", minLagSeconds=0)
        if (row["consumer_group"], row["queue_name"]) == (group, queue)
    ]
    parts = shown.get(queue, {"partitions": []})["partitions"]
    assert entry["partitionsWithLag"] == len(late)
    assert entry["partitionsWithLag"] == sum(part["offsetLag"] > 0 for part in parts)
    return {
        "list": entry["totalLag"],
        "show": sum(part["offsetLag"] for part in parts),
        "lagging": sum(row["offset_lag"] for row in late),
        "why": (await _get(api, f"/api/v1/why/{queue}", consumerGroup=group))["backlog"],
    }


async def check(api: Api, queue: str, group: str, expected: int) -> None:
    found = await lags(api, queue, group)
    assert found == dict.fromkeys(found, expected)


async def pending(api: Api, queue: str) -> set[int]:
    """Return the backlog of a queue, as each route reports it."""
    listed = await _get(api, "/api/v1/resources/queues", search=queue)
    (one,) = [row for row in listed["queues"] if row["name"] == queue]
    shown = await _get(api, f"/api/v1/resources/queues/{queue}")
    status = await _get(api, f"/api/v1/status/queues/{queue}")
    return {
        one["messages"]["pending"],
        shown["totals"]["pending"],
        status["totals"]["messages"]["pending"],
    }


async def test_partitions_that_a_group_has_not_visited_count(api: Api) -> None:
    queue, group = unique(), unique("group")
    await api.push(queue, 0, partition="visited")
    assert await drain(api, queue, consumerGroup=group) == [0]
    await api.push(queue, 1, 2, partition="a")
    await api.push(queue, 3, 4, partition="b")
    await check(api, queue, group, 4)
    assert sorted(await drain(api, queue, consumerGroup=group)) == [1, 2, 3, 4]
    await check(api, queue, group, 0)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ({"subscriptionMode": "new"}, [4, 5]),
        ({"subscriptionFrom": LONG_AGO}, [1, 2, 3, 4, 5]),
        ({"subscriptionFrom": "2999-01-01T00:00:00Z"}, []),
    ],
    ids=["new", "time", "future"],
)
@pytest.mark.parametrize("partition", [None, "a"], ids=["queue", "partition"])
async def test_group_that_has_only_a_start_has_what_comes_after_it(
    api: Api, start: dict[str, str], expected: list[int], partition: str | None
) -> None:
    queue, group = unique(), unique("group")
    await api.push(queue, 1, 2, 3, partition="a")
    query = {"consumerGroup": group, **start}
    await api.configure(queue, delayedProcessing=3600)
    assert await api.pop(queue, partition=partition, **query) == []
    await api.push(queue, 4, partition="a")
    await api.push(queue, 5, partition="a" if partition else "b")
    await check(api, queue, group, len(expected))
    await api.configure(queue, delayedProcessing=0)
    assert sorted(await drain(api, queue, consumerGroup=group)) == expected
    await check(api, queue, group, 0)


async def test_deleted_messages_and_those_of_the_default_group_count_right(api: Api) -> None:
    queue = unique()
    await api.push(queue, 0, partition="visited")
    assert await drain(api, queue) == [0]
    await api.push(queue, *range(4), partition="other")
    seen = await api.pop(queue, consumerGroup="reader", partition="other", batch=4, autoAck=True)
    path = f"/api/v1/messages/{seen[2]['partitionId']}/{seen[2]['transactionId']}"
    assert (await api.http.delete(path)).status_code == 200
    await check(api, queue, "__QUEUE_MODE__", 3)
    assert await drain(api, queue) == [0, 1, 3]
    await check(api, queue, "__QUEUE_MODE__", 0)


async def test_queue_counts_as_pending_what_some_group_has_before_it(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2, partition="a")
    assert await pending(api, queue) == {2}
    assert await api.pop(queue, consumerGroup="late", subscriptionMode="new") == []
    assert await pending(api, queue) == {0}
    await api.push(queue, 3, partition="a")
    await api.push(queue, 4, 5, partition="b")
    assert await pending(api, queue) == {3}
    assert sorted(await drain(api, queue, consumerGroup="early")) == [1, 2, 3, 4, 5]
    assert await pending(api, queue) == {3}
    assert sorted(await drain(api, queue, consumerGroup="late")) == [3, 4, 5]
    assert await pending(api, queue) == {0}


async def test_bound_of_a_queue_counts_what_subscribers_have_before_them(api: Api) -> None:
    queue = unique()
    await api.configure(queue, maxSize=2)
    await api.push(queue, 1, 2)
    assert await api.pop(queue, consumerGroup="g", subscriptionMode="new") == []
    answers = await api.push_items([{"queue": queue, "payload": n} for n in (3, 4, 5)])
    assert [one["status"] for one in answers] == ["queued", "queued", "failed"]


async def test_seek_to_the_end_leaves_a_subscriber_nothing(api: Api) -> None:
    queue, group = unique(), unique("group")
    assert await api.pop(queue, consumerGroup=group, subscriptionMode="new") == []
    for partition in "abc":
        await api.push(queue, 1, partition=partition)
    await check(api, queue, group, 3)
    path = f"{GROUPS}/{group}/queues/{queue}"
    one = await api.http.post(f"{path}/partitions/a/seek")
    assert one.json()["updated"] is True
    await check(api, queue, group, 2)
    response = await api.http.post(f"{path}/seek", json={"toEnd": True})
    assert response.json()["partitionsUpdated"] == 3
    await check(api, queue, group, 0)
    await api.http.post(f"{path}/seek", json={"timestamp": LONG_AGO})
    await check(api, queue, group, 3)
    assert await drain(api, queue, consumerGroup=group) == [1, 1, 1]


async def test_group_that_waits_for_its_first_message_is_not_called_dead(api: Api) -> None:
    queue, group = unique(), unique("group")
    await api.push(queue, "old")
    assert await api.pop(queue, consumerGroup=group, subscriptionMode="new") == []
    (entry,) = [one for one in await _get(api, GROUPS) if one["name"] == group]
    assert (entry["members"], entry["totalLag"], entry["state"]) == (0, 0, "Stable")
