"""The start of a consumer group that is new to a queue, which Queen remembers."""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance.shorthand import SOON_MS, drain
from tests.support.broker import Api, unique

FROM_NOW = {
    "new": {"subscriptionMode": "new"},
    "new-only": {"subscriptionMode": "new-only"},
    "now": {"subscriptionFrom": "now"},
    "now-beats-all": {"subscriptionFrom": "now", "subscriptionMode": "all"},
}
FROM_OLDEST = {
    "none": {},
    "all": {"subscriptionMode": "all"},
    "unknown-word": {"subscriptionMode": "from_beginning"},
    "empty": {"subscriptionMode": "", "subscriptionFrom": ""},
}


@pytest.mark.parametrize("start", FROM_NOW.values(), ids=FROM_NOW)
async def test_a_group_from_now_gets_only_what_is_pushed_later(
    api: Api, start: dict[str, str]
) -> None:
    queue = unique()
    await api.push(queue, *range(5))
    assert await drain(api, queue, consumerGroup="g", **start) == []
    await api.push(queue, 5, 6, 7)
    assert await drain(api, queue, consumerGroup="g", **start) == [5, 6, 7]


@pytest.mark.parametrize("start", FROM_OLDEST.values(), ids=FROM_OLDEST)
async def test_any_other_group_starts_at_the_oldest_message(
    api: Api, start: dict[str, str]
) -> None:
    queue = unique()
    await api.push(queue, 1, 2, 3)
    assert await drain(api, queue, consumerGroup="g", **start) == [1, 2, 3]


@pytest.mark.parametrize("start", FROM_NOW.values(), ids=FROM_NOW)
async def test_a_start_is_remembered_and_need_not_be_repeated(
    api: Api, start: dict[str, str]
) -> None:
    queue = unique()
    await api.push_items([{"queue": queue, "partition": p, "payload": "old"} for p in "ab"])
    assert await drain(api, queue, consumerGroup="g", **start) == []
    await api.push_items([{"queue": queue, "partition": p, "payload": "new"} for p in "ab"])
    assert await drain(api, queue, consumerGroup="g") == ["new", "new"]


async def test_the_first_start_of_a_group_wins(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    assert await drain(api, queue, consumerGroup="g", subscriptionMode="new") == []
    assert await drain(api, queue, consumerGroup="g", subscriptionMode="all") == []
    assert await drain(api, queue, consumerGroup="g", subscriptionFrom="2001-01-01T00:00:00Z") == []


async def test_a_group_with_a_cursor_is_not_moved_by_a_mode(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2, 3)
    assert await api.data(queue, consumerGroup="g", autoAck=True) == [1]
    assert await drain(api, queue, consumerGroup="g", subscriptionMode="new") == [2, 3]


@pytest.mark.parametrize("start", FROM_NOW.values(), ids=FROM_NOW)
async def test_a_group_from_now_on_an_empty_queue_gets_everything_after_its_first_poll(
    api: Api, start: dict[str, str]
) -> None:
    queue = unique()
    await api.configure(queue)
    assert await api.pop(queue, consumerGroup="g", **start) == []
    await api.push(queue, 1, 2)
    await api.push(queue, 3, partition="other")
    assert sorted(await drain(api, queue, consumerGroup="g", **start)) == [1, 2, 3]


@pytest.mark.parametrize("start", FROM_NOW.values(), ids=FROM_NOW)
async def test_a_group_from_now_on_an_unknown_queue_gets_everything_after_its_first_poll(
    api: Api, start: dict[str, str]
) -> None:
    queue = unique()
    assert await api.pop(queue, consumerGroup="g", **start) == []
    await api.push(queue, 1, 2)
    assert await drain(api, queue, consumerGroup="g", **start) == [1, 2]


async def test_a_group_from_now_that_waits_gets_the_first_message(api: Api) -> None:
    queue = unique()
    query = {"consumerGroup": "g", "subscriptionMode": "new"}
    waiting = asyncio.create_task(api.data(queue, wait=True, timeout=SOON_MS, **query))
    assert await api.pop(queue, **query) == []
    await api.push(queue, "first")
    assert await waiting == ["first"]


async def test_partitions_created_later_are_delivered_whole_to_a_group_from_now(api: Api) -> None:
    queue = unique()
    await api.push(queue, "old", partition="a")
    assert await api.pop(queue, consumerGroup="g", subscriptionMode="new") == []
    await api.push(queue, *range(5), partition="b")
    assert await drain(api, queue, consumerGroup="g") == list(range(5))


async def test_a_start_on_the_partition_route_is_for_that_partition_only(api: Api) -> None:
    queue = unique()
    await api.push_items([{"queue": queue, "partition": p, "payload": p} for p in "ab"])
    query = {"consumerGroup": "g", "subscriptionMode": "new"}
    assert await api.pop(queue, partition="a", **query) == []
    assert await drain(api, queue, consumerGroup="g") == ["b"]
    await api.push(queue, "later", partition="a")
    assert await drain(api, queue, consumerGroup="g") == ["later"]


async def test_the_default_group_always_starts_at_the_oldest_message(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    assert await drain(api, queue, subscriptionMode="new") == [1, 2]
    other = unique()
    await api.push(other, 1, 2)
    assert await drain(api, other, subscriptionFrom="now") == [1, 2]


async def test_groups_start_independently(api: Api) -> None:
    queue = unique()
    await api.push(queue, "old")
    assert await drain(api, queue, consumerGroup="late", subscriptionMode="new") == []
    assert await drain(api, queue, consumerGroup="full") == ["old"]
    await api.push(queue, "new")
    assert await drain(api, queue, consumerGroup="late") == ["new"]
    assert await drain(api, queue, consumerGroup="full") == ["new"]


async def times_of(api: Api, queue: str, count: int) -> list[str]:
    """Push numbers one by one; the time at which each was created."""
    for n in range(count):
        await api.push(queue, n)
    messages = await api.pop(queue, batch=count, consumerGroup="clock", autoAck=True)
    return [message["createdAt"] for message in messages]


async def test_a_group_from_a_time_gets_messages_created_at_or_after_it(api: Api) -> None:
    queue = unique()
    times = await times_of(api, queue, 6)
    for n, time in enumerate(times):
        found = await drain(api, queue, consumerGroup=f"g{n}", subscriptionFrom=time)
        assert found == list(range(n, 6))


async def test_a_time_beats_a_mode_and_is_remembered(api: Api) -> None:
    queue = unique()
    times = await times_of(api, queue, 4)
    query = {"subscriptionFrom": times[2], "subscriptionMode": "new"}
    assert await api.data(queue, consumerGroup="g", autoAck=True, **query) == [2]
    await api.push(queue, 4)
    assert await drain(api, queue, consumerGroup="g") == [3, 4]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2001-01-01T00:00:00Z", [1]),
        ("2001-01-01T00:00:00+02:00", [1]),
        ("2001-01-01T00:00:00.123456", [1]),
        ("2001-01-01", [1]),
        ("2999-01-01T00:00:00Z", []),
    ],
    ids=["utc", "offset", "no-zone", "date", "future"],
)
async def test_a_time_may_be_written_in_several_ways(
    api: Api, time: str, expected: list[int]
) -> None:
    queue = unique()
    await api.push(queue, 1)
    assert await drain(api, queue, consumerGroup="g", subscriptionFrom=time) == expected


