"""Steering by hand: cursors and leases of one partition, previews of a seek, paused groups."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from tests.conformance.shorthand import ack_of, drain, settle
from tests.support.broker import Api, unique

GROUPS = "/api/v1/consumer-groups"
QUEUES = "/api/v1/resources/queues"


async def get(api: Api, path: str, /, expected: int = 200, **query: Any) -> Any:
    response = await api.http.get(path, params=query)
    assert response.status_code == expected, response.text
    return response.json()


async def post(api: Api, path: str, body: Any = None, status: int = 200) -> Any:
    response = await api.http.post(path, json={} if body is None else body)
    assert response.status_code == status, response.text
    return response.json()


async def cursor(api: Api, queue: str, partition: str, group: str) -> Any:
    """The cursor of a group, as the partition's page shows it."""
    shown = await get(api, f"{QUEUES}/{queue}/partitions/{quote(partition, safe='')}")
    return {one["consumerGroup"]: one for one in shown["groups"]}[group]


async def take(api: Api, queue: str, group: str, **query: Any) -> Any:
    return await get(api, f"/api/v1/pop/queue/{queue}", consumerGroup=group, **query)


# One partition.


async def test_a_partition_shows_each_group_with_cursor_and_lease(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2, 3, partition="p/1")
    first = await take(api, queue, "slow", batch=2)
    await drain(api, queue, consumerGroup="fast")
    shown = await get(api, f"{QUEUES}/{queue}/partitions/p%2F1")
    assert (shown["queue"], shown["name"], shown["id"]) == (queue, "p/1", first["partitionId"])
    assert (shown["firstSeq"], shown["lastSeq"]) == (1, 3)
    fast, slow = shown["groups"]
    assert (fast["consumerGroup"], fast["cursorSeq"], fast["lag"]) == ("fast", 3, 0)
    assert (fast["leasedUntil"], fast["leaseEndSeq"]) == (None, None)
    assert (slow["consumerGroup"], slow["cursorSeq"], slow["lag"]) == ("slow", 0, 3)
    assert slow["leaseEndSeq"] == 2
    assert slow["leasedUntil"] > slow["leasedAt"]


