"""Sessions that queue, claim, run and push at once: nothing is run twice, nothing is overtaken."""

from __future__ import annotations

import asyncio
import json
from uuid import UUID, uuid4

import asyncpg
import pytest

from queenmq.storage.sql_files import load_queries
from tests.isolation.sessions import (
    Connect,
    Item,
    configure,
    ensure,
    push,
    push_all,
    start_blocked,
    transaction,
)
from tests.support.broker import unique
from tests.support.operations import (
    RawItem,
    claim,
    enqueue,
    fail_for_good,
    give_back,
    let_time_out,
    operation,
    operations,
    push_requests,
    run,
    run_all,
    settle,
    stored,
)

# Two workers.


async def test_an_operation_that_is_being_claimed_is_passed_over(connect: Connect) -> None:
    one, two = await connect(), await connect()
    a, b = await ensure(one, unique(), "a", "b")
    await enqueue(one, a, 1, 2)
    async with one.transaction():
        first = await claim(one)
        assert len(first.rows) == 2
        await enqueue(two, b, 1)
        # Not delayed by the other, and neither the first nor its followers are taken.
        assert {row["partition_id"] for row in (await claim(two)).rows} == {b}
    assert not (await claim(two)).rows


async def test_no_two_workers_get_the_same_operation(connect: Connect) -> None:
    sessions = [await connect() for _ in range(6)]
    places = await ensure(sessions[0], unique(), *(f"p{n}" for n in range(8)))
    for place in places:
        await enqueue(sessions[0], place, *range(12))
    taken: list[UUID] = []

    async def work(session: asyncpg.Connection) -> None:
        idle = 0
        while idle < 20:
            claimed = await claim(session, partitions_max=3, items_max=4)
            taken.extend(claimed.ids)
            idle = 0 if claimed.rows else idle + 1
            if claimed.rows:
                await run(session, claimed)

    await asyncio.gather(*(work(session) for session in sessions))
    assert len(taken) == len(set(taken)) == 8 * 12
    for place in places:
        assert await stored(sessions[0], place) == list(range(12))


async def test_an_operation_queued_during_a_claim_is_claimed_and_returned(
    connect: Connect,
) -> None:
    worker, other = await connect(), await connect()
    (place,) = await ensure(other, unique(), "p")
    # Hold the claim between the snapshot of its statement and those inside the function.
    await other.execute("ALTER FUNCTION queen.claim_operations RENAME TO claim_now")
    await other.execute(
        "CREATE FUNCTION queen.claim_operations(text, uuid, integer, integer) RETURNS TABLE"
        " (id uuid, partition_id uuid, seq bigint, queue_name text, partition_name text,"
        " retry_count integer, max_retries integer, was_stuck boolean) LANGUAGE plpgsql AS $$"
        " BEGIN PERFORM pg_advisory_xact_lock(1);"
        " RETURN QUERY SELECT * FROM queen.claim_now($1, $2, $3, $4); END $$"
    )
    await other.execute("SELECT pg_advisory_lock(1)")
    query = load_queries("operations")["claim_operations"]
    call = worker.fetch(query, "worker", uuid4(), 10, 10)
    claiming = await start_blocked(other, worker, call)
    (queued,) = await enqueue(other, place, 1)
    await other.execute("SELECT pg_advisory_unlock(1)")
    assert [row["id"] for row in await claiming] == [queued]


async def test_an_old_snapshot_does_not_make_a_follower_the_next_in_line(
    connect: Connect,
) -> None:
    one, two = await connect(), await connect()
    (place,) = await ensure(one, unique())
    await enqueue(one, place, 1, 2)
    # The snapshot of this one still shows the first operation as waiting.
    async with two.transaction(isolation="repeatable_read"):
        await two.fetchval("SELECT count(*) FROM queen.operation_queue")
        slow = await claim(one, items_max=1)
        assert len(slow.rows) == 1
        try:
            taken = await claim(two)
        except asyncpg.SerializationError:
            return
        assert not taken.rows