@pytest.mark.parametrize("text", ["yesterday", "12:00", "2024-13-01", "NOW", "0", "-1"])
async def test_a_start_that_is_no_time_is_refused(api: Api, text: str) -> None:
    queue = unique()
    await api.push(queue, 1)
    query = {"consumerGroup": "g", "subscriptionFrom": text}
    response = await api.http.get(f"/api/v1/pop/queue/{queue}", params=query)
    assert response.status_code == 400
    assert "subscriptionFrom" in response.json()["error"]
    assert await drain(api, queue, consumerGroup="g") == [1]


async def test_deleting_a_queue_forgets_the_starts_of_its_groups(api: Api) -> None:
    queue = unique()
    await api.push(queue, "old")
    assert await api.pop(queue, consumerGroup="g", subscriptionMode="new") == []
    await api.http.delete(f"/api/v1/resources/queues/{queue}")
    await api.push(queue, "before")
    assert await api.pop(queue, consumerGroup="g", subscriptionMode="new") == []
    await api.push(queue, "after")
    assert await drain(api, queue, consumerGroup="g") == ["after"]


async def test_a_start_over_a_namespace_holds_for_each_of_its_queues(api: Api) -> None:
    namespace = unique("namespace")
    await api.push_items([{"queue": f"{namespace}.{n}", "payload": "old"} for n in "ab"])
    query = {"namespace": namespace, "consumerGroup": "g", "subscriptionMode": "new"}
    assert (await api.http.get("/api/v1/pop", params=query)).status_code == 204
    await api.push_items([{"queue": f"{namespace}.{n}", "payload": "new"} for n in "abc"])
    for name in "abc":
        assert await drain(api, f"{namespace}.{name}", consumerGroup="g") == ["new"]


@pytest.mark.parametrize("start", ["now", "time"])
async def test_a_group_registers_on_five_thousand_partitions_and_gets_all_that_is_new(
    api: Api, start: str
) -> None:
    queue, count = unique(), 5000
    places = [{"queue": queue, "partition": f"p{n}"} for n in range(count)]
    answers = await api.push_items([{**place, "payload": "old"} for place in places])
    assert {answer["status"] for answer in answers} == {"queued"}
    query = {"consumerGroup": "g", "subscriptionFrom": "now"}
    if start == "time":
        await api.push(queue, "mark", partition="mark")
        (mark,) = await api.pop(queue, partition="mark", autoAck=True)
        query["subscriptionFrom"] = mark["createdAt"]
    assert await api.data(queue, autoAck=True, **query) == (["mark"] if start == "time" else [])
    await api.push_items([{**place, "payload": n} for n, place in enumerate(places)])
    found = await drain(api, queue, consumerGroup="g", batch=1000, partitions=200)
    assert sorted(found) == list(range(count))
