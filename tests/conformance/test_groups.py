"""Consumer groups: lists and lags, seek, delete, remembered starts."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from tests.conformance.shorthand import SOON_MS, ack_of, drain, next_of, settle
from tests.support.broker import Api, unique

GROUPS = "/api/v1/consumer-groups"
LONG_AGO, FAR_OFF = "2001-01-01T00:00:00Z", "2100-01-01T00:00:00Z"


async def seek(api: Api, group: str, queue: str, **body: Any) -> Any:
    response = await api.http.post(f"{GROUPS}/{group}/queues/{queue}/seek", json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def delete(api: Api, group: str, queue: str | None = None, **query: str) -> Any:
    path = f"{GROUPS}/{group}" + (f"/queues/{queue}" if queue else "")
    response = await api.http.delete(path, params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def show(api: Api, group: str) -> Any:
    response = await api.http.get(f"{GROUPS}/{group}")
    assert response.status_code == 200, response.text
    return response.json()


async def entry(api: Api, group: str, queue: str) -> Any:
    """The element of the list for a group on a queue."""
    response = await api.http.get(GROUPS)
    assert response.status_code == 200, response.text
    found = [one for one in response.json() if (one["name"], one["queueName"]) == (group, queue)]
    assert len(found) <= 1
    return found[0] if found else None


async def lagging(api: Api, queue: str, **query: Any) -> list[Any]:
    response = await api.http.get(f"{GROUPS}/lagging", params=query)
    assert response.status_code == 200, response.text
    return [one for one in response.json() if one["queue_name"] == queue]


async def consume(api: Api, queue: str, group: str, **query: Any) -> list[Any]:
    """All that the group can have now."""
    return await drain(api, queue, consumerGroup=group, partitions=100, **query)


# Lists.


async def test_the_list_has_an_element_per_group_and_queue(api: Api) -> None:
    queue, group = unique(), unique("group")
    for partition in "ab":
        await api.push(queue, 1, 2, partition=partition)
    await consume(api, queue, group)
    await api.push(queue, 3, 4, partition="a")
    assert await entry(api, group, queue) == {
        "name": group,
        "topics": [queue],
        "queueName": queue,
        "members": 2,
        "partitionsWithLag": 1,
        "totalLag": 2,
        "maxTimeLag": 0,
        "state": "Stable",
        "subscriptionMode": None,
        "subscriptionTimestamp": None,
        "subscriptionCreatedAt": None,
        "kind": "consumer",
    }


async def test_a_group_that_has_only_a_start_is_in_the_list(api: Api) -> None:
    queue, group = unique(), unique("group")
    await api.pop(queue, consumerGroup=group, subscriptionFrom="2020-01-02T03:04:05Z")
    found = await entry(api, group, queue)
    assert (found["members"], found["state"]) == (0, "Dead")
    assert found["subscriptionMode"] == "timestamp"
    assert found["subscriptionTimestamp"] == "2020-01-02T03:04:05.000Z"
    assert found["subscriptionCreatedAt"].endswith("Z")


async def test_a_group_shows_its_partitions_by_queue(api: Api) -> None:
    queue, other, group = unique(), unique(), unique("group")
    await api.push(queue, 1, 2, 3)
    await api.push(other, 1, partition="p")
    first = await api.pop(queue, consumerGroup=group, batch=2)
    await settle(api, ack_of(first[0]), group=group)
    await consume(api, other, group)
    found = await show(api, group)
    assert set(found) == {queue, other}
    (mine,), (done,) = (found[name]["partitions"] for name in (queue, other))
    assert mine.pop("lastConsumedAt").endswith("Z")
    assert mine.pop("timeLagSeconds") >= 0
    assert mine == {
        "partition": "Default",
        "workerId": None,
        "totalConsumed": 1,
        "offsetLag": 2,
        "leaseActive": True,
    }
    assert (done["partition"], done["offsetLag"], done["leaseActive"]) == ("p", 0, False)
    assert done["timeLagSeconds"] == 0


async def test_a_group_that_nobody_knows_is_an_empty_object(api: Api) -> None:
    assert await show(api, unique("group")) == {}


async def test_what_lags_is_listed_worst_first(api: Api) -> None:
    queue, group = unique(), unique("group")
    for partition in ("old", "new", "done"):
        await api.push(queue, 1, 2, partition=partition)
    for partition in ("new", "old"):
        (first,) = await api.pop(queue, partition=partition, consumerGroup=group)
        await api.ack(first, group=group)
    await consume(api, queue, group, partition="done")
    rows = await lagging(api, queue, minLagSeconds=0)
    assert [row["partition_name"] for row in rows] == ["old", "new"]
    for row in rows:
        assert (row["consumer_group"], row["offset_lag"]) == (group, 1)
        assert row["time_lag_seconds"] >= 0 and row["lag_hours"] >= 0
        assert row["oldest_unconsumed_at"].endswith("Z") and row["last_consumed_at"].endswith("Z")
        assert set(row) >= {"partition_id", "worker_id"}
    assert await lagging(api, queue) == []
    assert await lagging(api, queue, minLagSeconds="many") == []


# Seek.


async def test_seek_to_before_the_push_brings_all_partitions_again(api: Api) -> None:
    queue, group = unique(), unique("group")
    await api.push_items([{"queue": queue, "partition": f"p{n}", "payload": n} for n in range(10)])
    assert sorted(await consume(api, queue, group)) == list(range(10))
    assert await seek(api, group, queue, timestamp=LONG_AGO) == {
        "success": True,
        "consumerGroup": group,
        "queueName": queue,
        "seekToEnd": False,
        "targetTimestamp": "2001-01-01T00:00:00.000Z",
        "partitionsUpdated": 10,
    }
    assert sorted(await consume(api, queue, group)) == list(range(10))


async def test_seek_to_the_time_of_a_message_resumes_after_it(api: Api) -> None:
    queue, group = unique(), unique("group")
    for number in range(6):
        await api.push(queue, number)
    messages = await api.pop(queue, consumerGroup=group, batch=6, autoAck=True)
    await seek(api, group, queue, timestamp=messages[2]["createdAt"])
    assert await consume(api, queue, group) == [3, 4, 5]
    await seek(api, group, queue, timestamp=messages[5]["createdAt"])
    assert await consume(api, queue, group) == []


@pytest.mark.parametrize("body", [{"toEnd": True}, {"timestamp": FAR_OFF}], ids=["end", "time"])
async def test_seek_forward_passes_what_was_not_consumed(api: Api, body: dict[str, Any]) -> None:
    queue, group = unique(), unique("group")
    await api.push(queue, *range(5))
    assert await api.data(queue, consumerGroup=group, autoAck=True) == [0]
    answer = await seek(api, group, queue, **body)
    assert (answer["seekToEnd"], answer["partitionsUpdated"]) == ("toEnd" in body, 1)
    assert (answer["targetTimestamp"] is None) == ("toEnd" in body)
    assert await consume(api, queue, group) == []
    await api.push(queue, "next")
    assert await consume(api, queue, group) == ["next"]


async def test_seek_ends_leases_and_their_acks_change_nothing(api: Api) -> None:
    queue, group = unique(), unique("group")
    await api.push(queue, 1, 2, 3)
    taken = await api.pop(queue, consumerGroup=group, batch=3)
    await seek(api, group, queue, timestamp=LONG_AGO)
    for status in ("completed", "failed", "dlq"):
        results = await api.ack(*taken, status=status, group=group)
        assert {one["success"] for one in results} == {False}
        assert {one["error"] for one in results} == {"Invalid or expired lease"}
    extend = await api.http.post(f"/api/v1/lease/{taken[0]['leaseId']}/extend")
    assert extend.status_code == 404
    assert await consume(api, queue, group) == [1, 2, 3]


async def test_seek_lets_a_failed_message_begin_anew(api: Api) -> None:
    queue, group = unique(), unique("group")
    await api.configure(queue, retryLimit=1, retryDelay=600_000)
    await api.push(queue, 1)
    (first,) = await api.pop(queue, consumerGroup=group)
    await api.ack(first, status="failed", group=group)
    assert await api.pop(queue, consumerGroup=group) == []
    await seek(api, group, queue, timestamp=LONG_AGO)
    (again,) = await api.pop(queue, consumerGroup=group)
    assert again["retryCount"] == 0


async def test_seek_moves_one_group_in_the_partitions_it_knows(api: Api) -> None:
    queue, group, other = unique(), unique("group"), unique("group")
    for partition in "ab":
        await api.push(queue, partition, partition=partition)
    await consume(api, queue, group, partition="a")
    await consume(api, queue, other)
    assert (await seek(api, group, queue, toEnd=True))["partitionsUpdated"] == 1
    assert await consume(api, queue, group) == ["b"]
    await seek(api, group, queue, timestamp=LONG_AGO)
    assert await consume(api, queue, other) == []
    stranger = await seek(api, unique("group"), queue, toEnd=True)
    assert stranger["partitionsUpdated"] == 0


async def test_seek_brings_a_waiting_pop_its_messages(api: Api) -> None:
    queue, group = unique(), unique("group")
    await api.push(queue, 1)
    assert await consume(api, queue, group) == [1]
    waiting = asyncio.create_task(next_of(api, queue, consumerGroup=group))
    # Answered once everything has been looked at; from then on the other one is parked.
    assert await api.pop(queue, consumerGroup=group) == []
    await seek(api, group, queue, timestamp=LONG_AGO)
    (message,) = await waiting
    assert message["data"] == 1


async def test_seek_to_the_end_of_one_partition(api: Api) -> None:
    queue, group = unique(), unique("group")
    for partition in ("a", "b/c"):
        await api.push(queue, 1, 2, partition=partition)
        assert await api.data(queue, partition=partition, consumerGroup=group, autoAck=True) == [1]
    newest = (await api.pop(queue, partition="b/c", batch=2))[1]["createdAt"]
    path = f"{GROUPS}/{group}/queues/{queue}/partitions"
    response = await api.http.post(f"{path}/{quote('b/c', safe='')}/seek")
    assert response.status_code == 200, response.text
    assert response.json() == {
        "success": True,
        "consumerGroup": group,
        "queueName": queue,
        "partitionName": "b/c",
        "updated": True,
        "cursorMovedTo": f"{newest[:23]}Z",
    }
    assert await consume(api, queue, group) == [2]
    await api.push(queue, 3, partition="never popped")
    response = await api.http.post(f"{path}/never popped/seek")
    assert (response.json()["updated"], response.json()["cursorMovedTo"]) == (False, None)


async def test_seek_to_a_time_in_one_partition(api: Api) -> None:
    queue, group = unique(), unique("group")
    for partition in ("a", "b"):
        await api.push(queue, f"{partition}1", f"{partition}2", partition=partition)
    assert len(await consume(api, queue, group)) == 4
    path = f"{GROUPS}/{group}/queues/{queue}/partitions/b/seek"
    response = await api.http.post(path, json={"timestamp": LONG_AGO})
    assert (response.status_code, response.json()["updated"]) == (200, True)
    assert await consume(api, queue, group) == ["b1", "b2"]
    response = await api.http.post(path, json={"timestamp": "soon"})
    assert (response.status_code, "timestamp 'soon'" in response.text) == (400, True)


# Delete.


async def test_deleted_group_begins_anew(api: Api) -> None:
    queue, other, group = unique(), unique(), unique("group")
    await api.push(queue, 1, 2)
    await api.push(other, 3)
    assert await consume(api, queue, group) == [1, 2]
    assert await consume(api, other, group) == [3]
    assert await delete(api, group) == {
        "success": True,
        "consumerGroup": group,
        "deletedPartitions": 2,
        "deletedStreams": 0,
        "metadataDeleted": True,
    }
    assert await entry(api, group, queue) is None
    assert await consume(api, queue, group, subscriptionMode="all") == [1, 2]
    assert await consume(api, other, group) == [3]


async def test_group_deleted_on_one_queue_keeps_the_others(api: Api) -> None:
    queue, other, group = unique(), unique(), unique("group")
    for name in (queue, other):
        await api.push(name, 1)
        await consume(api, name, group)
    answer = await delete(api, group, queue)
    assert answer == {
        "success": True,
        "consumerGroup": group,
        "queueName": queue,
        "deletedPartitions": 1,
        "metadataDeleted": True,
    }
    assert await consume(api, queue, group) == [1]
    assert await consume(api, other, group) == []


async def test_deleting_what_nobody_knows_succeeds(api: Api) -> None:
    assert (await delete(api, unique("group")))["deletedPartitions"] == 0
    assert (await delete(api, unique("group"), unique()))["deletedPartitions"] == 0


@pytest.mark.parametrize("keeps_start", [True, False], ids=["kept", "deleted"])
async def test_start_of_a_deleted_group(api: Api, keeps_start: bool) -> None:
    queue, group = unique(), unique("group")
    await api.push(queue, "old")
    await api.push(queue, "mark")
    mark = (await api.pop(queue, batch=2, autoAck=True))[1]["createdAt"]
    assert await consume(api, queue, group, subscriptionFrom=mark) == ["mark"]
    answer = await delete(api, group, queue, deleteMetadata="false" if keeps_start else "true")
    assert answer["metadataDeleted"] is not keeps_start
    assert await consume(api, queue, group) == (["mark"] if keeps_start else ["old", "mark"])


async def test_group_that_starts_with_what_is_new_does_so_again_after_a_delete(api: Api) -> None:
    queue, group = unique(), unique("group")
    query = {"consumerGroup": group, "subscriptionMode": "new"}
    await api.push(queue, "old")
    assert await api.pop(queue, **query) == []
    await api.push(queue, "passed")
    taken = await api.pop(queue, **query)
    await delete(api, group)
    (refused,) = await api.ack(*taken, group=group)
    assert refused["error"] == "Invalid or expired lease"
    assert await api.pop(queue, **query) == []
    await api.push(queue, "new")
    assert await drain(api, queue, **query) == ["new"]


async def test_waiting_pop_that_named_a_start_is_sent_away_when_its_group_is_deleted(
    api: Api,
) -> None:
    """Served as it stands it would get everything that lies in the queue."""
    queue, group = unique(), unique("group")
    query = {"consumerGroup": group, "subscriptionMode": "new", "timeout": SOON_MS}
    await api.push(queue, "old")
    waiting = asyncio.create_task(api.pop(queue, wait=True, **query))
    assert await api.pop(queue, consumerGroup=group, subscriptionMode="new") == []
    await delete(api, group, queue)
    assert await waiting == []


async def test_acks_of_a_deleted_group_are_refused_and_its_dead_letters_stay(api: Api) -> None:
    queue, group = unique(), unique("group")
    await api.push(queue, 1, 2, partition="a")
    await api.push(queue, 3, 4, partition="b")
    taken = await api.pop(queue, consumerGroup=group, batch=4, partitions=2)
    assert sorted(one["data"] for one in taken) == [1, 2, 3, 4]
    (dead,) = [one for one in taken if one["data"] == 1]
    await api.ack(dead, status="dlq", group=group)
    await delete(api, group)
    results = await api.ack(*taken, group=group)
    assert {one["error"] for one in results} == {"Invalid or expired lease"}
    assert await show(api, group) == {}
    assert [one["data"] for one in await api.dead_letters(queue)] == [1]
    assert sorted(await consume(api, queue, group)) == [1, 2, 3, 4]


# Remembered starts.


async def test_changed_start_counts_where_the_group_has_no_cursor_yet(api: Api) -> None:
    queue, group = unique(), unique("group")
    await api.push(queue, "a", partition="a")
    await api.push(queue, "b", partition="b")
    query = {"consumerGroup": group, "subscriptionFrom": FAR_OFF}
    assert await api.pop(queue, **query) == []
    # Has a cursor at the start from now on.
    assert await api.pop(queue, partition="a", consumerGroup=group) == []
    response = await api.http.post(
        f"{GROUPS}/{group}/subscription", json={"subscriptionTimestamp": LONG_AGO}
    )
    assert response.status_code == 200, response.text
    assert response.json() == {
        "success": True,
        "consumerGroup": group,
        "newTimestamp": "2001-01-01T00:00:00.000Z",
        "rowsUpdated": 1,
    }
    assert await consume(api, queue, group) == ["b"]


async def test_group_without_a_start_gets_none(api: Api) -> None:
    path, body = f"{GROUPS}/{unique('group')}/subscription", {"subscriptionTimestamp": LONG_AGO}
    assert (await api.http.post(path, json=body)).json()["rowsUpdated"] == 0


# Refusals.


@pytest.mark.parametrize(
    ("path", "body", "word"),
    [
        ("g/queues/q/seek", None, "toEnd or timestamp"),
        ("g/queues/q/seek", {}, "toEnd or timestamp"),
        ("g/queues/q/seek", {"toEnd": False}, "toEnd or timestamp"),
        ("g/queues/q/seek", {"toEnd": "yes"}, "toEnd"),
        ("g/queues/q/seek", {"toEnd": True, "timestamp": LONG_AGO}, "timestamp"),
        ("g/queues/q/seek", {"timestamp": "soon"}, "timestamp 'soon'"),
        ("g/queues/q/seek", {"timestamp": 5}, "timestamp"),
        ("g/subscription", None, "body"),
        ("g/subscription", {}, "subscriptionTimestamp"),
        ("g/subscription", {"subscriptionTimestamp": "x"}, "subscriptionTimestamp 'x'"),
        (f"{'g' * 300}/subscription", {"subscriptionTimestamp": LONG_AGO}, "consumerGroup"),
        (f"g/queues/{'q' * 300}/seek", {"toEnd": True}, "queue"),
    ],
)
async def test_request_that_cannot_be_carried_out(
    api: Api, path: str, body: Any, word: str
) -> None:
    response = await api.http.post(f"{GROUPS}/{path}", json=body)
    assert response.status_code == 400, response.text
    assert word in response.json()["error"]


async def test_unknown_queue_or_partition_is_not_found(api: Api) -> None:
    queue = unique()
    path = f"{GROUPS}/g/queues/{queue}"
    response = await api.http.post(f"{path}/seek", json={"toEnd": True})
    assert (response.status_code, queue in response.json()["error"]) == (404, True)
    await api.push(queue, 1)
    response = await api.http.post(f"{path}/partitions/nowhere/seek")
    assert (response.status_code, "'nowhere'" in response.json()["error"]) == (404, True)


async def test_negative_lag_is_refused(api: Api) -> None:
    response = await api.http.get(f"{GROUPS}/lagging", params={"minLagSeconds": -1})
    assert (response.status_code, "minLagSeconds -1" in response.text) == (400, True)