async def test_a_push_that_looks_first_does_not_wait_for_the_row_of_a_partition_in_line(
    connect: Connect,
) -> None:
    holder, one = await connect(), await connect()
    a, b = sorted(await ensure(holder, unique(), "a", "b"))
    await enqueue(one, a, 1)
    async with holder.transaction():
        await holder.execute(
            "SELECT FROM queen.partition_lookup WHERE partition_id = $1 FOR NO KEY UPDATE", a
        )
        pushed = await push(
            one, Item(a, 2), Item(b, "b"), checks_operations_first=True, lock_timeout_ms=1
        )
        assert pushed.outcomes == "bq"
        with pytest.raises(asyncpg.LockNotAvailableError):
            await push(one, Item(a, 3), Item(b, "b"), lock_timeout_ms=1)
    await run_all(one)
    assert await stored(one, a) == [1, 2]
    assert await stored(one, b) == ["b"]


async def test_a_worker_that_lost_its_claim_cannot_complete_it(connect: Connect) -> None:
    slow, heir = await connect(), await connect()
    (place,) = await ensure(slow, unique())
    await enqueue(slow, place, 1, 2)
    lost = await claim(slow)
    await let_time_out(heir)
    taken = await claim(heir)
    with pytest.raises(asyncpg.PostgresError) as raised:
        await run(slow, lost)
    assert raised.value.sqlstate == "QN004"
    assert await run(heir, taken) == 2
    assert await stored(heir, place) == [1, 2]


async def test_a_worker_that_loses_its_claim_while_it_waits_cannot_complete_it(
    connect: Connect, database: asyncpg.Connection
) -> None:
    slow, heir = await connect(), await connect()
    (place,) = await ensure(slow, unique())
    await enqueue(slow, place, 1)
    lost = await claim(slow)
    await let_time_out(heir)
    async with heir.transaction():
        taken = await claim(heir)
        waiting = await start_blocked(database, slow, run(slow, lost))
    with pytest.raises(asyncpg.PostgresError) as raised:
        await waiting
    assert raised.value.sqlstate == "QN004"
    await run(heir, taken)
    assert await stored(heir, place) == [1]


async def test_a_run_in_progress_is_not_taken_over_however_long_it_takes(
    connect: Connect,
) -> None:
    slow, other = await connect(), await connect()
    (place,) = await ensure(slow, unique())
    await enqueue(slow, place, 1)
    claimed = await claim(slow)
    await let_time_out(other)
    async with slow.transaction():
        await run(slow, claimed)
        assert not (await claim(other)).rows
    assert not (await claim(other)).rows
    assert await stored(other, place) == [1]


async def test_a_late_retry_takes_nothing_from_those_that_went_on(connect: Connect) -> None:
    one, two = await connect(), await connect()
    (place,) = await ensure(one, unique())
    await one.execute("UPDATE queen.queues SET on_failed_operation = 'continue'")
    (bad,) = await enqueue(one, place, "bad")
    await fail_for_good(one)
    await enqueue(one, place, 1, 2)
    async with two.transaction():
        running = await claim(two)
        assert len(running.rows) == 2
        assert await settle(one, bad, "retry") == "failed"
        assert not (await claim(one)).rows
    assert not (await claim(one)).rows
    await run(two, running)
    assert (await claim(one)).ids == [bad]


# Direct pushes beside operations.


async def test_a_push_in_a_slow_transaction_is_not_overtaken_by_a_later_queued_one(
    connect: Connect, database: asyncpg.Connection
) -> None:
    slow, other, worker = await connect(), await connect(), await connect()
    (place,) = await ensure(slow, unique())
    async with slow.transaction():
        await push_all(slow, place, "X")
        # Queueing does not wait for the row that the slow one holds; running does.
        await enqueue(other, place, "Y")
        running = await start_blocked(database, worker, run_all(worker))
    await running
    assert await stored(other, place) == ["X", "Y"]


async def test_a_slow_push_that_rolls_back_leaves_the_queued_one(
    connect: Connect, database: asyncpg.Connection
) -> None:
    slow, other, worker = await connect(), await connect(), await connect()
    (place,) = await ensure(slow, unique())
    doomed = slow.transaction()
    await doomed.start()
    await push_all(slow, place, "X")
    await enqueue(other, place, "Y")
    running = await start_blocked(database, worker, run_all(worker))
    await doomed.rollback()
    await running
    assert await stored(other, place) == ["Y"]


