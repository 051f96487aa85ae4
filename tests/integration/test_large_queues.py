"""A look-up of a queue with many partitions reads as much as there is to find."""

from __future__ import annotations

import asyncpg

from tests.isolation.sessions import QUEUE_MODE, Want, ensure, pop, push_all
from tests.support.broker import unique
from tests.support.look_ups import Ask, look_at
from tests.support.many_partitions import count_reads, make_idle, make_passed

#: Queues with more partitions than this are not searched in one statement.
WHOLE_MAX = 100
IDLE = 20_000


async def test_one_waiting_message_among_idle_partitions_is_found_without_reading_them(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await make_idle(database, queue, IDLE, messages=3)
    (place,) = await ensure(database, queue, "waiting")
    await push_all(database, place, 1)
    before = await count_reads(database)
    found = await look_at(database, Ask(queue), whole_max=WHOLE_MAX)
    assert (found.ready, found.is_complete) == ([place], True)
    assert await count_reads(database) - before <= 2 * WHOLE_MAX


async def test_a_queue_with_few_partitions_is_searched_whole(database: asyncpg.Connection) -> None:
    queue = unique()
    (place,) = await ensure(database, queue, "waiting")
    await push_all(database, place, 1)
    # A row that says so is enough, also without a message.
    (hole,) = await make_idle(database, queue, 1, messages=1)
    await database.execute(
        "UPDATE queen.partition_consumers SET cursor_seq = 0 WHERE partition_id = $1", hole
    )
    found = await look_at(database, Ask(queue), whole_max=3)
    assert (set(found.ready), found.is_complete) == ({place, hole}, True)
    found = await look_at(database, Ask(queue), whole_max=2)
    assert (found.ready, found.is_complete) == ([place], True)


async def test_newest_messages_are_found_where_not_all_can_be_read(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    old, new = await ensure(database, queue, "old", "new")
    await push_all(database, old, 1)
    await make_passed(database, queue, 6_000)
    await push_all(database, new, 1)
    found = await look_at(database, Ask(queue), whole_max=WHOLE_MAX)
    assert (found.ready, found.is_complete) == ([new], False)
    # From its horizon on there is little to read, so the next one is complete.
    again = Ask(queue, horizon=found.horizon, known=(new,))
    found = await look_at(database, again, whole_max=WHOLE_MAX)
    assert (found.ready, found.is_complete) == ([new], True)


async def test_too_many_new_messages_are_not_searched_whole(database: asyncpg.Connection) -> None:
    queue = unique()
    await make_idle(database, queue, 6_000)
    first = await look_at(database, Ask(queue), whole_max=WHOLE_MAX)
    await database.execute(
        "INSERT INTO queen.messages (partition_id, seq, id, queue_id, created_at, payload)"
        " SELECT p.id, 1, gen_random_uuid(), p.queue_id, now(), '1' FROM queen.partitions p"
        " JOIN queen.queues q ON q.id = p.queue_id WHERE q.name = $1",
        queue,
    )
    asked = Ask(queue, horizon=first.horizon)
    found = await look_at(database, asked, limit=10_000, whole_max=WHOLE_MAX)
    assert (len(found.ready), found.is_complete) == (5_000, False)
    found = await look_at(database, asked, limit=10_000)
    assert (len(found.ready), found.is_complete) == (6_001, True), "as older brokers ask"


async def test_each_group_finds_what_it_has_not_passed(database: asyncpg.Connection) -> None:
    queue = unique()
    await make_idle(database, queue, 500, messages=1, groups=(QUEUE_MODE, "a"))
    (place,) = await ensure(database, queue, "waiting")
    await push_all(database, place, 1)
    await pop(database, Want([place], "a", auto_ack=True))
    for group, ready in (("a", []), (QUEUE_MODE, [place]), ("b", [place])):
        found = await look_at(database, Ask(queue, group), whole_max=WHOLE_MAX)
        assert (found.ready, found.is_complete) == (ready, True), group


async def test_a_queue_without_messages_and_one_that_does_not_exist_have_nothing(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await make_idle(database, queue, 500)
    for name in (queue, "no such queue"):
        found = await look_at(database, Ask(name), whole_max=WHOLE_MAX)
        assert (found.ready, found.held, found.is_complete) == ([], {}, True)


async def test_what_must_wait_is_named_in_a_large_queue(database: asyncpg.Connection) -> None:
    queue = unique()
    await make_idle(database, queue, 500)
    places = sorted(await ensure(database, queue, *"abcd"))
    for place in places:
        await push_all(database, place, 1)
    await pop(database, Want(places[:2], batch=10))
    found = await look_at(database, Ask(queue), whole_max=WHOLE_MAX)
    assert sorted(found.ready) == places[2:]
    assert found.held == dict.fromkeys(places[:2], "l")
