"""The history: written by brokers, served by span, rolled up and forgotten."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from queenmq.errors import StorageUnavailable
from queenmq.server.metering.minutes import QueueMinute
from queenmq.services.history import History, Minute
from queenmq.settings import load
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.observation.history import HistoryStore
from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.waiting import wait_until_async

NOW = datetime.now(UTC)
#: Fields of the contract.
OPS = {
    "bucket", "queueName", "pushRequests", "pushMessages", "popMessages", "popEmpty", "ackRequests",
    "ackSuccess", "ackFailed", "transactions", "partitionsCreated", "partitionsDeleted",
    "partitionCount", "avgLagMs", "maxLagMs", "pushPerSecond", "popPerSecond", "ackPerSecond",
    "emptyPerSecond", "parkedCount",
}  # fmt: skip
WORKER = {
    "timestamp", "pushMessages", "popMessages", "ackMessages", "pushRequests", "popRequests",
    "ackRequests", "jobsDone", "pushPerSecond", "popPerSecond", "ackPerSecond",
    "avgEventLoopLagMs", "maxEventLoopLagMs", "avgFreeSlots", "minFreeSlots", "dbConnections",
    "avgJobQueueSize", "maxJobQueueSize", "backoffSize", "avgLagMs", "maxLagMs", "lagCount",
    "dbErrors", "ackSuccess", "ackFailed", "dlqCount",
}  # fmt: skip
POSTGRES = {
    "timestamp", "database", "databaseCache", "tableCache", "indexCache", "cacheSummary",
    "deadTuples", "hotUpdates", "activeQueries", "autovacuumStatus", "bufferConfig", "bufferUsage",
    "tableSizes",
}  # fmt: skip


async def get(api: Api, path: str, **query: Any) -> Any:
    response = await api.http.get(f"/api/v1/{path}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def total(points: list[dict[str, Any]], name: str) -> float:
    return sum(point[name] for point in points)


async def work(api: Api, queue: str) -> None:
    """Three messages pushed in two requests, two popped and acked, one of those as failed."""
    await api.configure(queue, retryLimit=0)
    await api.push(queue, 1, 2)
    await api.push(queue, 3)
    message, other = await api.pop(queue, batch=2)
    await api.ack(message)
    await api.ack(other, status="failed")
    assert await api.pop(unique()) == []


async def test_what_a_broker_did_is_served_by_the_next(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    first = start_broker()
    api, queue = Api(first.url), unique()
    await work(api, queue)
    parked = asyncio.create_task(api.pop(queue, consumerGroup="g", partition="none", wait=True))

    async def is_parked() -> bool:
        text = (await api.http.get("/metrics/prometheus")).text
        return "\nqueen_pop_waiting 1\n" in text

    await wait_until_async(is_parked, timeout_s=SOON_S, what="the waiting pop")
    first.stop()
    await asyncio.gather(parked, return_exceptions=True)
    await api.close()
    api = Api(start_broker().url)

    await see_queues(api, queue)
    await see_workers(api, queue, first.pid)
    await see_status(api, queue)
    stats = await get(api, "analytics/postgres-stats")
    assert set(stats) >= POSTGRES
    assert {"messages", "partition_lookup"} <= {row["table"] for row in stats["tableSizes"]}
    await api.close()


async def see_queues(api: Api, queue: str) -> None:
    ops = await get(api, "analytics/queue-ops", queue=queue)
    assert ops["bucketMinutes"] == 1
    assert ops["queues"] == [queue]
    assert all(set(point) >= OPS for point in ops["series"])
    expected = {
        "pushRequests": 2, "pushMessages": 3, "popMessages": 2, "ackRequests": 2, "ackSuccess": 1,
        "ackFailed": 1, "dlqCount": 1, "popEmpty": 1,
    }  # fmt: skip
    assert {name: total(ops["series"], name) for name in expected} == expected
    assert queue in (await get(api, "analytics/queue-ops", limit=1000))["queues"]
    week = (NOW - timedelta(days=7)).isoformat()
    assert total((await get(api, "analytics/queue-ops", queue=queue, **{"from": week}))["series"],
                 "pushMessages") == 3  # fmt: skip

    (lag,) = await get(api, "analytics/queue-lag", queue=queue)
    assert set(lag) == {"queueName", "popCount", "avgLagMs", "maxLagMs", "bucketTime"}
    assert lag["popCount"] == 2 and 0 <= lag["avgLagMs"] <= lag["maxLagMs"] < 1000 * SOON_S


async def see_workers(api: Api, queue: str, pid: int) -> None:
    workers = await get(api, "analytics/worker-metrics")
    assert all(set(point) >= WORKER for point in workers["timeSeries"])
    assert workers["summary"]["totalPushMessages"] == 3
    assert workers["summary"]["pendingMessages"] >= 1
    assert total(workers["timeSeries"], "jobsDone") >= 7
    (one,) = [one for one in workers["workers"] if one["pid"] == pid]
    assert one["hostname"] == os.uname().nodename and one["workerId"] == 0
    assert queue in {one["queueName"] for one in workers["queues"]}

    system = await get(api, "analytics/system-metrics", hostname=os.uname().nodename, workerId=0)
    (replica,) = system["replicas"]
    metrics = replica["timeSeries"][0]["metrics"]
    assert set(metrics) == {
        "cpu", "memory", "database", "threadpool", "registries", "shared_state",
    }  # fmt: skip
    assert set(metrics["memory"]["rss_bytes"]) == {"avg", "min", "max", "last"}
    assert metrics["memory"]["rss_bytes"]["avg"] > 10 * 2**20
    assert metrics["database"]["pool_size"]["last"] == 16
    assert (await get(api, "analytics/system-metrics", hostname="nowhere"))["replicas"] == []
    refused = await api.http.get("/api/v1/analytics/worker-metrics", params={"workerId": "x"})
    assert refused.status_code == 400


async def see_status(api: Api, queue: str) -> None:
    # The pop that waited got nothing.
    status = await get(api, "status", queue=queue)
    assert total(status["throughput"], "popMessages") == 2
    assert total(status["throughput"], "processed") == 1
    assert status["messages"]["requests"] == {"push": 2, "pop": 2, "ack": 2}
    assert status["messages"]["batchEfficiency"] == {"push": 1.5, "pop": 1, "ack": 1}
    assert status["errors"]["ackFailed"] == 1
    status = await get(api, "status")
    assert max(point["queenRssMb"] for point in status["throughput"]) > 10
    assert max(point["dbPoolSize"] for point in status["throughput"]) == 16


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[HistoryStore]:
    database = Database(database_url, load({"db_pool_size": 4}))
    await database.open()
    yield HistoryStore(database)
    await database.close()


def minute(at: datetime, queue: str, *, worker: str = "h/0/1", pushed: int = 1) -> Minute:
    key = {"step_minutes": 1, "at": at.isoformat()}
    counts = dict.fromkeys(QueueMinute.__struct_fields__, 0)
    counts |= {"push_messages": pushed, "lag_ms": 10.0, "lag_ms_max": 10.0 * pushed, "lag_count": 1}
    shared = {name: counts[name] for name in counts if name not in (
        "push_bytes", "duplicates", "pop_empty", "retried", "errors")}  # fmt: skip
    gauges = dict.fromkeys(
        (
            "cpu_user", "cpu_system", "rss_bytes", "virtual_bytes", "pool_size", "pool_idle",
            "pool_active", "pool_waiting", "loop_lag_ms", "loop_lag_ms_max",
        ),
        float(pushed),
    )  # fmt: skip
    host, number, pid = worker.split("/")
    who = {"hostname": host, "worker_id": int(number), "pid": int(pid), "port": 1, "parked": 0}
    row = {**key, **who, **gauges, **shared, "http_requests": 1, "db_errors": 0}
    return Minute(
        [{**key, "queue": queue, "worker": worker, "parked": 2, **counts}],
        row,
        {"push_messages": pushed},
    )


class Taken:
    """A source with one minute."""

    def __init__(self, given: Minute) -> None:
        self.given = given
        self.put: list[Minute] = []

    def take(self, at: datetime) -> Minute:
        return self.given

    def put_back(self, minute: Minute) -> None:
        self.put.append(minute)


async def _write(store: HistoryStore, given: Minute) -> None:
    await store.record(*given, writer=uuid4(), number=1)


async def test_minutes_become_hours_and_go(
    store: HistoryStore, database: asyncpg.Connection
) -> None:
    # Not the time of the import: the hour may have ended since.
    now = datetime.now(UTC)
    await database.execute("INSERT INTO queen.queues (name) VALUES ('q')")
    hour = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    for number in range(3):
        at = hour + timedelta(minutes=number)
        await _write(store, minute(at, "q", pushed=number))
        await _write(store, minute(at, "q", worker="h/1/2", pushed=10))
    await _write(store, minute(now - timedelta(hours=50), "old", pushed=7))
    assert (await store.totals())["push_messages"] == 40
    source = Taken(minute(now.replace(second=0, microsecond=0), "q", pushed=5))
    history = History(store, source, minutes_keep_s=48 * 3_600, hours_keep_s=90 * 86_400)
    await history.run_once()
    await history.run_once()
    assert source.put == []

    day = await store.cut(now - timedelta(days=3), now + timedelta(minutes=1), bucket_minutes=60)
    assert day.hours_end == hour + timedelta(hours=1)
    rows = await store.queues(["q", "old"], day, bucket_minutes=60)
    assert [(row["queue"], row["push_messages"]) for row in rows] == [("q", 33), ("q", 10)]
    assert [row["parked"] for row in rows] == [4, 2], "of both workers, in any minute"
    assert (rows[0]["lag_ms"], rows[0]["lag_ms_max"], rows[0]["lag_count"]) == (60.0, 100.0, 6)
    workers = await store.workers(day)
    assert [row["push_messages"] for row in workers] == [3, 30, 10]
    assert [row["rss_bytes"] for row in workers] == [1.0, 10.0, 5.0]
    kept = await database.fetch("SELECT DISTINCT queue FROM queen.history_queues")
    assert [row["queue"] for row in kept] == ["q"], "minutes of two days ago are gone"
    # A second broker has nothing to roll up just now.
    assert not await store.claim_pass(300)


async def test_a_minute_that_could_not_be_written_is_counted_with_the_next(
    database_url: str,
) -> None:
    database = Database(database_url, load({"db_pool_size": 4}))
    await database.open()
    source = Taken(minute(NOW, "q"))
    history = History(HistoryStore(database), source, minutes_keep_s=3_600, hours_keep_s=86_400)
    database.watch.begin_down(StorageUnavailable("gone"))
    with pytest.raises(StorageUnavailable):
        await history.run_once()
    assert source.put == [source.given]
    await database.close()


class Doubtful:
    """A store that breaks off: before or after it has written."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        self.breaks: list[str] = []

    async def record(self, *rows: Any, **key: Any) -> None:
        how = self.breaks.pop(0) if self.breaks else ""
        if how != "before":
            await self._store.record(*rows, **key)
        if how:
            raise StorageUnavailable("broke off", is_in_doubt=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_minute_in_doubt_is_counted_once(store: HistoryStore, how: str) -> None:
    source = Taken(minute(NOW.replace(second=0, microsecond=0), "q", pushed=5))
    doubtful = Doubtful(store)
    history = History(doubtful, source, minutes_keep_s=3_600, hours_keep_s=86_400)
    doubtful.breaks = [how, how]
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            await history.finish()
    assert source.put == []
    await history.finish()
    assert (await store.totals())["push_messages"] == 10, "the one in doubt, and the next"


async def test_two_writes_of_a_minute_by_the_same_worker_add_up(
    store: HistoryStore, database: asyncpg.Connection
) -> None:
    """A process may have the host, place and id of the one before it, as in a container."""
    at = NOW.replace(second=0, microsecond=0)
    for pushed in (3, 4):
        await _write(store, minute(at, "q", pushed=pushed))
    assert (await store.totals())["push_messages"] == 7
    for table in ("history_queues", "history_workers"):
        rows = await database.fetch(f"SELECT push_messages FROM queen.{table}")
        assert [row[0] for row in rows] == [7]


async def test_pops_of_queues_that_do_not_exist_share_a_row(
    store: HistoryStore, database: asyncpg.Connection
) -> None:
    await database.execute("INSERT INTO queen.queues (name) VALUES ('there')")
    at = NOW.replace(second=0, microsecond=0)
    given = minute(at, "there", pushed=0)
    (row,) = given.queues
    none = dict.fromkeys(("push_requests", "pop_messages", "ack_requests", "transactions"), 0)
    rows = [{**row, **none, "queue": queue, "pop_empty": 2} for queue in ("there", "a", "b", "c")]
    pushed = {**row, **none, "queue": "deleted since", "push_requests": 1}
    await _write(store, given._replace(queues=[*rows, pushed]))
    found = await database.fetch(
        'SELECT queue, pop_empty FROM queen.history_queues ORDER BY queue COLLATE "C"'
    )
    assert [row["queue"] for row in found] == ["", "deleted since", "there"]
    assert found[0]["pop_empty"] == 6


async def test_the_lag_of_groups_is_kept_and_served(
    start_broker: Callable[..., BrokerProcess], store: HistoryStore
) -> None:
    api, queue = Api(start_broker().url), unique()
    await api.push(queue, 1, 2, 3)
    for group, batch in (("fast", 3), ("slow", 1)):
        taken = await api.pop(queue, consumerGroup=group, batch=batch, subscriptionMode="all")
        await api.ack(*taken, group=group)
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    for age in (2, 1):
        await store.record_groups(now - timedelta(minutes=age), limit=200)
        await api.push(queue, 4)

    answer = await get(api, "analytics/group-lag", queue=queue)
    assert answer["bucketMinutes"] == 1
    lags = [(one["consumerGroup"], one["lag"], one["maxLag"]) for one in answer["series"]]
    assert lags == [("fast", 0, 0), ("fast", 1, 1), ("slow", 2, 2), ("slow", 3, 3)]
    assert {one["kind"] for one in answer["series"]} == {"consumer"}
    assert answer["series"][0]["maxTimeLag"] == 0 < answer["series"][2]["maxTimeLag"]

    (slow,) = {
        one["consumerGroup"]
        for one in (await get(api, "analytics/group-lag", limit=1))["series"]
    }  # fmt: skip
    assert slow == "slow", "the group with the most before it"
    only = await get(api, "analytics/group-lag", queue=queue, consumerGroup="fast")
    assert {one["consumerGroup"] for one in only["series"]} == {"fast"}
    days = (NOW - timedelta(days=6)).isoformat()
    wide = await get(api, "analytics/group-lag", queue=queue, **{"from": days})
    assert wide["bucketMinutes"] == 60
    assert max(one["maxLag"] for one in wide["series"]) == 3
    await store.record_groups(now, limit=1)
    latest = [one for one in (await get(api, "analytics/group-lag"))["series"] if one["lag"] == 4]
    assert [one["consumerGroup"] for one in latest] == ["slow"], "a minute has a bound"
    await api.close()


async def test_one_broker_looks_at_the_lag_and_rests_after_a_long_look(
    store: HistoryStore, database: asyncpg.Connection
) -> None:
    assert await store.claim_groups(50, rest=30)
    assert not await store.claim_groups(50, rest=30), "another broker has just looked"
    state = "UPDATE queen.system_state SET updated_at = now() - interval '1 minute' WHERE name = $1"
    await database.execute(state, "group_history")
    assert await store.claim_groups(50, rest=30)
    await store.note_groups(4_000)
    await database.execute(state, "group_history")
    assert not await store.claim_groups(50, rest=30), "four seconds of work are two minutes of rest"


async def test_the_lag_of_groups_is_rolled_up_and_forgotten(
    store: HistoryStore, database: asyncpg.Connection
) -> None:
    now = datetime.now(UTC)
    hour = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    row = "INSERT INTO queen.history_groups SELECT 1, $1, 'q', $2, 'consumer', l, l, l"
    row += " FROM (VALUES ($3::bigint)) x (l)"
    for number, lag in enumerate((10, 30)):
        await database.execute(row, hour + timedelta(minutes=number), "g", lag)
    await database.execute(row, now - timedelta(hours=50), "old", 1)
    source = Taken(minute(now.replace(second=0, microsecond=0), "q"))
    history = History(store, source, minutes_keep_s=48 * 3_600, hours_keep_s=90 * 86_400)
    await history.run_once()
    rows = await database.fetch("SELECT * FROM queen.history_groups ORDER BY step_minutes, at")
    assert [(one["consumer_group"], one["step_minutes"], one["lag"]) for one in rows] == [
        ("g", 1, 10), ("g", 1, 30), ("g", 60, 20),
    ]  # fmt: skip
    assert (rows[-1]["lag_max"], rows[-1]["lag_seconds"]) == (30, 30)
