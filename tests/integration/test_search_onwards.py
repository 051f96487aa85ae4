"""search_onwards: a queue is gone through in id order, page by page."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from tests.isolation.sessions import Want, ensure, pop, push_all
from tests.support.broker import unique
from tests.support.look_ups import Next, look_on

START = UUID(int=0)


async def _filled(database: asyncpg.Connection, queue: str, count: int) -> list[UUID]:
    """Partitions with a message each, in id order."""
    places = await ensure(database, queue, *(f"p{number}" for number in range(count)))
    for place in places:
        await push_all(database, place, 1)
    return sorted(places)


async def test_pages_follow_each_other_in_id_order(database: asyncpg.Connection) -> None:
    queue = unique()
    places = await _filled(database, queue, 7)
    after, seen = START, []
    for _ in range(3):
        (page,) = await look_on(database, Next(queue, after), limit=2)
        assert page["is_filled"]
        seen.append(sorted(page["partition_ids"]))
        after = page["last_id"]
    assert seen == [places[0:2], places[2:4], places[4:6]]
    (page,) = await look_on(database, Next(queue, after), limit=2)
    assert not page["is_filled"], "the end came first"


async def test_what_has_passed_is_stepped_over(database: asyncpg.Connection) -> None:
    queue = unique()
    places = await _filled(database, queue, 40)
    await pop(database, Want(places[:35], batch=100, auto_ack=True))
    (page,) = await look_on(database, Next(queue, START), limit=2)
    assert page["is_filled"] and set(places[35:37]) <= set(page["partition_ids"])
    assert not set(places[:35]) & set(page["partition_ids"])


async def test_what_must_wait_fills_no_page_and_is_named(database: asyncpg.Connection) -> None:
    queue = unique()
    places = await _filled(database, queue, 8)
    await pop(database, Want(places[:4], batch=100))
    (page,) = await look_on(database, Next(queue, START), limit=3)
    assert page["is_filled"] and set(places[4:7]) <= set(page["partition_ids"])
    assert dict(zip(page["held_ids"], page["held_whys"], strict=True)) == dict.fromkeys(
        places[:4], "l"
    )
    assert page["next_due_ms"] > 0


async def test_least_recently_served_of_a_page_comes_first(database: asyncpg.Connection) -> None:
    queue = unique()
    places = await _filled(database, queue, 4)
    for place in places:
        await push_all(database, place, 2)
    for place in (places[2], places[0]):
        await pop(database, Want([place], batch=1, auto_ack=True))
    (page,) = await look_on(database, Next(queue, START), limit=4)
    assert page["partition_ids"][2:] == [places[2], places[0]]


async def test_message_pushed_behind_the_place_is_not_seen_and_one_before_it_is(
    database: asyncpg.Connection,
) -> None:
    """This is why a whole search follows a page that is not full."""
    queue = unique()
    places = sorted(await ensure(database, queue, *"abcdef"))
    await push_all(database, places[0], 1)
    await push_all(database, places[5], 1)
    ask = Next(queue, places[2])
    (page,) = await look_on(database, ask, limit=1)
    assert page["partition_ids"] == [places[5]]
    (page,) = await look_on(database, Next(queue, places[5]), limit=1)
    assert not page["is_filled"]


async def test_groups_and_queues_are_gone_through_each_for_itself(
    database: asyncpg.Connection,
) -> None:
    queue, other = unique(), unique()
    places = await _filled(database, queue, 4)
    others = await _filled(database, other, 4)
    await pop(database, Want(places[:2], "a", batch=100, auto_ack=True))
    pages = await look_on(
        database,
        Next(queue, START, "a"),
        Next(queue, START, "b"),
        Next(other, START, "a"),
        Next("no such queue", START),
        limit=2,
    )
    assert [page["pair"] for page in pages] == [1, 2, 3, 4]
    assert [sorted(page["partition_ids"]) for page in pages] == [
        places[2:4],
        places[:2],
        others[:2],
        [],
    ]
    assert [page["is_filled"] for page in pages] == [True, True, True, False]


async def test_first_pair_is_always_looked_at_and_later_ones_only_in_time(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await _filled(database, queue, 2)
    asks = [Next(queue, START), Next(queue, START)]
    pages = await look_on(database, *asks, limit=1, budget_ms=0)
    assert [page["pair"] for page in pages] == [1]


async def test_page_is_found_by_the_index_however_many_partitions_there_are(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await ensure(database, queue)
    await database.execute(
        "INSERT INTO queen.partitions (queue_id, name) SELECT id, 'x' || n"
        " FROM queen.queues, generate_series(1, 20000) AS n WHERE name = $1",
        queue,
    )
    await database.execute(
        "INSERT INTO queen.partition_lookup"
        " (partition_id, queue_id, last_seq, last_message_created_at)"
        " SELECT p.id, p.queue_id, 1, now() FROM queen.partitions p JOIN queen.queues q"
        " ON q.id = p.queue_id WHERE q.name = $1 AND p.name LIKE 'x%'",
        queue,
    )
    await database.execute("ANALYZE queen.partition_lookup")
    before = await _reads(database)
    (page,) = await look_on(database, Next(queue, START), limit=100)
    assert page["is_filled"]
    assert await _reads(database) - before < 1_000


async def _reads(database: asyncpg.Connection) -> int:
    """Rows of partition_lookup that this session has looked at so far."""
    await database.execute("SELECT pg_stat_force_next_flush()")
    reads: int = await database.fetchval(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables"
        " WHERE relid = 'queen.partition_lookup'::regclass"
    )
    return reads
