"""pop_sm_resolve from a horizon on: only what is new is looked at, and nothing is missed."""

from __future__ import annotations

import json
from uuid import UUID

import asyncpg
import pytest

from tests.isolation.sessions import Connect, ensure, push_all
from tests.support.broker import unique
from tests.support.look_ups import Ask, look_at


async def _filled(database: asyncpg.Connection, queue: str, *names: str) -> list[UUID]:
    """Partitions with a message each."""
    places = await ensure(database, queue, *names)
    for place in places:
        await push_all(database, place, 1)
    return places


async def _reconfigure(
    database: asyncpg.Connection, queue: str, *, namespace: str = "", task: str = ""
) -> None:
    options = {
        "priority": 0,
        "leaseTime": 300,
        "retryLimit": 3,
        "retryDelay": 0,
        "maxSize": 0,
        "ttl": 3_600,
        "deadLetterQueue": False,
        "dlqAfterMaxRetries": False,
        "delayedProcessing": 0,
        "windowBuffer": 0,
        "retentionSeconds": 0,
        "completedRetentionSeconds": 0,
        "retentionEnabled": False,
        "encryptionEnabled": False,
        "maxWaitTimeSeconds": 0,
        "onPoison": "dlq",
        "onFailedOperation": "stop",
    }
    await database.execute(
        "SELECT * FROM queen.configure_queue($1, $2, $3, $4)",
        queue,
        namespace,
        task,
        json.dumps(options),
    )


async def test_only_what_is_new_or_named_is_looked_at(database: asyncpg.Connection) -> None:
    queue = unique()
    old, known, new = await ensure(database, queue, "old", "known", "new")
    for place in (old, known):
        await push_all(database, place, 1)
    before = await look_at(database, Ask(queue))
    assert before.is_complete and set(before.ready) == {old, known}
    await push_all(database, new, 1)
    found = await look_at(database, Ask(queue, horizon=before.horizon, known=(known,)))
    assert found.is_complete and set(found.ready) == {known, new}


async def test_message_of_a_transaction_that_was_open_is_found_next_time(
    database: asyncpg.Connection, connect: Connect
) -> None:
    queue = unique()
    early, late = await ensure(database, queue, "early", "late")
    slow = await connect()
    transaction = slow.transaction()
    await transaction.start()
    await push_all(slow, early, 1)
    await push_all(database, late, 1)
    before = await look_at(database, Ask(queue))
    assert before.ready == [late]
    await transaction.commit()
    # Several look-ups may lie between; none may lose it.
    known = before.left_behind
    found = await look_at(database, Ask(queue, horizon=before.horizon, known=known))
    assert set(found.ready) == {early, late}


async def test_horizon_does_not_pass_a_transaction_that_is_open(
    database: asyncpg.Connection, connect: Connect
) -> None:
    queue = unique()
    place, other = await ensure(database, queue, "a", "b")
    slow = await connect()
    async with slow.transaction():
        await push_all(slow, place, 1)
        found = await look_at(database, Ask(queue))
        for _ in range(3):
            await push_all(database, other, 1)
            found = await look_at(
                database, Ask(queue, horizon=found.horizon, known=found.left_behind)
            )
            assert found.ready == [other]
    found = await look_at(database, Ask(queue, horizon=found.horizon, known=(other,)))
    assert set(found.ready) == {place, other}


async def test_message_of_a_transaction_that_was_rolled_back_is_not_found(
    database: asyncpg.Connection, connect: Connect
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    before = await look_at(database, Ask(queue))
    slow = await connect()
    transaction = slow.transaction()
    await transaction.start()
    await push_all(slow, place, 1)
    await transaction.rollback()
    found = await look_at(database, Ask(queue, horizon=before.horizon))
    assert found.ready == [] and found.held == {}


async def test_queue_that_was_configured_since_is_searched_whole(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await _filled(database, queue)
    horizon = (await look_at(database, Ask(queue))).horizon
    ask = Ask(queue, horizon=horizon)
    assert (await look_at(database, ask)).ready == []
    await _reconfigure(database, queue)
    found = await look_at(database, ask)
    assert found.ready == [place]
    assert (await look_at(database, Ask(queue, horizon=found.horizon))).ready == []


async def test_queue_that_came_into_the_namespace_since_brings_its_old_messages(
    database: asyncpg.Connection,
) -> None:
    namespace, queue = unique("space"), unique()
    (place,) = await _filled(database, queue)
    before = await look_at(database, Ask(namespace=namespace))
    assert before.ready == []
    await _reconfigure(database, queue, namespace=namespace)
    found = await look_at(database, Ask(namespace=namespace, horizon=before.horizon))
    assert found.ready == [place]


async def test_queue_that_was_made_in_the_namespace_since_is_found(
    database: asyncpg.Connection,
) -> None:
    namespace = unique("space")
    before = await look_at(database, Ask(namespace=namespace))
    (place,) = await _filled(database, f"{namespace}.task.queue")
    found = await look_at(database, Ask(namespace=namespace, horizon=before.horizon))
    assert found.ready == [place]


@pytest.mark.parametrize("count", [4_999, 5_000, 5_001])
async def test_many_new_messages_are_found_and_nothing_else_is_lost(
    database: asyncpg.Connection, count: int
) -> None:
    queue = unique()
    old, flooded = await ensure(database, queue, "old", "flooded")
    await push_all(database, old, 1)
    before = await look_at(database, Ask(queue))
    await push_all(database, flooded, *range(count))
    ask = Ask(queue, horizon=before.horizon, known=before.left_behind)
    found = await look_at(database, ask)
    assert found.is_complete and set(found.ready) == {old, flooded}
    # Beyond the bound it does not depend on what it is told.
    whole = await look_at(database, ask._replace(known=()))
    assert set(whole.ready) == ({flooded} if count < 5_000 else {old, flooded})