async def test_a_push_that_waits_for_the_row_goes_behind_what_was_queued_meanwhile(
    connect: Connect, database: asyncpg.Connection
) -> None:
    """The push decides when it has the row, not when it began to wait."""
    slow, waiting, other = await connect(), await connect(), await connect()
    (place,) = await ensure(slow, unique())
    async with slow.transaction():
        await push_all(slow, place, "X")
        late = await start_blocked(database, waiting, push_all(waiting, place, "Z"))
        await enqueue(other, place, "Y")
    assert (await late).outcomes == "b"
    await run_all(other)
    assert await stored(other, place) == ["X", "Y", "Z"]


async def test_a_push_that_waits_for_a_run_is_stored_right_after_it(
    connect: Connect, database: asyncpg.Connection
) -> None:
    worker, waiting = await connect(), await connect()
    (place,) = await ensure(worker, unique())
    await enqueue(worker, place, "Y")
    claimed = await claim(worker)
    async with worker.transaction():
        await run(worker, claimed)
        late = await start_blocked(database, waiting, push_all(waiting, place, "Z"))
    assert (await late).outcomes == "q"
    assert await stored(worker, place) == ["Y", "Z"]


async def test_a_transaction_that_waits_for_the_row_goes_behind_what_was_queued_meanwhile(
    connect: Connect, database: asyncpg.Connection
) -> None:
    slow, waiting, other = await connect(), await connect(), await connect()
    (place,) = await ensure(slow, unique())
    async with slow.transaction():
        await push_all(slow, place, "X")
        call = transaction(waiting, items=[Item(place, "Z")])
        late = await start_blocked(database, waiting, call)
        await enqueue(other, place, "Y")
    assert (await late)["outcomes"] == "b"
    await run_all(other)
    assert await stored(other, place) == ["X", "Y", "Z"]


async def test_a_queued_push_in_flight_is_not_seen_and_stays_behind(connect: Connect) -> None:
    """Both are in flight, so either order is right; nothing waits and nothing is lost."""
    one, two = await connect(), await connect()
    (place,) = await ensure(one, unique())
    async with one.transaction():
        await enqueue(one, place, "Y")
        assert (await push_all(two, place, "X")).outcomes == "q"
    await run_all(two)
    assert await stored(two, place) == ["X", "Y"]


# Queueing on one partition from two sessions.


async def test_operations_become_visible_in_the_order_of_their_numbers(
    connect: Connect, database: asyncpg.Connection
) -> None:
    one, two, reader = await connect(), await connect(), await connect()
    (place,) = await ensure(one, unique())
    async with one.transaction():
        (first,) = await enqueue(one, place, 1)
        later = await start_blocked(database, two, enqueue(two, place, 2))
        assert not await operations(reader, place)
    (second,) = await later
    rows = await operations(reader, place)
    assert [(row["id"], row["seq"]) for row in rows] == [(first, 1), (second, 2)]


async def test_a_rolled_back_number_is_given_again(
    connect: Connect, database: asyncpg.Connection
) -> None:
    one, two = await connect(), await connect()
    (place,) = await ensure(one, unique())
    doomed = one.transaction()
    await doomed.start()
    await enqueue(one, place, 1)
    later = await start_blocked(database, two, enqueue(two, place, 2))
    await doomed.rollback()
    (second,) = await later
    assert [(row["id"], row["seq"]) for row in await operations(one, place)] == [(second, 1)]


async def test_many_operations_of_one_millisecond_keep_the_order_of_their_answers(
    connect: Connect,
) -> None:
    sessions = [await connect() for _ in range(2)]
    (place,) = await ensure(sessions[0], unique())
    answered: list[tuple[int, int]] = []

    async def produce(number: int, session: asyncpg.Connection) -> None:
        for value in range(250):
            await enqueue(session, place, [number, value])
            answered.append((number, value))

    await asyncio.gather(*(produce(n, session) for n, session in enumerate(sessions)))
    await run_all(sessions[0])
    found = await stored(sessions[0], place)
    assert len(found) == len(answered) == 500
    for number in range(2):
        assert [value for who, value in found if who == number] == list(range(250))


