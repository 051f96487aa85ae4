"""The facts of a diagnosis in the database, and the findings from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg
import msgspec

from queenmq.engine.diagnosis.facts import BrokerFacts, QueueFacts
from queenmq.engine.diagnosis.findings import diagnose
from tests.isolation.sessions import (
    Item,
    ack,
    acks_of,
    configure,
    ensure,
    expire,
    pop_one,
    push,
    push_all,
)
from tests.support.broker import unique


async def _facts(
    session: asyncpg.Connection, queue: str, partition: str | None = None, group: str | None = None
) -> QueueFacts:
    text = await session.fetchval(
        "SELECT queen.queue_facts($1, $2, $3, 10)::text", queue, partition, group
    )
    return msgspec.json.decode(text, type=QueueFacts)


async def _codes(
    session: asyncpg.Connection, queue: str, partition: str | None = None
) -> list[str]:
    facts = await _facts(session, queue, partition)
    return [one.code for one in diagnose(facts, BrokerFacts())]


async def test_unknown_queue_has_no_facts(database: asyncpg.Connection) -> None:
    query = "SELECT queen.queue_facts($1, NULL, NULL, 10)"
    assert await database.fetchval(query, unique()) is None


async def test_blocked_partition_is_named_with_its_message(database: asyncpg.Connection) -> None:
    queue = unique()
    place, _ = await ensure(database, queue, "stuck", "fine")
    await configure(database, queue, on_poison="block", retry_limit=1)
    await push(database, Item(place, 1, "poison"), Item(place, 2, "next"))
    for _ in range(2):
        await pop_one(database, place, batch=1)
        await expire(database, place)
    assert (await _facts(database, queue)).behind.details[0].is_solo
    await pop_one(database, place)
    facts = await _facts(database, queue)
    (one,) = facts.behind.details
    assert (one.state, one.blocked_id, one.partition) == ("blocked", "poison", "stuck")
    assert (facts.behind.blocked, facts.behind.behind, facts.partitions) == (1, 1, 3)
    assert await _codes(database, queue) == ["blocked_by_poison"]
    assert await _codes(database, queue, "fine") == ["no_backlog"]


async def test_lease_that_ran_out_is_told_when_it_is_taken_again(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, 1, 2)
    await pop_one(database, place)
    await expire(database, place)
    assert (await _codes(database, queue))[0] == "ready"
    taken = await pop_one(database, place)
    (one,) = (await _facts(database, queue)).behind.details
    assert (one.expiry_count, one.lease_id, one.lease_messages) == (1, str(taken.lease_id), 2)
    assert await _codes(database, queue) == ["lease_keeps_expiring"]


async def test_operations_that_wait_or_failed_are_told(database: asyncpg.Connection) -> None:
    queue = unique()
    place, other = await ensure(database, queue, "a", "b")
    await push(database, Item(place, 1), queued=[place])
    await push(database, Item(other, 1), queued=[other])
    facts = await _facts(database, queue)
    assert (facts.operations.pending, facts.operations.failed) == (2, 0)
    assert (await _codes(database, queue))[0] == "operations_waiting"
    await database.execute(
        "UPDATE queen.operation_queue SET status = 'failed', error_message = 'bad',"
        " processed_at = now(), retry_count = 3 WHERE partition_id = $1",
        other,
    )
    first = (await _facts(database, queue)).operations.first
    assert first is not None and (first.partition, first.error) == ("b", "bad")
    assert (await _codes(database, queue))[:2] == ["operation_failed", "operations_waiting"]
    assert (await _codes(database, queue, "a"))[0] == "operations_waiting"
    assert (await _codes(database, queue, "b"))[0] == "operation_failed"


async def test_backlog_leaves_out_what_was_deleted(database: asyncpg.Connection) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await push(database, *(Item(place, n, f"t{n}") for n in range(5)))
    await pop_one(database, place, batch=1, auto_ack=True)
    for name in ("t2", "t4"):
        await database.execute("SELECT queen.delete_message($1, $2, 1000)", place, name)
    facts = await _facts(database, queue)
    assert (facts.behind.backlog, facts.behind.details[0].oldest_id) == (2, "t1")


async def test_oldest_message_is_that_of_all_partitions(database: asyncpg.Connection) -> None:
    queue = unique()
    places = await ensure(database, queue, *(f"p{n}" for n in range(12)))
    for place in places:
        await push_all(database, place, 1)
    old = datetime.now(UTC) - timedelta(days=1)
    await database.execute(
        "UPDATE queen.messages SET created_at = $2 WHERE partition_id = $1", places[7], old
    )
    facts = await _facts(database, queue)
    assert (len(facts.behind.details), facts.behind.behind) == (10, 12)
    assert (facts.behind.oldest_at, facts.behind.backlog) == (old, 12)


async def test_last_dead_letter_is_that_of_the_group_and_partition(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    first, second = await ensure(database, queue, "a", "b")
    for place, group in ((first, "g"), (second, "g"), (second, "h")):
        if group == "g":
            await push(database, Item(place, 1, "x"))
        taken = await pop_one(database, place, group)
        await ack(database, *acks_of(taken, group=group, status="dlq"))
    of_g = (await _facts(database, queue, None, "g")).last_dead_letter
    of_a = (await _facts(database, queue, "a", "g")).last_dead_letter
    assert of_g is not None and of_g.partition == "b"
    assert of_a is not None and of_a.partition == "a"
    assert (await _facts(database, queue, "a", "h")).last_dead_letter is None
