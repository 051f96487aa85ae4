"""Claiming, running, failing and removing operations, one session."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from queenmq.storage.sql_files import load_queries
from tests.isolation.sessions import Item, configure, ensure, push_all
from tests.support.broker import unique
from tests.support.operations import (
    RawItem,
    claim,
    enqueue,
    fail_for_good,
    fail_once,
    give_back,
    let_time_out,
    operation,
    operations,
    push_requests,
    queue_items,
    run,
    run_all,
    settle,
    stored,
)

# Claims.


async def test_a_claim_takes_the_first_of_a_partition_with_those_behind_it(
    database: asyncpg.Connection,
) -> None:
    a, b = sorted(await ensure(database, unique(), "a", "b"))
    ids = [*await enqueue(database, a, 1, 2, 3), *await enqueue(database, b, 1, 2)]
    claimed = await claim(database, "me")
    assert claimed.ids == ids
    assert not any(row["was_stuck"] for row in claimed.rows)
    rows = await operations(database, a)
    assert {(row["status"], row["claimed_by_worker"]) for row in rows} == {("processing", "me")}
    assert not (await claim(database)).rows


async def test_all_of_a_long_line_is_run_in_one_claim(database: asyncpg.Connection) -> None:
    """A partition is not bound to one operation per look."""
    (place,) = await ensure(database, unique())
    requests: list[Any] = [[RawItem(place, str(n))] for n in range(1_000)]
    await push_requests(database, *requests, queued=[place])
    claimed = await claim(database)
    assert len(claimed.rows) == 1_000
    assert await run(database, claimed) == 1_000
    assert await stored(database, place) == list(range(1_000))


async def test_a_long_line_does_not_take_the_room_of_the_others(
    database: asyncpg.Connection,
) -> None:
    places = await ensure(database, unique(), *"abcd")
    await enqueue(database, places[0], *range(20))
    for place in places[1:]:
        await enqueue(database, place, 0)
    claimed = await claim(database, items_max=6)
    assert len(claimed.rows) == 6
    assert {row["partition_id"] for row in claimed.rows} == set(places)


async def test_a_single_operation_may_exceed_the_room(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    await queue_items(database, *(Item(place, n) for n in range(50)))
    await enqueue(database, place, "next")
    claimed = await claim(database, items_max=10)
    assert len(claimed.rows) == 1
    assert await run(database, claimed) == 50


async def test_a_follower_is_not_claimed_while_an_earlier_one_is_run(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    first, second = await enqueue(database, place, 1, 2)
    slow = await claim(database, items_max=1)
    assert slow.ids == [first]
    assert not (await claim(database)).rows
    await run(database, slow)
    assert (await claim(database)).ids == [second]


async def test_a_follower_waits_for_the_next_try_of_the_one_before(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    first, _ = await enqueue(database, place, 1, 2)
    claimed = await claim(database)
    await give_back(database, claimed, failed_id=first, error="held", delay_ms=3_600_000)
    assert not (await claim(database)).rows
    await database.execute("UPDATE queen.operation_queue SET next_run_at = '-infinity'")
    assert len((await claim(database)).rows) == 2


async def test_the_longest_wait_wins_over_any_priority(database: asyncpg.Connection) -> None:
    old, urgent = await ensure(database, unique(), "old", "urgent")
    await enqueue(database, old, 1)
    await enqueue(database, urgent, 1)
    await database.execute(
        "UPDATE queen.operation_queue SET priority = CASE partition_id WHEN $1 THEN 10 ELSE 1 END",
        old,
    )
    claimed = await claim(database, partitions_max=1)
    assert [row["partition_id"] for row in claimed.rows] == [urgent]
    await give_back(database, claimed)
    await database.execute(
        "UPDATE queen.operation_queue SET created_at = created_at - interval '101 seconds'"
        " WHERE partition_id = $1",
        old,
    )
    claimed = await claim(database, partitions_max=1)
    assert [row["partition_id"] for row in claimed.rows] == [old]


async def test_what_a_lost_worker_had_is_taken_over_after_its_timeout(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    ids = await enqueue(database, place, 1, 2)
    lost = await claim(database, "lost")
    await let_time_out(database)
    taken = await claim(database, "heir")
    assert taken.ids == ids
    assert all(row["was_stuck"] for row in taken.rows)
    with pytest.raises(asyncpg.PostgresError) as raised:
        await run(database, lost)
    assert raised.value.sqlstate == "QN004"
    await give_back(database, lost)
    assert {row["status"] for row in await operations(database, place)} == {"processing"}
    await run(database, taken)
    assert await stored(database, place) == [1, 2]


async def test_a_run_cannot_be_repeated(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    await enqueue(database, place, 1)
    claimed = await claim(database)
    await run(database, claimed)
    with pytest.raises(asyncpg.PostgresError) as raised:
        await run(database, claimed)
    assert raised.value.sqlstate == "QN004"
    assert await stored(database, place) == [1]


async def test_storing_and_completing_is_one_transaction(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    await enqueue(database, place, 1)
    claimed = await claim(database)
    broken = database.transaction()
    await broken.start()
    await run(database, claimed)
    await broken.rollback()
    (row,) = await operations(database, place)
    assert (row["status"], await stored(database, place)) == ("processing", [])
    await run(database, claimed)
    assert await stored(database, place) == [1]


async def test_parts_of_a_claim_can_be_run_one_after_another(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    await enqueue(database, place, 1, 2, 3)
    claimed = await claim(database)
    await run(database, claimed, claimed.ids[:1])
    # Still behind what is not done yet.
    assert (await push_all(database, place, 4)).outcomes == "b"
    await run(database, claimed, claimed.ids[1:])
    await run_all(database)
    assert await stored(database, place) == [1, 2, 3, 4]


# Failures.


async def test_an_operation_fails_after_exactly_its_runs(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    (one,) = await enqueue(database, place, 1)
    for runs in (1, 2, 3):
        assert (await operation(database, one))["status"] == "pending"
        await fail_once(database, f"error {runs}")
        row = await operation(database, one)
        assert (row["retry_count"], row["error_message"]) == (runs, f"error {runs}")
    assert row["status"] == "failed" and row["processed_at"] is not None
    assert json.loads(row["payload"])
    assert not (await claim(database)).rows


async def test_what_is_not_the_fault_of_the_data_counts_for_nothing(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    (one,) = await enqueue(database, place, 1)
    for _ in range(10):
        claimed = await claim(database)
        await give_back(database, claimed, failed_id=one, error="held", is_counted=False)
    row = await operation(database, one)
    assert (row["status"], row["retry_count"]) == ("pending", 0)


async def test_pushes_wait_behind_a_failed_operation_unless_told_otherwise(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    bad, _ = await enqueue(database, place, "bad", "behind")
    assert await fail_for_good(database) == bad
    assert not (await claim(database)).rows
    assert (await push_all(database, place, "later")).outcomes == "b"
    assert (await operation(database, bad))["is_blocking"]


async def test_pushes_go_on_without_a_failed_operation_where_the_queue_says_so(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await configure(database, queue, on_failed_operation="continue")
    (place,) = await ensure(database, queue)
    bad, _ = await enqueue(database, place, "bad", "behind")
    assert await fail_for_good(database) == bad
    row = await operation(database, bad)
    assert (row["status"], row["is_blocking"]) == ("failed", False)
    await run_all(database)
    assert (await push_all(database, place, "later")).outcomes == "q"
    assert await stored(database, place) == ["behind", "later"]


async def test_configuring_to_go_on_frees_what_waits_behind_a_failure(
    database: asyncpg.Connection,
) -> None:
    queue, other = unique(), unique()
    places = [(await ensure(database, name))[0] for name in (queue, other)]
    for place in places:
        await enqueue(database, place, "bad")
        await fail_for_good(database)
        await enqueue(database, place, "behind")
    await _configure(database, queue, onFailedOperation="continue")
    await run_all(database)
    assert [await stored(database, place) for place in places] == [["behind"], []]


async def test_a_policy_without_a_meaning_is_refused(database: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await _configure(database, unique(), onFailedOperation="skip")


async def _configure(database: asyncpg.Connection, queue: str, **options: Any) -> None:
    await ensure(database, queue)
    row = await database.fetchrow("SELECT * FROM queen.queues WHERE name = $1", queue)
    assert row is not None
    words = {_camel(name): value for name, value in row.items() if name not in _NO_OPTIONS}
    await database.execute(
        "SELECT queen.configure_queue($1, '', '', $2)", queue, json.dumps({**words, **options})
    )


_NO_OPTIONS = ("id", "name", "namespace", "task", "created_at", "changed_xid", "ack_history_since")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


# What an operator decides.


async def test_a_retried_operation_has_all_its_runs_again(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    bad, _ = await enqueue(database, place, "bad", "behind")
    await fail_for_good(database)
    assert await settle(database, bad, "retry") == "failed"
    await fail_once(database)
    assert (await operation(database, bad))["status"] == "pending"
    await run_all(database)
    assert await stored(database, place) == ["bad", "behind"]


async def test_a_discarded_operation_lets_the_others_go(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    bad, _ = await enqueue(database, place, "bad", "behind")
    await fail_for_good(database)
    assert await settle(database, bad, "discard") == "failed"
    assert (await operation(database, bad))["status"] == "discarded"
    await run_all(database)
    assert await stored(database, place) == ["behind"]


async def test_a_late_retry_comes_after_those_that_went_on(database: asyncpg.Connection) -> None:
    queue = unique()
    await configure(database, queue, on_failed_operation="continue")
    (place,) = await ensure(database, queue)
    bad, _ = await enqueue(database, place, "bad", "behind")
    await fail_for_good(database)
    await run_all(database)
    await settle(database, bad, "retry")
    assert (await push_all(database, place, "later")).outcomes == "b"
    await run_all(database)
    assert await stored(database, place) == ["behind", "bad", "later"]


# Queues that go, and rows that are not needed any more.


async def test_a_deleted_queue_takes_its_operations_with_it(database: asyncpg.Connection) -> None:
    queue, other = unique(), unique()
    (place,), (kept,) = await ensure(database, queue), await ensure(database, other)
    await enqueue(database, place, "done")
    await run_all(database)
    await enqueue(database, place, "claimed")
    claimed = await claim(database)
    await enqueue(database, place, "waiting")
    await enqueue(database, kept, "kept")
    assert await database.fetchval("SELECT queen.delete_queue($1)", queue)
    assert not await operations(database, place)
    with pytest.raises(asyncpg.PostgresError) as raised:
        await run(database, claimed)
    assert raised.value.sqlstate == "QN004"
    (again,) = await ensure(database, queue)
    assert (await push_all(database, again, "new")).outcomes == "q"
    await run_all(database)
    assert await stored(database, again) == ["new"]
    assert await stored(database, kept) == ["kept"]


async def test_a_cleared_partition_forgets_what_waits_there(database: asyncpg.Connection) -> None:
    queue = unique()
    a, b = await ensure(database, queue, "a", "b")
    for word in ("done", "waiting"):
        await run_all(database)
        for place in (a, b):
            await enqueue(database, place, word)
    assert await database.fetchval("SELECT queen.clear_queue($1, 'a')", queue) == 1
    # What was completed can still be asked for.
    assert [row["status"] for row in await operations(database, a)] == ["completed"]
    assert (await push_all(database, a, "new")).outcomes == "q"
    await run_all(database)
    assert (await stored(database, a), await stored(database, b)) == (["new"], ["done", "waiting"])


async def test_completed_and_discarded_operations_are_forgotten_after_an_hour(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    done, discarded, failed, waiting = await enqueue(database, place, *range(4))
    await run(database, await claim(database, items_max=1))
    await fail_for_good(database)
    await settle(database, discarded, "discard")
    await fail_for_good(database)
    sweep = load_queries("operations")["sweep_operations"]
    assert await database.fetchval(sweep, 3_600, 100) == 0
    await database.execute(
        "UPDATE queen.operation_queue SET created_at = created_at - interval '2 hours',"
        " processed_at = processed_at - interval '1 hour'"
    )
    assert await database.fetchval(sweep, 3_600, 1) == 1
    assert await database.fetchval(sweep, 3_600, 100) == 1
    assert [row["id"] for row in await operations(database, place)] == [failed, waiting]
    assert done not in (failed, waiting)


async def test_the_depth_leaves_out_what_waits_for_a_person(database: asyncpg.Connection) -> None:
    a, b = await ensure(database, unique(), "a", "b")
    await enqueue(database, a, 1, 2)
    await fail_for_good(database)
    await enqueue(database, b, 1)
    count = load_queries("operations")["count_waiting_operations"]
    waiting, oldest_s, failed = await database.fetchrow(count)
    assert (waiting, failed) == (1, 1) and oldest_s >= 0


async def test_nothing_is_left_in_the_index_of_waiting_operations(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    await enqueue(database, place, *range(5))
    await run_all(database)
    query = "SELECT count(*) FROM queen.operation_queue WHERE is_blocking"
    assert await database.fetchval(query) == 0


async def test_an_operation_whose_queue_was_deleted_meanwhile_goes_with_it(
    database: asyncpg.Connection,
) -> None:
    kept, gone = unique(), unique()
    (place,) = await ensure(database, kept)
    (lost,) = await ensure(database, gone)
    await enqueue(database, place, 1)
    (orphan,) = await enqueue(database, lost, 2)
    claimed = await claim(database)
    # As a deletion leaves it that could not wait for the claim.
    for table in ("partition_lookup", "partitions"):
        column = "partition_id" if table == "partition_lookup" else "id"
        await database.execute(f"DELETE FROM queen.{table} WHERE {column} = $1", lost)
    assert await run(database, claimed) == 1
    assert await stored(database, place) == [1]
    assert (
        await database.fetchval("SELECT count(*) FROM queen.operation_queue WHERE id = $1", orphan)
        == 0
    )