async def test_pushes_decided_here_and_there_keep_each_producers_order(connect: Connect) -> None:
    """Producers whose pushes are queued or not at random, and workers that run what is queued."""
    producers = [await connect() for _ in range(4)]
    workers = [await connect() for _ in range(2)]
    places = await ensure(producers[0], unique(), "a", "b")
    is_over = asyncio.Event()

    async def produce(number: int, session: asyncpg.Connection) -> None:
        for value in range(120):
            items = [Item(place, [number, value]) for place in places]
            queued = [place for n, place in enumerate(places) if (value + number + n) % 5 == 0]
            await push(session, *items, queued=queued or None)

    async def work(session: asyncpg.Connection) -> None:
        while not is_over.is_set():
            claimed = await claim(session, items_max=5)
            if claimed.rows:
                await run(session, claimed)

    working = [asyncio.create_task(work(session)) for session in workers]
    await asyncio.gather(*(produce(n, session) for n, session in enumerate(producers)))
    is_over.set()
    await asyncio.gather(*working)
    await run_all(workers[0])
    for place in places:
        found = await stored(workers[0], place)
        assert len(found) == 480
        for number in range(4):
            assert [value for who, value in found if who == number] == list(range(120))


# Queues that are removed meanwhile.


async def test_a_queue_is_deleted_once_the_queued_push_in_flight_is_there(
    connect: Connect, database: asyncpg.Connection
) -> None:
    one, two = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(one, queue)
    async with one.transaction():
        (left,) = await enqueue(one, place, 1)
        call = two.fetchval("SELECT queen.delete_queue($1)", queue)
        deleting = await start_blocked(database, two, call)
    assert await deleting
    assert not await operations(one, place)
    with pytest.raises(AssertionError):
        await operation(one, left)


async def test_a_queued_push_finds_that_its_partition_is_being_deleted(connect: Connect) -> None:
    one, two = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(one, queue)
    async with one.transaction():
        await one.fetchval("SELECT queen.delete_queue($1)", queue)
        # It does not even wait for the end of the deletion.
        with pytest.raises(asyncpg.PostgresError) as raised:
            await enqueue(two, place, 1)
    assert raised.value.sqlstate == "QN001"


async def test_a_deletion_and_a_push_that_queues_in_part_do_not_wait_in_a_circle(
    connect: Connect, database: asyncpg.Connection
) -> None:
    holder, pusher, remover = await connect(), await connect(), await connect()
    queue = unique()
    first, last = sorted(await ensure(holder, queue, "a", "b"))
    async with holder.transaction():
        await holder.execute(
            "SELECT FROM queen.partition_lookup WHERE partition_id = $1 FOR UPDATE", first
        )
        # The deletion is first in line for the first row. The push, which holds the last one and
        # needs the first, does not wait.
        removing = await start_blocked(
            database, remover, remover.fetchval("SELECT queen.delete_queue($1)", queue)
        )
        with pytest.raises(asyncpg.PostgresError) as raised:
            await push_requests(pusher, [RawItem(last, "1"), RawItem(first, "2")], queued=[first])
    assert raised.value.sqlstate == "QN001"
    assert await removing


async def test_a_deletion_and_a_run_do_not_wait_in_a_circle(
    connect: Connect, database: asyncpg.Connection
) -> None:
    holder, worker, remover = await connect(), await connect(), await connect()
    queue = unique()
    (place,) = await ensure(holder, queue)
    await enqueue(holder, place, 1)
    claimed = await claim(worker)
    async with holder.transaction():
        await holder.execute(
            "SELECT FROM queen.partition_lookup WHERE partition_id = $1 FOR UPDATE", place
        )
        running = await start_blocked(database, worker, run(worker, claimed))
        removing = await start_blocked(
            database, remover, remover.fetchval("SELECT queen.delete_queue($1)", queue)
        )
    assert await running == 1
    assert await removing
    assert not await operations(holder, place)


