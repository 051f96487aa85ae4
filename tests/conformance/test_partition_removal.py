"""DELETE /api/v1/resources/queues/:queue/partitions/:partition."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import asyncpg
import pytest

from tests.isolation.sessions import ensure
from tests.support.broker import Api, running_broker, unique
from tests.support.operations import enqueue

_TABLES = (
    "messages", "partition_lookup", "partition_consumers", "dead_letter_queue", "message_traces",
    "removed_messages", "operation_queue", "ack_history",
)  # fmt: skip


async def _delete(api: Api, queue: str, partition: str) -> Any:
    where = f"{quote(queue, safe='')}/partitions/{quote(partition, safe='')}"
    return await api.http.delete(f"/api/v1/resources/queues/{where}")


async def test_a_partition_goes_with_all_it_has(api: Api, shared_database_url: str) -> None:
    queue = unique()
    await api.configure(queue, retryLimit=0, ackHistory=True)
    for partition in ("gone", "kept"):
        await api.push(queue, 1, 2, 3, partition=partition)
        messages = await api.pop(queue, partition=partition, batch=2, consumerGroup="g")
        await api.ack(messages[0], group="g", status="failed", error="broken")
    await api.pop(queue, batch=6, partitions=2, subscriptionMode="new", consumerGroup="h")
    database = await asyncpg.connect(shared_database_url)
    try:
        gone, kept = await ensure(database, queue, "gone", "kept")
        for place in (gone, kept):
            await enqueue(database, place, "waits")
        response = await _delete(api, queue, "gone")
        assert response.status_code == 200
        assert response.json() == {"deleted": True, "queue": queue, "partition": "gone"}
        count = "SELECT count(*) FROM queen.{} WHERE partition_id = $1"
        left = {name: await database.fetchval(count.format(name), gone) for name in _TABLES}
        beside = await database.fetchval(count.format("messages"), kept)
    finally:
        await database.close()
    assert not any(left.values()), left
    assert beside >= 3
    found = (await api.http.get(f"/api/v1/resources/queues/{queue}")).json()
    assert {one["name"] for one in found["partitions"]} == {"Default", "kept"}
    assert [one["partition"] for one in await api.dead_letters(queue)] == ["kept"]


async def test_the_next_push_makes_it_anew(api: Api, shared_database_url: str) -> None:
    queue = unique()
    (before,) = await api.push(queue, "old", partition="p")
    (leased,) = await api.pop(queue, partition="p")
    with running_broker(database_url=shared_database_url) as other:
        elsewhere = Api(other.url)
        try:
            assert await elsewhere.push(queue, "remembered", partition="p")
            assert (await _delete(api, queue, "p")).status_code == 200
            assert await api.pop(queue, partition="p") == []
            (result,) = await api.ack(leased)
            assert not result["success"]
            # The other broker still has the id that is gone.
            (after,) = await elsewhere.push(queue, "new", partition="p")
        finally:
            await elsewhere.close()
    assert after["partition_id"] != before["partition_id"]
    assert await api.data(queue, partition="p", batch=10) == ["new"]


@pytest.mark.parametrize("queue", ["known", "unknown"])
async def test_one_that_is_not_there_is_not_found(api: Api, queue: str) -> None:
    name = unique()
    if queue == "known":
        await api.push(name, 1)
    response = await _delete(api, name, "missing")
    assert response.status_code == 404
    assert "'missing'" in response.json()["error"] and name in response.json()["error"]
    if queue == "known":
        assert await api.data(name) == [1]


async def test_names_may_hold_slashes(api: Api) -> None:
    top = unique()
    inner, partition = f"{top}/partitions/x", "a/partitions/b"
    await api.push(top, "top", partition="x")
    await api.push(inner, "inner", partition=partition)
    # An escaped slash is part of the name: this is a queue, not a partition of one.
    response = await api.http.delete(f"/api/v1/resources/queues/{quote(inner, safe='')}")
    assert response.json() == {"deleted": True, "queue": inner, "existed": True}
    assert await api.data(top, partition="x") == ["top"]
    await api.push(inner, "inner", partition=partition)
    assert (await _delete(api, inner, partition)).json()["partition"] == partition
    assert (await _delete(api, inner, partition)).status_code == 404


async def test_a_group_is_not_deleted_on_one_partition(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    await api.pop(queue, consumerGroup="g")
    path = f"/api/v1/consumer-groups/g/queues/{queue}/partitions/Default"
    response = await api.http.delete(path)
    assert response.status_code == 404
    escaped = f"/api/v1/consumer-groups/g/queues/{quote(queue + '/partitions/x', safe='')}"
    assert (await api.http.delete(escaped)).status_code == 200


@pytest.mark.parametrize("what", ["queue", "partition"])
async def test_what_was_made_anew_elsewhere_is_popped_at_once(
    api: Api, shared_database_url: str, what: str
) -> None:
    """Read your push, at a broker that knew the partition by another id."""
    with running_broker(database_url=shared_database_url) as other:
        elsewhere = Api(other.url)
        try:
            for _ in range(10):
                queue = unique()
                await api.push(queue, "old", partition="p")
                assert await api.data(queue, partition="p") == ["old"]
                if what == "queue":
                    await api.http.delete(f"/api/v1/resources/queues/{queue}")
                else:
                    await _delete(api, queue, "p")
                assert await api.data(queue, partition="p") == []
                await elsewhere.push(queue, "new", partition="p")
                assert await api.data(queue, partition="p") == ["new"]
        finally:
            await elsewhere.close()


async def test_a_lease_over_several_partitions_outlives_one_of_them(api: Api) -> None:
    queue = unique()
    for number in range(4):
        await api.push(queue, number, partition=f"p{number}")
    messages = await api.pop(queue, batch=4, partitions=4)
    assert len(messages) == 4
    for message in messages[:2]:
        assert (await _delete(api, queue, message["partition"])).status_code == 200
        path = f"/api/v1/lease/{messages[0]['leaseId']}/extend"
        assert (await api.http.post(path, json={"seconds": 60})).status_code == 200
