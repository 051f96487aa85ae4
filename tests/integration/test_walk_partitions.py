"""walk_partitions: a queue is gone through in id order, slice by slice."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from tests.isolation.sessions import Want, ensure, pop, push_all
from tests.support.broker import unique
from tests.support.look_ups import Next, look_on
from tests.support.many_partitions import count_reads, make_idle

START = UUID(int=0)


async def _filled(database: asyncpg.Connection, queue: str, count: int) -> list[UUID]:
    """Partitions with a message each, in id order."""
    places = await ensure(database, queue, *(f"p{number}" for number in range(count)))
    for place in places:
        await push_all(database, place, 1)
    return sorted(places)


async def test_slices_follow_each_other_in_id_order(database: asyncpg.Connection) -> None:
    queue = unique()
    places = [*await _filled(database, queue, 7), *await make_idle(database, queue, 2_000)]
    after, seen, is_end = START, [], False
    while not is_end:
        (part,) = await look_on(database, Next(queue, after), limit=1, budget_ms=0)
        assert part["last_id"] > after
        seen.append(sorted(part["partition_ids"]))
        after, is_end = part["last_id"], part["is_end"]
    assert len(seen) > 3
    assert [one for part in seen for one in part] == sorted(places[:7])


async def test_a_small_queue_is_one_slice(database: asyncpg.Connection) -> None:
    queue = unique()
    places = await _filled(database, queue, 40)
    await pop(database, Want(places[:35], batch=100, auto_ack=True))
    (part,) = await look_on(database, Next(queue, START), limit=100)
    assert part["is_end"] and part["is_whole"]
    assert sorted(part["partition_ids"]) == places[35:]


async def test_what_must_wait_is_named(database: asyncpg.Connection) -> None:
    queue = unique()
    places = await _filled(database, queue, 8)
    await pop(database, Want(places[:4], batch=100))
    (part,) = await look_on(database, Next(queue, START), limit=100)
    assert sorted(part["partition_ids"]) == places[4:]
    held = dict(zip(part["held_ids"], part["held_whys"], strict=True))
    assert held == dict.fromkeys(places[:4], "l")
    assert part["is_whole"] and part["next_due_ms"] > 0


async def test_no_more_than_a_broker_can_remember_must_wait(database: asyncpg.Connection) -> None:
    queue = unique()
    places = await make_idle(database, queue, 6_000, messages=1)
    await database.execute(
        "UPDATE queen.partition_consumers SET cursor_seq = 0, lease_id = gen_random_uuid(),"
        " lease_end_seq = 1, lease_expires_at = now() + interval '1 hour'"
        " WHERE partition_id = ANY ($1)",
        places,
    )
    (part,) = await look_on(database, Next(queue, START), limit=100)
    assert part["is_end"] and not part["is_whole"]
    assert len(part["held_ids"]) == len(part["held_whys"]) == 5_000


async def test_least_recently_served_of_a_step_comes_first(database: asyncpg.Connection) -> None:
    queue = unique()
    places = await _filled(database, queue, 4)
    for place in places:
        await push_all(database, place, 2)
    for place in (places[2], places[0]):
        await pop(database, Want([place], batch=1, auto_ack=True))
    (part,) = await look_on(database, Next(queue, START), limit=4)
    assert part["partition_ids"][2:] == [places[2], places[0]]


async def test_groups_and_queues_are_gone_through_each_for_itself(
    database: asyncpg.Connection,
) -> None:
    queue, other = unique(), unique()
    places = await _filled(database, queue, 4)
    others = await _filled(database, other, 4)
    await pop(database, Want(places[:2], "a", batch=100, auto_ack=True))
    parts = await look_on(
        database,
        Next(queue, START, "a"),
        Next(queue, places[0], "b"),
        Next(other, START, "a"),
        Next("no such queue", START),
        limit=2,
    )
    assert [part["pair"] for part in parts] == [1, 2, 3, 4]
    assert [sorted(part["partition_ids"]) for part in parts] == [
        places[2:4],
        places[1:],
        others,
        [],
    ]
    assert all(part["is_end"] for part in parts)


async def test_first_pair_is_always_looked_at_and_later_ones_only_in_time(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await _filled(database, queue, 2)
    asks = [Next(queue, START), Next(queue, START)]
    parts = await look_on(database, *asks, limit=1, budget_ms=0)
    assert [part["pair"] for part in parts] == [1]


async def test_a_slice_reads_its_partitions_only(database: asyncpg.Connection) -> None:
    queue = unique()
    await make_idle(database, queue, 20_000)
    before = await count_reads(database)
    (part,) = await look_on(database, Next(queue, START), limit=100, budget_ms=0)
    assert not part["is_end"]
    # 500 partitions: the row of each, and the search for the last one.
    assert await count_reads(database) - before < 2_000
