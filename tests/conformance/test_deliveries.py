"""Deliveries and acks of a message by group, and a group's partitions page by page."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tests.support.broker import Api, unique


async def get(api: Api, path: str, status: int = 200, **query: Any) -> Any:
    response = await api.http.get(f"/api/v1/{path}", params=query)
    assert response.status_code == status, response.text
    return response.json()


async def push_one(api: Api, queue: str) -> str:
    """Push a message; its place in the path of a route."""
    (pushed,) = await api.push_items([{"queue": queue, "partition": "p", "payload": 1}])
    return f"{pushed['partition_id']}/{quote(pushed['transaction_id'], safe='')}"


async def test_deliveries_are_listed_where_the_queue_keeps_them(api: Api) -> None:
    queue = unique()
    await api.configure(queue, ackHistory=True, retryLimit=5)
    place = await push_one(api, queue)
    before = await get(api, f"deliveries/{place}")
    assert (before["isKept"], before["isCut"], before["deliveries"]) == (True, False, [])
    assert before["keptSince"] is not None

    start = {"subscriptionMode": "all"}
    (failed,) = await api.pop(queue, consumerGroup="fast", **start)
    await api.ack(failed, status="failed", group="fast")
    (taken,) = await api.pop(queue, consumerGroup="fast")
    await api.ack(taken, group="fast")
    await api.pop(queue, consumerGroup="slow", **start)
    fast, slow = (await get(api, f"deliveries/{place}"))["deliveries"]
    assert (fast["consumerGroup"], fast["cause"], fast["retries"]) == ("fast", "ack", 1)
    assert fast["deliveredAt"] <= fast["passedAt"]
    assert fast["hasDeadLetter"] is False
    assert (slow["consumerGroup"], slow["cause"], slow["passedAt"]) == ("slow", "lease", None)
    assert slow["deliveredAt"] >= fast["deliveredAt"]


async def test_without_ack_history_only_a_live_lease_is_known(api: Api) -> None:
    queue = unique()
    place = await push_one(api, queue)
    start = {"subscriptionMode": "all"}
    (taken,) = await api.pop(queue, consumerGroup="done", **start)
    await api.ack(taken, group="done")
    await api.pop(queue, consumerGroup="busy", **start)
    found = await get(api, f"deliveries/{place}")
    assert (found["isKept"], found["keptSince"]) == (False, None)
    assert [one["consumerGroup"] for one in found["deliveries"]] == ["busy"]
    unknown = place.partition("/")[0] + "/nothing"
    assert "no message" in (await get(api, f"deliveries/{unknown}", 404))["error"]


async def test_the_partitions_of_a_group_come_in_pages(api: Api) -> None:
    queue = unique()
    for number in range(1, 6):
        items = [{"queue": queue, "partition": f"p{number}", "payload": n} for n in range(number)]
        await api.push_items(items)
    for partition in ("p2", "p5"):
        await api.pop(queue, partition=partition, consumerGroup="g", subscriptionMode="all")
    path = f"consumer-groups/g/queues/{queue}/partitions"

    first = await get(api, path, limit=2)
    assert [(one["partition"], one["offsetLag"]) for one in first["partitions"]] == [
        ("p5", 5), ("p4", 4),
    ]  # fmt: skip
    assert first["total"] == 5
    rest = await get(api, path, limit=2, offset=4)
    assert [one["partition"] for one in rest["partitions"]] == ["p1"]
    by_name = await get(api, path, sort="name", search="p")
    assert [one["partition"] for one in by_name["partitions"]] == [f"p{n}" for n in range(1, 6)]
    leased = await get(api, path, leased="true", sort="name")
    assert [one["partition"] for one in leased["partitions"]] == ["p2", "p5"]
    assert all(one["leaseActive"] for one in leased["partitions"])
    assert (await get(api, path, search="p3"))["total"] == 1
    assert (await get(api, "consumer-groups/g/queues/none/partitions"))["partitions"] == []
    assert "recent" in (await get(api, path, 400, sort="size"))["error"]
    # The whole group without its partitions, which may be a million.
    assert await get(api, "consumer-groups/g", partitions="false") == {}
