"""Overview, status and analytics: counts that are true, and 0 for what nobody records."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.shorthand import drain
from tests.support.broker import Api, unique

COUNTERS = {"total", "pending", "processing", "completed", "failed", "deadLetter"}


async def get(api: Api, path: str, **query: Any) -> Any:
    response = await api.http.get(f"/api/v1/{path}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def worked_queue(api: Api, **options: Any) -> str:
    """Six messages in p: two consumed, one dead, one leased, two pending."""
    queue = unique()
    await api.configure(queue, **options)
    await api.push(queue, *range(6), partition="p")
    first = await api.pop(queue, partition="p", batch=4)
    await api.ack(first[0], first[1])
    await api.ack(first[2], status="dlq", error="no good")
    return queue


WORKED = {"total": 6, "pending": 2, "processing": 1, "completed": 3, "failed": 0, "deadLetter": 1}


async def test_overview_adds_everything_up(api: Api) -> None:
    before = (await api.http.post("/api/v1/stats/refresh")).json()
    assert before["success"] and before["overview"]["refreshed"]
    old = await get(api, "resources/overview")
    await worked_queue(api, namespace=unique("n"), task=unique("t"))
    await api.http.post("/api/v1/stats/refresh", json={})
    new = await get(api, "resources/overview")
    assert set(new) == {
        "queues", "partitions", "namespaces", "tasks", "messages", "lag", "throughput",
        "timestamp", "statsAge",
    }  # fmt: skip
    grown = {"queues": 1, "partitions": 2, "namespaces": 1, "tasks": 1}
    assert {name: new[name] - old[name] for name in grown} == grown
    counts = {name: new["messages"][name] - old["messages"][name] for name in COUNTERS}
    # Leases of other tests may end meanwhile.
    moving = {name: counts[name] for name in ("pending", "processing")}
    assert counts == {**WORKED, **moving}
    assert sum(moving.values()) == 3
    for kind in ("time", "offset"):
        lag = new["lag"][kind]
        assert set(lag) == {"avg", "median", "min", "max"}
        assert 0 < lag["min"] <= lag["median"] <= lag["max"]
    assert new["throughput"]["ingestedPerSecond"] >= 0.1
    assert new["throughput"]["processedPerSecond"] > 0
    assert 0 <= new["statsAge"] < 60 and new["timestamp"].endswith("Z")


async def test_status_of_a_queue_counts_its_messages_leases_and_dead_letters(api: Api) -> None:
    queue = await worked_queue(api)
    found = await get(api, "status", queue=queue)
    assert set(found) == {
        "timeRange", "bucketMinutes", "pointCount", "throughput", "isCut", "queues", "messages",
        "leases", "deadLetterQueue", "workers", "errors", "statsAge",
    }  # fmt: skip
    (one,) = found["queues"]
    assert set(one) == {"id", "name", "namespace", "task", "partitions", "totalConsumed"}
    assert (one["name"], one["partitions"], one["totalConsumed"]) == (queue, 2, 3)
    # What the history has of it depends on the minute; tests/conformance/test_history.py counts.
    messages, leases, errors = found["messages"], found["leases"], found["errors"]
    for name in ("requests", "batchEfficiency"):
        assert set(messages.pop(name)) == {"push", "pop", "ack"}
    assert messages == WORKED
    assert leases.pop("totalAcked") >= 0
    assert leases == {"active": 1, "partitionsWithLeases": 1, "totalBatchSize": 1}
    assert found["deadLetterQueue"] == {
        "totalMessages": 1, "affectedPartitions": 1,
        "topErrors": [{"error": "no good", "count": 1}],
    }  # fmt: skip
    worker = found["workers"][0]
    assert set(worker) == {
        "hostname", "workerId", "avgEventLoopLagMs", "maxEventLoopLagMs", "freeSlots",
        "dbConnections", "jobQueueSize", "messagesProcessed", "pid", "lastSeen",
    }  # fmt: skip
    assert set(errors) == {"dbErrors", "ackFailed", "dlqMessages"} and errors["dlqMessages"] == 1


async def test_throughput_counts_pushed_messages_newest_step_first(api: Api) -> None:
    queue = unique()
    await api.push(queue, *range(50))
    for n in range(5):
        await api.push(queue, n, partition=f"p{n}")
    found = await get(api, "status", queue=queue)
    points = found["throughput"]
    assert (found["bucketMinutes"], found["pointCount"], found["isCut"]) == (1, len(points), False)
    assert sum(point["ingested"] for point in points) == 55
    assert sum(point["ingested"] for point in points[:3]) == 55
    times = [point["timestamp"] for point in points]
    assert times == sorted(times, reverse=True) and len(points) in (60, 61)
    assert set(points[0]) == {
        "timestamp", "ingested", "processed", "popMessages", "ingestedPerSecond",
        "processedPerSecond", "popPerSecond", "avgLagMs", "maxLagMs", "avgEventLoopLagMs",
        "maxEventLoopLagMs", "minFreeSlots", "dbErrors", "ackFailed", "dlqCount",
        "queenCpuUserPct", "queenCpuSysPct", "queenRssMb", "dbPoolActive", "dbPoolIdle",
        "dbPoolSize",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("start", "minutes", "points"),
    [
        ("2030-01-01T11:00:00Z", 1, 60),
        ("2030-01-01T06:00:00Z", 5, 72),
        ("2029-12-31T12:00:00Z", 15, 96),
        ("2029-12-25T12:00:00Z", 60, 168),
        ("2029-12-02T12:00:00Z", 360, 120),
    ],
)
async def test_steps_grow_with_the_span(api: Api, start: str, minutes: int, points: int) -> None:
    span = {"from": start, "to": "2030-01-01T12:00:00Z"}
    found = await get(api, "status", queue=unique(), **span)
    assert (found["bucketMinutes"], found["pointCount"]) == (minutes, points)
    assert found["timeRange"]["to"] == "2030-01-01T12:00:00.000Z"


async def test_analytics_count_by_minute_hour_and_day(api: Api) -> None:
    queue = f"{unique('space')}.{unique('task')}"
    await api.push(queue, *range(30))
    space, task = queue.split(".")
    for interval, points in (("minute", 1441), ("hour", 25), ("day", 2)):
        for scope in ({"queue": queue}, {"namespace": space}, {"task": task}):
            found = await get(api, "status/analytics", interval=interval, **scope)
            assert set(found) == {"dataPoints", "interval", "from", "to", "isCut"}
            assert found["interval"] == interval
            assert len(found["dataPoints"]) in (points - 1, points)
            assert sum(one["messages"] for one in found["dataPoints"]) == 30
            times = [one["timestamp"] for one in found["dataPoints"]]
            assert times == sorted(times)
    assert (await get(api, "status/analytics", queue=queue))["interval"] == "hour"


async def test_queues_are_listed_with_their_counts(api: Api) -> None:
    space = unique("space")
    names = [f"{space}.{task}" for task in "ab"]
    for name in names:
        await api.push(name, 1, 2)
    await drain(api, names[0])
    found = await get(api, "status/queues", namespace=space)
    assert found["pagination"] == {"limit": 100, "offset": 0}
    assert [one["name"] for one in found["queues"]] == names[::-1]
    assert set(found["queues"][0]) == {
        "id", "name", "namespace", "task", "createdAt", "partitions", "messages",
    }  # fmt: skip
    assert [one["messages"]["pending"] for one in found["queues"]] == [2, 0]
    page = await get(api, "status/queues", namespace=space, limit=1, offset=1)
    assert [one["name"] for one in page["queues"]] == names[:1]
    assert (await get(api, "status/queues", task="a", namespace=space))["queues"] == page["queues"]


async def test_queue_is_shown_with_options_partitions_and_totals(api: Api) -> None:
    queue = await worked_queue(api, leaseTime=9, retryLimit=8, retryDelay=7, ttl=6, maxSize=50)
    found = await get(api, f"status/queues/{queue}", includePartitions="true")
    shown = found["queue"]
    assert (shown["name"], shown["priority"]) == (queue, 0)
    assert shown["config"] == {
        "leaseTime": 9, "retryLimit": 8, "retryDelay": 7, "ttl": 6, "maxQueueSize": 50,
        "deadLetterQueue": False,
    }  # fmt: skip
    default, place = found["partitions"]
    assert (default["name"], default["lastActivity"]) == ("Default", None)
    assert set(place) == {
        "id", "name", "createdAt", "messages", "stats", "cursor", "lastActivity",
        "oldestMessage", "newestMessage",
    }  # fmt: skip
    assert place["messages"] == place["stats"] == WORKED
    assert place["cursor"] == {"totalConsumed": 3, "batchesConsumed": 1}
    assert found["totals"] == {"messages": WORKED, **WORKED, "partitions": 2}
    page = await get(api, f"status/queues/{queue}", limit=1, offset=1)
    assert page["partitions"] == [place] and page["totals"] == found["totals"]
    assert (await api.http.get(f"/api/v1/status/queues/{unique()}")).status_code == 404


async def test_messages_of_a_queue_are_listed_in_short(api: Api) -> None:
    queue = await worked_queue(api)
    found = await get(api, f"status/queues/{queue}/messages", limit=2)
    assert [one["status"] for one in found] == ["pending", "pending"]
    assert set(found[0]) == {
        "id", "transactionId", "partitionId", "queuePath", "queue", "partition", "status",
        "createdAt",
    }  # fmt: skip
    rest = await get(api, f"status/queues/{queue}/messages", offset=2)
    statuses = [one["status"] for one in rest]
    assert statuses == ["processing", "dead_letter", "completed", "completed"]


async def test_buffers_of_the_broker_are_empty_while_the_database_works(api: Api) -> None:
    found = await get(api, "status/buffers")
    assert (found["pending"], found["failed"], found["dbHealthy"]) == (0, 0, True)
    assert ":" in found["worker"]