async def test_queued_and_direct_pushes_of_a_full_queue_do_not_wait_in_a_circle(
    connect: Connect, database: asyncpg.Connection
) -> None:
    holder, late, pusher = await connect(), await connect(), await connect()
    queue = unique()
    full, other, third = await ensure(holder, queue, "full", "other", "third")
    await configure(holder, queue, max_size=1)
    async with holder.transaction():
        # Holds the lock of the queue, for which both others wait.
        await push_all(holder, third, 0)
        waiting = await start_blocked(database, late, push(late, Item(full, 1), queued=[full]))
        items = [Item(full, "queued"), Item(other, "direct")]
        pushing = await start_blocked(database, pusher, push(pusher, *items, queued=[full]))
    assert (await waiting).outcomes == "f"
    assert (await pushing).outcomes == "ff"


async def test_an_accepted_push_does_not_wait_for_the_bound_of_its_queue(
    connect: Connect, database: asyncpg.Connection
) -> None:
    holder = await connect()
    queue = unique()
    place, other = await ensure(holder, queue, "a", "b")
    await configure(holder, queue, max_size=1)
    async with holder.transaction():
        await push_all(holder, other, 0)
        assert (await push(database, Item(place, 1), is_accepted=True)).outcomes == "q"


async def test_discarding_what_is_being_run_waits_and_finds_it_stored(
    connect: Connect, database: asyncpg.Connection
) -> None:
    worker, operator = await connect(), await connect()
    (place,) = await ensure(worker, unique())
    (one,) = await enqueue(worker, place, 1)
    claimed = await claim(worker)
    async with worker.transaction():
        assert await run(worker, claimed) == 1
        discarding = await start_blocked(database, operator, settle(operator, one, "discard"))
    assert await discarding == "completed"
    assert await stored(worker, place) == [1]


async def test_a_run_that_waits_for_a_discard_stores_nothing_of_it(
    connect: Connect, database: asyncpg.Connection
) -> None:
    worker, operator = await connect(), await connect()
    (place,) = await ensure(worker, unique())
    (one,) = await enqueue(worker, place, 1)
    claimed = await claim(worker)
    async with operator.transaction():
        assert await settle(operator, one, "discard") == "processing"
        running = await start_blocked(database, worker, run(worker, claimed))
    with pytest.raises(asyncpg.PostgresError) as raised:
        await running
    assert raised.value.sqlstate == "QN004"
    assert await stored(worker, place) == []


async def test_a_failure_and_a_changed_policy_agree_whoever_comes_first(
    connect: Connect, database: asyncpg.Connection
) -> None:
    worker, operator = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(worker, queue)
    (bad,) = await enqueue(worker, place, "bad")
    await worker.execute("UPDATE queen.operation_queue SET max_retries = 1")
    claimed = await claim(worker)
    async with worker.transaction():
        await give_back(worker, claimed, failed_id=bad, error="x", is_counted=True)
        changing = await start_blocked(database, operator, _go_on(operator, queue))
    await changing
    assert not (await operation(worker, bad))["is_blocking"]
    # The other way round.
    await settle(worker, bad, "retry")
    await configure(worker, queue, on_failed_operation="stop")
    claimed = await claim(worker)
    async with operator.transaction():
        await _go_on(operator, queue)
        call = give_back(worker, claimed, failed_id=bad, error="x", is_counted=True)
        failing = await start_blocked(database, worker, call)
    await failing
    assert not (await operation(worker, bad))["is_blocking"]


async def _go_on(session: asyncpg.Connection, queue: str) -> None:
    """Set onFailedOperation as configure_queue does, with all other options as they are."""
    options = await session.fetchval(
        "SELECT jsonb_object_agg(regexp_replace(initcap(replace(e.key, '_', ' ')), ' ', '', 'g'),"
        " e.value) FROM queen.queues q, jsonb_each(to_jsonb(q)) e WHERE q.name = $1",
        queue,
    )
    words = {name[0].lower() + name[1:]: value for name, value in json.loads(options).items()}
    words["onFailedOperation"] = "continue"
    await session.execute("SELECT queen.configure_queue($1, '', '', $2)", queue, json.dumps(words))