async def test_a_failed_message_shows_its_error_and_count(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    (message,) = (await take(api, queue, "g"))["messages"]
    await settle(api, ack_of(message, "failed", error="no <b>disk</b>"), group="g")
    shown = await cursor(api, queue, "Default", "g")
    assert (shown["retryCount"], shown["retrySeq"]) == (1, 1)
    assert shown["retryError"] == "no <b>disk</b>"


@pytest.mark.parametrize("name", ["none", "p%2F", "%2e%2e"])
async def test_an_unknown_partition_is_404(api: Api, name: str) -> None:
    queue = unique()
    await api.push(queue, 1)
    answer = await get(api, f"{QUEUES}/{queue}/partitions/{name}", 404)
    assert "does not exist" in answer["error"]
    await post(api, f"{GROUPS}/g/queues/{queue}/partitions/{name}/release", status=404)


async def test_partitions_are_searched_ordered_and_paged(api: Api) -> None:
    queue = unique()
    for name, count in (("a-1", 1), ("b-1", 3), ("a-2", 2)):
        await api.push(queue, *range(count), partition=name)
    path = f"{QUEUES}/{queue}/partitions"

    async def names(**query: Any) -> list[str]:
        return [one["name"] for one in (await get(api, path, **query))["partitions"]]

    assert await names() == ["a-1", "a-2", "b-1"]
    assert await names(search="a-") == ["a-1", "a-2"]
    assert await names(sort="depth") == ["b-1", "a-2", "a-1"]
    assert await names(sort="newest") == ["a-2", "b-1", "a-1"]
    assert await names(limit=1, offset=1) == ["a-2"]
    assert await names(sort="depth", limit=1, offset=2) == ["a-1"]
    assert await names(blocked="true") == []
    shown = await get(api, path, limit=2)
    assert (shown["total"], shown["isCut"]) == (3, False)
    assert (await get(api, path, search="a-", limit=1))["total"] == 2
    assert (await get(api, path, blocked="true"))["total"] == 0
    assert (await get(api, path, 400, sort="size"))["code"] == "invalid_request"


async def test_every_page_of_a_groups_partitions_has_the_number_of_all(api: Api) -> None:
    queue, group = unique(), unique("g")
    for name in ("a-1", "a-2", "b-1"):
        await api.push(queue, 1, partition=name)
        await api.pop(queue, partition=name, consumerGroup=group)
    path = f"{GROUPS}/{group}/queues/{queue}/partitions"
    for offset, length in ((0, 2), (2, 1), (3, 0), (1_000, 0)):
        shown = await get(api, path, sort="name", limit=2, offset=offset)
        assert (len(shown["partitions"]), shown["total"]) == (length, 3)
    assert (await get(api, path, search="a-", offset=2))["total"] == 2
    assert (await get(api, path, search="c-", offset=2))["total"] == 0
    assert (await get(api, f"{GROUPS}/{unique('g')}/queues/no/partitions"))["total"] == 0


# Leases.


async def test_a_released_lease_gives_its_messages_to_the_next_pop(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    held = await take(api, queue, "g", batch=2)
    waiting = asyncio.create_task(take(api, queue, "g", batch=2, wait="true", timeout=20_000))
    path = f"{GROUPS}/g/queues/{queue}/partitions/Default/release"
    released = await post(api, path)
    assert released["ended"]
    assert released["wouldHaveEndedAt"] > "2000"
    got = await waiting
    assert [one["data"] for one in got["messages"]] == [1, 2]
    (refused,) = await settle(api, ack_of(held["messages"][0]), group="g")
    assert not refused["success"]
    await post(api, path)
    assert not (await post(api, path))["ended"]


# Seek.


async def test_a_seek_to_a_seq_makes_it_the_next_message(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(1, 6))
    await drain(api, queue, consumerGroup="g")
    path = f"{GROUPS}/g/queues/{queue}/partitions/Default/seek"
    moved = await post(api, path, {"seq": 4})
    assert (moved["updated"], moved["nextSeq"]) == (True, 4)
    assert await drain(api, queue, consumerGroup="g") == [4, 5]
    # Beyond either end it is the end.
    assert (await post(api, path, {"seq": 2**40 - 1}))["nextSeq"] == 6
    assert (await post(api, path, {"seq": 1}))["nextSeq"] == 1
    assert len(await drain(api, queue, consumerGroup="g")) == 5


@pytest.mark.parametrize(
    "body", [{"seq": 0}, {"seq": 2**40}, {"seq": 2, "toEnd": True}, {"seq": "2"}], ids=str
)
async def test_a_seq_that_is_none_is_refused(api: Api, body: Any) -> None:
    queue = unique()
    await api.push(queue, 1)
    await take(api, queue, "g")
    await post(api, f"{GROUPS}/g/queues/{queue}/partitions/Default/seek", body, 400)
    await post(api, f"{GROUPS}/g/queues/{queue}/seek", {"seq": 1}, 400)
    assert (await cursor(api, queue, "Default", "g"))["leasedUntil"] is not None


async def test_a_group_without_a_cursor_is_not_moved(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    path = f"{GROUPS}/{unique('g')}/queues/{queue}/partitions/Default/seek"
    assert not (await post(api, path, {"seq": 1}))["updated"]


async def test_a_preview_counts_and_changes_nothing(api: Api) -> None:
    queue = unique()
    for partition in ("a", "b"):
        await api.push(queue, *range(5), partition=partition)
    group = unique("g")
    for _ in range(2):
        await take(api, queue, group, batch=3, autoAck="true")
    path = f"{GROUPS}/{group}/queues/{queue}/seek-preview"
    before = [await cursor(api, queue, name, group) for name in ("a", "b")]

    async def count(**query: Any) -> tuple[int, int, int]:
        shown = await get(api, path, **query)
        return shown["partitions"], shown["messagesAgain"], shown["messagesSkipped"]

    assert await count(toEnd="true") == (2, 0, 4)
    assert await count(timestamp="2001-01-01T00:00:00Z") == (2, 6, 0)
    assert await count(partition="a", seq=2) == (1, 2, 0)
    assert await count(partition="a", seq=5) == (1, 0, 1)
    assert [await cursor(api, queue, name, group) for name in ("a", "b")] == before
    for query in ({}, {"seq": 2}, {"seq": 2, "partition": "a", "toEnd": "true"}):
        await get(api, path, 400, **query)


# Paused groups.


async def test_a_paused_group_gets_nothing_and_others_go_on(api: Api) -> None:
    queue, group = unique(), unique("g")
    assert (await post(api, f"{GROUPS}/{group}/pause"))["isPaused"]
    await api.push(queue, 1)
    response = await api.http.get(f"/api/v1/pop/queue/{queue}", params={"consumerGroup": group})
    assert response.status_code == 204
    waiting = asyncio.create_task(take(api, queue, group, wait="true", timeout=25_000))
    assert len(await drain(api, queue, consumerGroup="other")) == 1
    await api.push(queue, 2)
    assert len(await drain(api, queue, consumerGroup="other")) == 1
    why = await get(api, f"/api/v1/why/{queue}", consumerGroup=group)
    assert "group_paused" in {one["code"] for one in why["findings"]}
    assert not waiting.done()
    assert not (await post(api, f"{GROUPS}/{group}/resume"))["isPaused"]
    assert [one["data"] for one in (await waiting)["messages"]] == [1]
    why = await get(api, f"/api/v1/why/{queue}", consumerGroup=group)
    assert "group_paused" not in {one["code"] for one in why["findings"]}


async def test_a_paused_group_is_listed_and_its_acks_are_taken(api: Api) -> None:
    queue, group = unique(), unique("g")
    await api.push(queue, 1, 2)
    held = await take(api, queue, group)
    await post(api, f"{GROUPS}/{group}/pause")
    listed = [one for one in await get(api, GROUPS) if one["name"] == group]
    assert [one.get("isPaused") for one in listed] == [True]
    (acked,) = await settle(api, ack_of(held["messages"][0]), group=group)
    assert acked["success"]
    await post(api, f"{GROUPS}/{group}/resume")
    assert await drain(api, queue, consumerGroup=group) == [2]
    listed = [one for one in await get(api, GROUPS) if one["name"] == group]
    assert "isPaused" not in listed[0]


# Dead letters by error, messages by text.


async def test_dead_letters_are_counted_retried_and_purged_by_error(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(5))
    while messages := await api.pop(queue):
        error = "disk full: /data" if messages[0]["data"] < 3 else "time-out"
        await settle(api, ack_of(messages[0], "dlq", error=error))
    counted = await get(api, "/api/v1/dlq/errors", queue=queue)
    assert [(one["error"], one["count"]) for one in counted["errors"]] == [
        ("disk full: /data", 3),
        ("time-out", 2),
    ]
    assert not counted["isCut"]
    listed = await get(api, "/api/v1/dlq", queue=queue, error="disk")
    assert listed["total"] == 3
    retried = await post(api, "/api/v1/dlq/retry", {"queue": queue, "error": "time"})
    assert (retried["pushed"], retried["remaining"]) == (2, False)
    response = await api.http.delete("/api/v1/dlq", params={"queue": queue, "error": "disk full"})
    assert response.json()["purged"] == 3
    assert await drain(api, queue) == [3, 4]


async def test_messages_are_found_by_name_and_by_text(api: Api) -> None:
    queue = unique()
    for number in range(3):
        payload = {"customer": f"c-{number}%_"}
        await api.push(queue, payload, transactionId=f"name-{number}", partition=f"p{number % 2}")

    async def found(**query: Any) -> list[tuple[str, int]]:
        shown = await get(api, "/api/v1/messages", queue=queue, **query)
        return [(one["transactionId"], one["seq"]) for one in shown["messages"]]

    assert await found(transactionId="name-2") == [("name-2", 2)]
    assert await found(text="c-1%_") == [("name-1", 1)]
    assert await found(text="c-1__") == []
    assert await found(text="customer", partition="p0") == [("name-2", 2), ("name-0", 1)]
    assert await found(text="customer", status="pending", limit=1, offset=1) == [("name-1", 1)]
