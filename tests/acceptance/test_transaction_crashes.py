"""A broker that dies between the commit of a transaction and its answer."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import asyncpg
import httpx
import pytest

from tests.isolation.sessions import Connect, ensure
from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow

StartBroker = Callable[..., BrokerProcess]

_BLOCKED = (
    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%commit_transaction%'"
    " AND pid <> pg_backend_pid() AND cardinality(pg_blocking_pids(pid)) > 0)"
)
_STORED = "SELECT count(*) FROM queen.messages WHERE partition_id = $1"


async def _lose_broker_after_commit(
    broker: BrokerProcess,
    call: asyncio.Task[Any],
    place: Any,
    database: asyncpg.Connection,
    holder: asyncpg.Connection,
) -> None:
    """Let the transaction of this call commit while its broker cannot hear of it, then kill -9."""
    await wait_until_async(
        lambda: database.fetchval(_BLOCKED), timeout_s=SOON_S, what="the transaction to wait"
    )
    os.kill(broker.pid, signal.SIGSTOP)
    await holder.execute("COMMIT")

    async def is_stored() -> bool:
        return bool(await database.fetchval(_STORED, place))

    await wait_until_async(is_stored, timeout_s=SOON_S, what="the commit")
    await asyncio.to_thread(broker.kill)
    with pytest.raises((httpx.HTTPError, OSError)):
        await call


async def _hold(connect: Connect, place: Any) -> asyncpg.Connection:
    """Keep pushes to this partition waiting, until COMMIT."""
    holder = await connect()
    await holder.execute("BEGIN")
    await holder.execute(
        "SELECT FROM queen.partition_lookup WHERE partition_id = $1 FOR UPDATE", place
    )
    return holder


@pytest.mark.parametrize("is_keyed", [False, True])
async def test_the_same_body_at_another_broker_is_recognised(
    start_broker: StartBroker, database: asyncpg.Connection, connect: Connect, is_keyed: bool
) -> None:
    """The body of the official client: no ids, the lease named beside the operations."""
    first, second = start_broker(), start_broker()
    source, target = unique(), unique()
    (place,) = await ensure(database, target)
    body: dict[str, Any] = {
        "operations": [
            {"type": "push", "items": [{"queue": target, "payload": n} for n in range(3)]}
        ],
        "requiredLeases": [],
    }
    api = Api(second.url)
    try:
        if is_keyed:
            body["idempotencyKey"] = unique()
        else:
            await api.push(source, "in")
            (message,) = await api.pop(source)
            ack = {name: message[name] for name in ("transactionId", "partitionId")}
            body["operations"].append({"type": "ack", **ack, "status": "completed"})
            body["requiredLeases"] = [message["leaseId"]]
        async with httpx.AsyncClient(base_url=first.url, timeout=SOON_S, verify=False) as http:
            holder = await _hold(connect, place)
            call = asyncio.create_task(http.post("/api/v1/transaction", json=body))
            await _lose_broker_after_commit(first, call, place, database, holder)
        for _ in range(2):
            response = await api.http.post("/api/v1/transaction", json=body)
            assert response.json()["success"]
        assert await api.data(target, batch=10) == [0, 1, 2]
        assert await api.pop(source) == []
    finally:
        await api.close()
