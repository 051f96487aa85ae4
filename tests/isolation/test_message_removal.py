"""Single messages deleted, dead-lettered and pushed again while others push, pop and ack."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from queenmq.storage.schema import lookup_care
from queenmq.storage.sql_files import load_queries
from tests.isolation.sessions import (
    QUEUE_MODE,
    Ack,
    Connect,
    Item,
    Want,
    ack,
    acks_of,
    configure,
    cursor,
    ensure,
    expire,
    pop,
    pop_one,
    push,
    seqs,
    start_blocked,
    transaction,
)
from tests.support.broker import SOON_S, unique
from tests.support.waiting import wait_until_async

_WAIT_MS = 10_000


async def _delete(session: asyncpg.Connection, place: UUID, name: str) -> str | None:
    queue: str | None = await session.fetchval(
        "SELECT queen.delete_message($1, $2, $3)", place, name, _WAIT_MS
    )
    return queue


async def _bury(session: asyncpg.Connection, place: UUID, name: str) -> list[str] | None:
    row = await session.fetchrow(
        "SELECT * FROM queen.bury_message($1, $2, 'why', $3)", place, name, _WAIT_MS
    )
    assert row is not None
    groups: list[str] | None = row["consumer_groups"]
    return groups


async def _retry(
    session: asyncpg.Connection, queue: str, group: str | None = None, limit: int = 10
) -> list[asyncpg.Record]:
    return await session.fetch(
        "SELECT * FROM queen.retry_dead_letters($1, $2, NULL, NULL, NULL, NULL, NULL, $3, 10, $4)",
        queue,
        group,
        limit,
        _WAIT_MS,
    )


async def _purge(session: asyncpg.Connection, queue: str) -> int:
    query = load_queries("dead_letters")["purge_dead_letters"]
    row = await session.fetchrow(query, queue, None, None, None, None, None, 10)
    assert row is not None
    count: int = row["purged"]
    return count


async def _counts(session: asyncpg.Connection, place: UUID) -> tuple[int, int, int, int]:
    row = await session.fetchrow(
        "SELECT total, pending, processing, completed FROM queen.partition_counts(NULL)"
        " WHERE partition_id = $1",
        place,
    )
    assert row is not None
    return tuple(row)


async def _letters(session: asyncpg.Connection, place: UUID) -> list[tuple[str, str]]:
    rows = await session.fetch(
        "SELECT consumer_group, transaction_id FROM queen.dead_letter_queue"
        " WHERE partition_id = $1 ORDER BY consumer_group, seq",
        place,
    )
    return [tuple(row) for row in rows]


async def _place(session: asyncpg.Connection, count: int = 4) -> tuple[str, UUID]:
    """A partition with messages 1, 2, 3 ... whose transaction ids are t1, t2, t3 ..."""
    queue = unique()
    (place,) = await ensure(session, queue)
    await push(session, *(Item(place, n, f"t{n}") for n in range(1, count + 1)))
    return queue, place


async def _drain(session: asyncpg.Connection, place: UUID, group: str = QUEUE_MODE) -> list[Any]:
    """Everything that can be had, over the gaps."""
    found: list[Any] = []
    while (row := await pop_one(session, place, group, auto_ack=True)).outcome != "none":
        assert row.outcome in ("granted", "again")
        found += row.data
    return found


@pytest.mark.parametrize("gone", [{1}, {2}, {4}, {1, 2}, {2, 3}, {3, 4}, {1, 4}, {1, 2, 3, 4}])
async def test_rest_is_delivered_and_counted_whatever_is_deleted(
    database: asyncpg.Connection, database_url: str, gone: set[int]
) -> None:
    _, place = await _place(database)
    for n in sorted(gone, reverse=True):
        assert await _delete(database, place, f"t{n}") is not None
    rest = [n for n in range(1, 5) if n not in gone]
    assert await _counts(database, place) == (len(rest), len(rest), 0, 0)
    assert all(found.total == 0 for found in await lookup_care.check(database_url))
    await push(database, Item(place, 5, "t5"))
    assert await _drain(database, place) == [*rest, 5]
    assert await _counts(database, place) == (len(rest) + 1, 0, 0, len(rest) + 1)
    assert await seqs(database, place) == [*rest, 5], "a number is not given out again"


@pytest.mark.parametrize("gone", [1, 2, 3])
async def test_counts_leave_out_what_was_deleted_behind_and_before_a_cursor(
    database: asyncpg.Connection, gone: int
) -> None:
    _, place = await _place(database)
    first = await pop_one(database, place, batch=2)
    await ack(database, *acks_of(first))
    await _delete(database, place, f"t{gone}")
    completed = 1 if gone <= 2 else 2
    assert await _counts(database, place) == (3, 3 - completed, 0, completed)
    lag = await database.fetchval(
        "SELECT offset_lag FROM queen.group_lags(NULL) WHERE partition_id = $1", place
    )
    assert lag == 3 - completed


async def test_deleted_message_makes_room_in_a_full_queue(database: asyncpg.Connection) -> None:
    queue, place = await _place(database, 3)
    await configure(database, queue, max_size=3)
    assert (await push(database, Item(place, 4))).outcomes == "f"
    await _delete(database, place, "t2")
    assert (await push(database, Item(place, 4))).outcomes == "q"
    assert (await push(database, Item(place, 5))).outcomes == "f"


async def test_transaction_id_of_a_deleted_message_may_be_pushed_again(
    database: asyncpg.Connection,
) -> None:
    _, place = await _place(database, 2)
    assert (await push(database, Item(place, 9, "t1"))).outcomes == "d"
    await _delete(database, place, "t1")
    assert (await push(database, Item(place, 9, "t1"))).outcomes == "q"
    assert await _drain(database, place) == [2, 9]


async def test_lease_ends_with_the_last_message_that_is_left_in_it(
    database: asyncpg.Connection,
) -> None:
    _, place = await _place(database)
    taken = await pop_one(database, place, batch=3)
    await _delete(database, place, "t3")
    assert await _counts(database, place) == (3, 1, 2, 0)
    first, second, third = await ack(database, *acks_of(taken))
    assert (first["success"], second["success"], second["lease_released"]) == (True, True, True)
    assert (third["success"], third["error"]) == (False, "Message not found")
    assert await _drain(database, place) == [4]


async def test_lease_over_nothing_else_ends_at_once(database: asyncpg.Connection) -> None:
    _, place = await _place(database)
    taken = await pop_one(database, place, batch=2)
    await ack(database, acks_of(taken)[0])
    await _delete(database, place, "t2")
    row = await cursor(database, place)
    assert row is not None and (row["is_leased"], row["cursor_seq"]) == (False, 2)
    (late,) = await ack(database, acks_of(taken)[1])
    assert late["error"] == "Message not found"
    assert await _drain(database, place) == [3, 4]


@pytest.mark.parametrize("apart", [None, 1])
@pytest.mark.parametrize("gone", [{3}, {2, 3}, {1, 3}, {2}, {3, 4}])
async def test_lease_taken_over_a_gap_ends_with_the_ack_of_what_was_delivered(
    database: asyncpg.Connection, gone: set[int], apart: int | None
) -> None:
    _, place = await _place(database, 5)
    for n in gone:
        await _delete(database, place, f"t{n}")
    (taken,) = await pop(database, Want([place], batch=3), apart_count=apart)
    first = min({1, 2, 3} - gone)
    delivered = [n for n in range(first, first + 3) if n not in gone]
    assert taken.data == (delivered if apart is None else [])
    acks = [Ack(place, f"t{n}", taken.lease_id) for n in delivered]
    *_, last = await ack(database, *acks)
    assert last["lease_released"]
    rest = [n for n in range(delivered[-1] + 1, 6) if n not in gone]
    assert await _drain(database, place) == rest


async def test_message_in_the_middle_of_a_lease_leaves_the_others_to_it(
    database: asyncpg.Connection,
) -> None:
    _, place = await _place(database)
    taken = await pop_one(database, place, batch=3)
    await _delete(database, place, "t2")
    results = await ack(database, *acks_of(taken))
    assert [row["success"] for row in results] == [True, False, True]
    assert results[2]["lease_released"]
    assert await _drain(database, place) == [4]


async def test_failed_message_that_is_deleted_holds_nobody_up(
    database: asyncpg.Connection,
) -> None:
    queue, place = await _place(database)
    await configure(database, queue, retry_delay=600_000)
    taken = await pop_one(database, place, batch=2)
    await ack(database, Ack(place, "t1", taken.lease_id, "failed"))
    assert (await pop_one(database, place)).outcome == "retry"
    await _delete(database, place, "t1")
    assert await _drain(database, place) == [2, 3, 4]


async def test_blocked_partition_goes_on_without_the_message_that_blocked_it(
    database: asyncpg.Connection,
) -> None:
    queue, place = await _place(database)
    await configure(database, queue, on_poison="block", retry_limit=1)
    for _ in range(2):
        await pop_one(database, place, batch=2)
        await expire(database, place)
    assert (await pop_one(database, place)).outcome == "again"
    assert (await pop_one(database, place)).outcome == "blocked"
    await _delete(database, place, "t1")
    assert await _drain(database, place) == [2, 3, 4]


async def test_poison_rule_does_not_block_at_a_message_that_was_deleted(
    database: asyncpg.Connection,
) -> None:
    queue, place = await _place(database)
    await configure(database, queue, on_poison="block", retry_limit=1)
    for _ in range(2):
        await pop_one(database, place, batch=2)
        await expire(database, place)
    await _delete(database, place, "t1")
    assert await _drain(database, place) == [2, 3, 4]


async def test_delete_waits_for_a_pop_in_flight_and_its_lease_is_cut(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, operator = await connect(), await connect()
    _, place = await _place(database)
    await _drain(database, place, "other")
    await pop_one(database, place, batch=1, auto_ack=True)
    async with consumer.transaction():
        taken = await pop_one(consumer, place, batch=2)
        waiting = await start_blocked(database, operator, _delete(operator, place, "t3"))
    await waiting
    assert taken.data == [2, 3]
    results = await ack(database, *acks_of(taken))
    assert [row["success"] for row in results] == [True, False]
    assert await _drain(database, place) == [4]


async def test_pop_does_not_wait_for_an_open_delete(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, operator = await connect(), await connect()
    _, place = await _place(database)
    assert (await pop_one(database, place, batch=1, auto_ack=True)).data == [1]
    await consumer.execute("SET lock_timeout = '2s'")
    async with operator.transaction():
        await _delete(operator, place, "t2")
        assert await pop(consumer, Want([place])) == []
    assert await _drain(consumer, place) == [3, 4]


async def test_delete_waits_for_an_ack_in_flight(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, operator = await connect(), await connect()
    _, place = await _place(database, 1)
    taken = await pop_one(database, place)
    async with consumer.transaction():
        assert (await ack(consumer, *acks_of(taken)))[0]["success"]
        waiting = await start_blocked(database, operator, _delete(operator, place, "t1"))
    assert await waiting is not None
    assert await _counts(database, place) == (0, 0, 0, 0)


async def test_push_waits_for_an_open_delete_and_comes_after_it(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer, operator = await connect(), await connect()
    _, place = await _place(database, 1)
    async with operator.transaction():
        await _delete(operator, place, "t1")
        waiting = await start_blocked(database, producer, push(producer, Item(place, 2, "t1")))
    assert (await waiting).outcomes == "q"
    assert await _drain(database, place) == [2]


async def test_deleting_twice_at_once_deletes_once(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    queue, place = await _place(database, 2)
    async with first.transaction():
        assert await _delete(first, place, "t1") == queue
        waiting = await start_blocked(database, second, _delete(second, place, "t1"))
    assert await waiting is None
    assert await _counts(database, place) == (1, 1, 0, 0)


# The dead letters.


async def test_buried_message_is_a_dead_letter_of_each_group_that_has_not_passed_it(
    database: asyncpg.Connection,
) -> None:
    _, place = await _place(database)
    for group, count in (("done", 4), ("at", 2)):
        await pop_one(database, place, group, batch=count, auto_ack=True)
    await pop_one(database, place, "before", batch=1)
    assert await _bury(database, place, "t3") == ["at", "before"]
    assert await _letters(database, place) == [("at", "t3"), ("before", "t3")]
    assert await seqs(database, place) == [1, 2, 4]


async def test_buried_message_of_a_partition_nobody_reads_belongs_to_the_default_group(
    database: asyncpg.Connection,
) -> None:
    _, place = await _place(database, 2)
    assert await _bury(database, place, "t1") == [QUEUE_MODE]
    assert await _drain(database, place) == [2]


async def test_message_that_all_have_passed_is_not_buried(database: asyncpg.Connection) -> None:
    _, place = await _place(database, 2)
    assert await _drain(database, place) == [1, 2]
    assert await _bury(database, place, "t1") == []
    assert await seqs(database, place) == [1, 2]
    assert await _letters(database, place) == []


async def test_bury_that_waited_for_the_ack_of_its_message_changes_nothing(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, operator = await connect(), await connect()
    _, place = await _place(database, 1)
    taken = await pop_one(database, place)
    async with consumer.transaction():
        assert (await ack(consumer, *acks_of(taken)))[0]["success"]
        waiting = await start_blocked(database, operator, _bury(operator, place, "t1"))
    assert await waiting == []
    assert await _letters(database, place) == []


async def test_ack_that_waited_for_the_burial_of_its_message_is_refused(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, operator = await connect(), await connect()
    _, place = await _place(database, 2)
    taken = await pop_one(database, place)
    async with operator.transaction():
        assert await _bury(operator, place, "t2") == [QUEUE_MODE]
        waiting = await start_blocked(database, consumer, ack(consumer, *acks_of(taken)))
    first, second = await waiting
    assert (first["success"], first["lease_released"]) == (True, True)
    assert second["error"] == "Message not found"
    assert await _letters(database, place) == [(QUEUE_MODE, "t2")]


async def test_dead_letter_of_several_groups_is_pushed_again_once(
    database: asyncpg.Connection,
) -> None:
    queue, place = await _place(database, 2)
    for group in "ab":
        taken = await pop_one(database, place, group, batch=1)
        await ack(database, *acks_of(taken, group=group, status="dlq"))
    (row,) = await _retry(database, queue)
    assert (row["outcome"], row["letters"], row["has_more"]) == ("q", 2, False)
    assert row["new_transaction_id"] == row["message_id"] != "t1", "the first one is still there"
    assert await _letters(database, place) == []
    for group in "ab":
        assert await _drain(database, place, group) == [2, 1]


async def test_retry_for_one_group_leaves_the_letters_of_others(
    database: asyncpg.Connection,
) -> None:
    queue, place = await _place(database, 1)
    for group in "ab":
        taken = await pop_one(database, place, group)
        await ack(database, *acks_of(taken, group=group, status="dlq"))
    (row,) = await _retry(database, queue, "a")
    assert row["letters"] == 1
    assert await _letters(database, place) == [("b", "t1")]


async def test_message_that_left_its_partition_keeps_its_transaction_id(
    database: asyncpg.Connection,
) -> None:
    queue, place = await _place(database, 2)
    await _bury(database, place, "t1")
    (row,) = await _retry(database, queue)
    assert row["new_transaction_id"] == "t1"
    assert (await push(database, Item(place, 9, "t1"))).outcomes == "d"
    assert await _drain(database, place) == [2, 1]


async def test_letters_of_one_id_do_not_become_duplicates_of_each_other(
    database: asyncpg.Connection,
) -> None:
    queue, place = await _place(database, 1)
    await _bury(database, place, "t1")
    await push(database, Item(place, 2, "t1"))
    await _bury(database, place, "t1")
    rows = await _retry(database, queue)
    assert [row["outcome"] for row in rows] == ["q", "q"]
    assert await _drain(database, place) == [1, 2]


async def test_letters_are_pushed_in_the_order_of_their_partitions(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    places = await ensure(database, queue, "a", "b")
    for place in places:
        await push(database, *(Item(place, n, f"t{n}") for n in range(4)))
    for n in (2, 0, 3):
        for place in places:
            await _bury(database, place, f"t{n}")
    first = await _retry(database, queue, limit=2)
    assert all(row["has_more"] for row in first)
    assert sorted(row["transaction_id"] for row in first) == ["t2", "t2"]
    rest = await _retry(database, queue)
    assert not any(row["has_more"] for row in rest)
    for place in places:
        assert await _drain(database, place) == [1, 2, 0, 3]


async def test_full_queue_keeps_the_letters_it_has_no_room_for(
    database: asyncpg.Connection,
) -> None:
    queue, place = await _place(database, 3)
    for n in (1, 2):
        await _bury(database, place, f"t{n}")
    await configure(database, queue, max_size=2)
    rows = await _retry(database, queue)
    assert [row["outcome"] for row in rows] == ["q", "f"]
    assert await _letters(database, place) == [(QUEUE_MODE, "t2")]


async def test_retry_waits_behind_operations_and_forgets_the_letter(
    database: asyncpg.Connection,
) -> None:
    queue, place = await _place(database, 1)
    await _bury(database, place, "t1")
    await push(database, Item(place, 2), queued=[place])
    (row,) = await _retry(database, queue)
    assert row["outcome"] == "b"
    waiting = await database.fetch("SELECT id::text FROM queen.operation_queue ORDER BY seq")
    assert waiting[1]["id"] == row["message_id"]
    assert await _letters(database, place) == []


async def test_two_retries_at_once_push_once(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    queue, place = await _place(database, 1)
    await _bury(database, place, "t1")
    async with first.transaction():
        assert len(await _retry(first, queue)) == 1
        waiting = await start_blocked(database, second, _retry(second, queue))
    assert await waiting == []
    assert await _drain(database, place) == [1]


async def test_retry_that_loses_its_letter_to_a_purge_pushes_nothing(
    database: asyncpg.Connection, connect: Connect
) -> None:
    purger, operator = await connect(), await connect()
    queue, place = await _place(database, 1)
    await _bury(database, place, "t1")
    async with purger.transaction():
        assert await _purge(purger, queue) == 1
        waiting = await start_blocked(database, operator, _retry(operator, queue))
    with pytest.raises(asyncpg.SerializationError):
        await waiting
    assert await _drain(database, place) == []
    assert await _letters(database, place) == []


async def test_purge_does_not_wait_for_a_retry(
    database: asyncpg.Connection, connect: Connect
) -> None:
    purger, operator = await connect(), await connect()
    queue, place = await _place(database, 1)
    await _bury(database, place, "t1")
    await purger.execute("SET lock_timeout = '2s'")
    async with operator.transaction():
        assert len(await _retry(operator, queue)) == 1
        assert await _purge(purger, queue) == 0
    assert await _drain(database, place) == [1]


async def test_transaction_beside_a_retry_does_not_wait_in_a_circle(
    database: asyncpg.Connection, connect: Connect
) -> None:
    """Both want the lock of a bounded queue, and one dead letter of the same message."""
    consumer, operator = await connect(), await connect()
    queue = unique()
    place, other = await ensure(database, queue, "a", "b")
    await configure(database, queue, max_size=100)
    await push(database, Item(place, 1, "t1"))
    taken = await pop_one(database, place, "g")
    await ack(database, *acks_of(taken, group="g", status="dlq"))
    await database.execute("SELECT queen.seek_group('g', $1, NULL, '2001-01-01T00:00:00Z')", queue)
    again = await pop_one(database, place, "g")
    async with consumer.transaction():
        await push(consumer, Item(other, 1))
        waiting = await start_blocked(database, operator, _retry(operator, queue))
        acks = acks_of(again, group="g", status="dlq")
        assert (await ack(consumer, *acks))[0]["dlq"]
    (row,) = await waiting
    assert row["outcome"] == "q"


async def test_transaction_with_an_ack_of_a_deleted_message_is_refused(
    database: asyncpg.Connection,
) -> None:
    _, place = await _place(database, 2)
    taken = await pop_one(database, place)
    await _delete(database, place, "t2")
    with pytest.raises(asyncpg.PostgresError, match="Message not found"):
        await transaction(database, items=[Item(place, 3)], acks=acks_of(taken))
    assert await seqs(database, place) == [1]


async def test_messages_are_removed_beside_consumers_and_producers_and_no_other_is_lost(
    database: asyncpg.Connection, connect: Connect
) -> None:
    _, place = await _place(database, 1)
    await _delete(database, place, "t1")
    got: list[int] = []
    is_over = False

    async def produce(session: asyncpg.Connection) -> None:
        for n in range(100):
            await push(session, Item(place, n, f"m{n}"))

    async def consume(session: asyncpg.Connection) -> None:
        while not is_over:
            for row in await pop(session, Want([place], batch=3)):
                if row.lease_id is not None:
                    got.extend(row.data)
                    await ack(session, *acks_of(row))

    async def remove(session: asyncpg.Connection) -> set[int]:
        gone = set()
        for n in range(0, 100, 3):

            async def is_there(name: str = f"m{n}") -> bool:
                query = "SELECT queen.find_message($1, $2) IS NOT NULL"
                return bool(await session.fetchval(query, place, name))

            await wait_until_async(is_there, timeout_s=SOON_S, what="the push")
            await _delete(session, place, f"m{n}")
            gone.add(n)
        return gone

    consumers = [asyncio.create_task(consume(await connect())) for _ in range(2)]
    _, gone = await asyncio.gather(produce(await connect()), remove(await connect()))
    await _until_empty(database, place, got)
    is_over = True
    await asyncio.gather(*consumers)
    assert set(range(100)) - gone <= set(got)
    # One that is deleted under its lease may be noted after what the other consumer gets then.
    first_seen = [n for n in dict.fromkeys(got) if n not in gone]
    assert first_seen == sorted(first_seen)
    assert (await _counts(database, place))[1:3] == (0, 0)


async def _until_empty(session: asyncpg.Connection, place: UUID, got: list[Any]) -> None:
    """Take part in consuming until all has passed."""
    while (await _counts(session, place))[1:3] != (0, 0):
        for row in await pop(session, Want([place], batch=3)):
            if row.lease_id is not None:
                got += row.data
                await ack(session, *acks_of(row))
