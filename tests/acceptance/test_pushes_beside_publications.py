"""A publication of Spark takes long, and no push or transaction waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from queenmq.spark.sink import store
from tests.support.broker import SOON_S, Api, unique
from tests.support.staging import Row, publish, stage, stored
from tests.support.waiting import wait_until_async


@pytest.fixture
async def session(shared_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(shared_database_url)
    yield connection
    await connection.close()


async def _push(api: Api, queue: str, payload: Any, *partitions: str) -> tuple[int, list[str]]:
    """The status of the answer, and that of each item."""
    items = [{"queue": queue, "partition": name, "payload": payload} for name in partitions]
    response = await api.http.post("/api/v1/push", json={"items": items})
    answers = response.json()
    return response.status_code, [one.get("reason", one["status"]) for one in answers]


async def test_pushes_are_answered_while_a_batch_is_published_and_come_after_it(
    api: Api, session: asyncpg.Connection, shared_database_url: str
) -> None:
    queue = unique()
    publisher = await asyncpg.connect(shared_database_url)
    await _push(api, queue, "first", "a", "b", "c")
    one = await stage(session, *(Row(queue, ["batch", n], name) for n in range(3) for name in "ab"))
    transaction = publisher.transaction()
    await transaction.start()
    await publish(publisher, f"stream:{queue}", 0, one)
    # Each of these is answered although the transaction stays open.
    for number in range(3):
        assert await _push(api, queue, ["push", number], "a") == (202, ["maintaining_order"])
    both = ["maintaining_order", "queued"]
    assert await _push(api, queue, ["push", 3], "b", "c") == (202, both)
    assert await _push(api, queue, ["push", 4], "c") == (201, ["queued"])
    assert await stored(session, queue, "a") == ["first"], "nothing of the batch is visible"
    await transaction.commit()
    await publisher.close()

    batch = [["batch", n] for n in range(3)]
    expected = {
        "a": ["first", *batch, *(["push", n] for n in range(3))],
        "b": ["first", *batch, ["push", 3]],
        "c": ["first", ["push", 3], ["push", 4]],
    }

    async def is_stored() -> bool:
        return {name: await stored(session, queue, name) for name in "abc"} == expected

    await wait_until_async(
        is_stored, timeout_s=SOON_S, what="the queued pushes to be stored, in order"
    )


async def test_pushes_go_on_when_the_publication_is_given_up(
    api: Api, session: asyncpg.Connection, shared_database_url: str
) -> None:
    queue = unique()
    publisher = await asyncpg.connect(shared_database_url)
    await _push(api, queue, "first", "a")
    transaction = publisher.transaction()
    await transaction.start()
    one = await stage(session, Row(queue, "batch", "a"))
    await publish(publisher, f"stream:{queue}", 0, one)
    assert (await _push(api, queue, "second", "a"))[0] == 202
    await transaction.rollback()
    await publisher.close()

    async def is_stored() -> bool:
        return await stored(session, queue, "a") == ["first", "second"]

    await wait_until_async(is_stored, timeout_s=SOON_S, what="the queued push to be stored")
    assert (await publish(session, f"stream:{queue}", 0, one)).stored == 1


_ASKS_FOR_A_LOCK = """
    SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
                   AND application_name = 'queen spark sink' AND wait_event_type = 'Lock')
"""
_REASONS = "SELECT DISTINCT reason FROM queen.operation_queue WHERE queue_name = $1"


def _transaction(queue: str, payload: Any, message: Any, *partitions: str) -> list[dict[str, Any]]:
    """A push to each partition, and the ack of a message."""
    items = [{"queue": queue, "partition": name, "payload": payload} for name in partitions]
    ack = {name: message[name] for name in ("transactionId", "partitionId")}
    return [{"type": "push", "items": items}, {"type": "ack", "status": "completed", **ack}]


async def test_nobody_waits_for_partitions_that_the_batch_itself_makes(
    api: Api, session: asyncpg.Connection, shared_database_url: str
) -> None:
    old, new = unique(), unique()
    await _push(api, old, "first", "a")
    (message,) = await api.pop(old)
    rows = [Row(queue, "batch", name) for queue, name in ((old, "b"), (new, "a"), (new, "b"))]
    one = await stage(session, *rows)
    holder = await asyncpg.connect(shared_database_url)
    hold = holder.transaction()
    await hold.start()
    # It has published everything when it gets to the staged rows, and then waits for these.
    await holder.execute("SELECT FROM queen.spark_staging WHERE stage_id = $1 FOR UPDATE", one.id)
    publication = asyncio.create_task(
        asyncio.to_thread(
            store.publish, shared_database_url, new, 0, [store.Stage(str(one.id), one.count)]
        )
    )
    await wait_until_async(
        lambda: session.fetchval(_ASKS_FOR_A_LOCK), timeout_s=SOON_S, what="the batch to be stored"
    )
    for queue, name in ((old, "b"), (new, "a"), (new, "b")):
        assert await _push(api, queue, "push", name) == (202, ["maintaining_order"])
    answer = await api.transaction(_transaction(new, "together", message, "a", "c"))
    assert answer["success"] is True, answer
    queued, at_once, _ = answer["results"]
    assert queued["operationId"] and queued["messageId"] is None
    assert at_once["messageId"] and at_once.get("operationId") is None
    assert [row[0] for row in await session.fetch(_REASONS, new)] == ["maintaining_order"]
    assert await stored(session, new) == ["together"], "nothing of the batch is visible"

    await hold.commit()
    await holder.close()
    assert (await publication).stored == 3
    expected = {"a": ["batch", "push", "together"], "b": ["batch", "push"], "c": ["together"]}

    async def is_stored() -> bool:
        return {name: await stored(session, new, name) for name in "abc"} == expected

    await wait_until_async(
        is_stored, timeout_s=SOON_S, what="the queued pushes to be stored, in order"
    )


async def test_a_batch_that_was_published_before_makes_no_partitions_again(
    api: Api, session: asyncpg.Connection, shared_database_url: str
) -> None:
    queue = unique()
    for _ in range(2):
        one = await stage(session, Row(queue, "batch", "a"))
        stages = [store.Stage(str(one.id), one.count)]
        await asyncio.to_thread(store.publish, shared_database_url, queue, 0, stages)
        await api.http.delete(f"/api/v1/resources/queues/{queue}")
    found = await session.fetchval("SELECT count(*) FROM queen.queues WHERE name = $1", queue)
    assert found == 0
