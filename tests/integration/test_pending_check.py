"""has_pending_messages: the cheap question has the same answer as a look-up would."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from tests.isolation.sessions import (
    ack,
    acks_of,
    configure,
    ensure,
    expire,
    pop_one,
    push_all,
)
from tests.support.broker import unique
from tests.support.look_ups import Ask, age, has_pending, look_at

GROUP = "billing"


async def _filled(database: asyncpg.Connection, queue: str, *payloads: int) -> UUID:
    """A partition with messages."""
    (place,) = await ensure(database, queue)
    await push_all(database, place, *(payloads or (1,)))
    return place


async def _subscribe(
    database: asyncpg.Connection, queue: str, start: datetime | None, partition: str = ""
) -> None:
    await database.execute(
        "SELECT queen.subscribe_groups($1, $2, $3, $4)", [queue], [partition], [GROUP], [start]
    )


async def _ask(database: asyncpg.Connection, ask: Ask) -> bool:
    """The answer, which a look-up must confirm."""
    (answer,) = await has_pending(database, ask)
    assert answer == bool((await look_at(database, ask)).ready)
    return answer


async def test_messages_that_nobody_has_had_are_pending(database: asyncpg.Connection) -> None:
    queue = unique()
    await _filled(database, queue)
    assert await _ask(database, Ask(queue, GROUP))
    assert await _ask(database, Ask(queue, GROUP, partition="Default"))


@pytest.mark.parametrize("ask", [Ask("missing"), Ask("missing", partition="p"), Ask(task="none")])
async def test_nothing_is_pending_where_nothing_is(database: asyncpg.Connection, ask: Ask) -> None:
    assert not await _ask(database, ask)


async def test_nothing_is_pending_in_an_empty_partition(database: asyncpg.Connection) -> None:
    queue = unique()
    await ensure(database, queue)
    assert not await _ask(database, Ask(queue))


@pytest.mark.parametrize("option", ["delayed_processing", "window_buffer"])
async def test_what_is_not_due_is_not_pending_until_it_is(
    database: asyncpg.Connection, option: str
) -> None:
    queue = unique()
    await configure(database, queue, **{option: 60})
    place = await _filled(database, queue)
    assert not await _ask(database, Ask(queue, GROUP))
    await age(database, place, 60)
    assert await _ask(database, Ask(queue, GROUP))


async def test_what_is_leased_is_not_pending_until_the_lease_ends(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    place = await _filled(database, queue)
    popped = await pop_one(database, place, GROUP)
    assert not await _ask(database, Ask(queue, GROUP))
    assert await _ask(database, Ask(queue, "other"))
    await expire(database, place, GROUP)
    assert await _ask(database, Ask(queue, GROUP))
    popped = await pop_one(database, place, GROUP)
    await ack(database, *acks_of(popped, group=GROUP))
    assert not await _ask(database, Ask(queue, GROUP))


async def test_what_waits_for_a_retry_is_not_pending(database: asyncpg.Connection) -> None:
    queue = unique()
    await configure(database, queue, retry_delay=60_000)
    popped = await pop_one(database, await _filled(database, queue), GROUP)
    await ack(database, *acks_of(popped, group=GROUP, status="failed"))
    assert not await _ask(database, Ask(queue, GROUP))


async def test_a_blocked_partition_is_not_pending(database: asyncpg.Connection) -> None:
    queue = unique()
    await configure(database, queue, on_poison="block", retry_limit=1)
    place = await _filled(database, queue)
    for _ in range(3):
        await pop_one(database, place, GROUP)
        await expire(database, place, GROUP)
    assert not await _ask(database, Ask(queue, GROUP))


@pytest.mark.parametrize("delay", [0, 60])
async def test_one_pop_is_enough_to_know_that_all_messages_were_deleted(
    database: asyncpg.Connection, delay: int
) -> None:
    queue = unique()
    await configure(database, queue, delayed_processing=delay)
    place = await _filled(database, queue, *range(50))
    await database.execute("DELETE FROM queen.messages WHERE partition_id = $1", place)
    assert (await pop_one(database, place, GROUP, batch=1)).outcome == "again"
    assert not await _ask(database, Ask(queue, GROUP))
    await push_all(database, place, "later")
    await age(database, place, delay)
    assert await _ask(database, Ask(queue, GROUP))
    assert (await pop_one(database, place, GROUP)).data == ["later"]


async def test_what_was_cleared_is_not_pending(database: asyncpg.Connection) -> None:
    queue = unique()
    await _filled(database, queue)
    await database.execute("SELECT queen.clear_queue($1, NULL)", queue)
    assert not await _ask(database, Ask(queue, GROUP))


async def test_old_messages_are_not_pending_for_a_group_that_starts_with_new_ones(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    place = await _filled(database, queue)
    await _subscribe(database, queue, None)
    assert not await _ask(database, Ask(queue, GROUP))
    await push_all(database, place, 2)
    assert await _ask(database, Ask(queue, GROUP))


async def test_a_partition_that_is_younger_than_the_group_is_pending_whole(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await _filled(database, queue)
    await _subscribe(database, queue, None)
    (younger,) = await ensure(database, queue, "younger")
    await push_all(database, younger, 1)
    assert await _ask(database, Ask(queue, GROUP))
    assert (await look_at(database, Ask(queue, GROUP))).ready == [younger]


async def test_messages_from_before_the_start_of_a_group_are_not_pending(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    place = await _filled(database, queue)
    await age(database, place, 3_600)
    await _subscribe(database, queue, datetime.now(UTC) - timedelta(minutes=30))
    assert not await _ask(database, Ask(queue, GROUP))
    assert await _ask(database, Ask(queue, "other"))
    await push_all(database, place, 2)
    assert await _ask(database, Ask(queue, GROUP))
    assert (await pop_one(database, place, GROUP)).data == [2]


async def test_an_earlier_start_of_the_partition_counts_before_that_of_the_queue(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    place = await _filled(database, queue)
    await age(database, place, 3_600)
    await _subscribe(database, queue, datetime.now(UTC) - timedelta(minutes=30))
    await _subscribe(database, queue, datetime.now(UTC) - timedelta(hours=2), "Default")
    assert await _ask(database, Ask(queue, GROUP, partition="Default"))
    assert (await pop_one(database, place, GROUP)).data == [1]


async def test_each_pair_has_its_own_answer(database: asyncpg.Connection) -> None:
    full, empty = unique(), unique()
    place = await _filled(database, full)
    await ensure(database, empty)
    await pop_one(database, place, "done", auto_ack=True)
    horizon = (await look_at(database, Ask(full))).horizon
    answers = await has_pending(
        database,
        Ask(full, GROUP),
        Ask(empty, GROUP),
        Ask(full, "done"),
        Ask(full, GROUP, horizon=horizon),
        Ask(full, GROUP, horizon=horizon, known=(place,)),
    )
    assert answers == [True, False, False, False, True]
    assert await has_pending(database) == []
