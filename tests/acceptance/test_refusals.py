"""Every bound: who is refused hears how many wait, and the metrics name the bound."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

import queenmq
from queenmq.server.metering.refusals import BOUNDS, EDGE_BOUNDS
from tests.conformance.test_metrics import read
from tests.isolation.sessions import Connect, ensure
from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.operations import enqueue, fail_for_good
from tests.support.waiting import wait_until_async

StartBroker = Callable[..., BrokerProcess]

#: Whether the creation of a partition waits for a lock.
_CREATIONS_WAIT = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND query LIKE '%ensure_partitions%' AND wait_event_type = 'Lock'"
)


@asynccontextmanager
async def _api(start_broker: StartBroker, **environ: str) -> AsyncIterator[Api]:
    api = Api(start_broker(**environ).url)
    try:
        yield api
    finally:
        await api.close()


async def _refused(api: Api, queue: str, payload: Any = 1) -> dict[str, Any]:
    response = await api.http.post(
        "/api/v1/push", json={"items": [{"queue": queue, "payload": payload}]}
    )
    assert response.status_code == 429, response.text
    assert response.headers["retry-after"] == str(response.json()["retryAfter"])
    body: dict[str, Any] = response.json()
    return body


async def _counts(api: Api) -> dict[str, float]:
    samples = await read(api)
    counts = {bound: samples[f"queen_refused_total{{bound={bound}}}"] for bound in BOUNDS}
    return {bound: count for bound, count in counts.items() if count}


async def test_operations_of_a_partition(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await enqueue(database, place, 1, 2, 3)
    # The first has failed, so that the others wait.
    await fail_for_good(database)
    async with _api(start_broker, QUEEN_LOAD_PARTITION_QUEUE_MAX="3") as api:
        for _ in range(2):
            assert (await _refused(api, queue))["depth"] == 3
        assert await _counts(api) == {"load_partition_queue_max": 2}


async def test_operations_in_all(start_broker: StartBroker, database: asyncpg.Connection) -> None:
    queue = unique()
    (place, _) = await ensure(database, queue, "Default", "other")
    await enqueue(database, place, 1, 2)
    await database.execute("UPDATE queen.operation_queue SET next_run_at = 'infinity'")
    async with _api(start_broker, QUEEN_LOAD_PUSH_QUEUE_MAX="2") as api:

        async def is_measured() -> bool:
            return (await read(api))["queen_operation_queue_depth"] == 2

        await wait_until_async(is_measured, timeout_s=SOON_S, what="the depth to be measured")
        assert (await _refused(api, queue))["depth"] == 2
        assert await _counts(api) == {"load_push_queue_max": 1}


async def test_waiting_pushes(
    start_broker: StartBroker, database: asyncpg.Connection, connect: Connect
) -> None:
    holder = await connect()
    async with _api(start_broker, QUEEN_PUSH_WAITING_MAX="1") as api:
        async with holder.transaction():
            await holder.execute("LOCK TABLE queen.partitions IN SHARE MODE")
            first = asyncio.create_task(api.push(unique(), "first"))

            async def is_waiting() -> bool:
                return bool(await database.fetchval(_CREATIONS_WAIT))

            await wait_until_async(is_waiting, timeout_s=SOON_S, what="the first push to wait")
            refused = await _refused(api, unique())
        assert refused["depth"] == 1
        assert (await first)[0]["status"] == "queued"
        assert (await _counts(api))["push_waiting_max"] == 1


async def test_waiting_pops(start_broker: StartBroker) -> None:
    async with _api(start_broker, QUEEN_POP_WAITING_MAX="1") as api:
        queue = unique()
        parked = asyncio.create_task(api.pop(queue, wait=True, timeout=60_000))

        async def is_parked() -> bool:
            return (await read(api))["queen_pop_waiting"] == 1

        await wait_until_async(is_parked, timeout_s=SOON_S, what="the pop to wait")
        response = await api.http.get(f"/api/v1/pop/queue/{queue}")
        assert (response.status_code, response.json()["depth"]) == (429, 1)
        assert await _counts(api) == {"pop_waiting_max": 1}
        await api.push(queue, 1)
        assert len(await parked) == 1


async def test_a_full_spool(start_broker: StartBroker) -> None:
    async with _api(start_broker, QUEEN_SPOOL_MAX_BYTES="1000") as api:
        await api.http.post("/api/v1/system/maintenance", json={"enabled": True})
        queue = unique()
        await api.push(queue, "x" * 300)
        await api.push(queue, "x" * 300)
        assert (await _refused(api, queue, "x" * 600))["depth"] == 2
        assert await _counts(api) == {"spool_max_bytes": 1}


def test_every_bound_has_a_series() -> None:
    home = Path(queenmq.__file__).parent
    named = {
        bound
        for path in home.rglob("*.py")
        for bound in re.findall(r'bound(?:: str)? ?= ?"(\w+)"', path.read_text())
    }
    assert named <= {*BOUNDS, *EDGE_BOUNDS}
    assert {"transactions_waiting", "load_ack_queue_max", "push_waiting_max"} <= named


async def test_messages_are_counted_whichever_way_they_came(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    async with _api(start_broker) as api:
        await api.push(queue, 1)
        operations = [{"type": "push", "items": [{"queue": queue, "payload": n} for n in (2, 3)]}]
        await api.transaction(operations)
        await enqueue(database, place, 4, 5, 6)
        await api.http.post("/api/v1/system/maintenance", json={"enabled": True})
        await api.push(queue, *range(4))
        await api.http.post("/api/v1/system/maintenance", json={"enabled": False})

        async def found() -> dict[str, float]:
            samples = await read(api)
            paths = ("push", "transaction", "operation", "spool")
            return {one: samples[f"queen_messages_stored_total{{path={one}}}"] for one in paths}

        async def is_all() -> bool:
            return sum((await found()).values()) == 10

        await wait_until_async(is_all, timeout_s=SOON_S, what="everything to be stored")
        assert (await api.http.get("/metrics")).json()["messages"]["total"] == 10
        # What the spool had may have had to wait behind the operations.
        counts = await found()
        assert (counts["push"], counts["transaction"]) == (1, 2)
        assert counts["operation"] >= 3
