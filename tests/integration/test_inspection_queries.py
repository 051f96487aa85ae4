"""Lists and counts over large queues look at a bounded part of them, and say so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from queenmq.storage.sql_files import load_queries
from tests.isolation.sessions import Item, ensure, pop_one, push
from tests.support.broker import unique

_LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
_FAR_AHEAD = datetime(2999, 1, 1, tzinfo=UTC)


async def _fill(session: asyncpg.Connection, place: UUID, *names: str) -> None:
    """A transaction per message."""
    for name in names:
        await push(session, Item(place, name, name))


async def _list(
    session: asyncpg.Connection, queue: str | None = None, **more: Any
) -> tuple[list[str], bool]:
    """Transaction ids of a page, and whether more may lie behind what was looked at."""
    given = {"namespace": None, "partition": None, "status": None, "limit": 10, "offset": 0}
    given |= {"scan_max": 100, **more}
    rows = await session.fetch(
        "SELECT * FROM queen.list_messages($1, $2, NULL, $3, $4, $5, $6, $7, $8, $9)",
        queue,
        given["namespace"],
        given["partition"],
        given["status"],
        _LONG_AGO,
        _FAR_AHEAD,
        given["limit"],
        given["offset"],
        given["scan_max"],
    )
    return [row["transaction_id"] for row in rows if row["id"] is not None], rows[0]["is_cut"]


async def test_list_looks_at_so_many_of_the_newest_and_says_when_it_stopped(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await _fill(database, place, *(f"m{n}" for n in range(6)))
    assert await _list(database, queue, scan_max=4) == (["m5", "m4", "m3", "m2"], True)
    assert await _list(database, queue, scan_max=4, limit=2) == (["m5", "m4"], False)
    assert await _list(database, queue, scan_max=7) == ([f"m{n}" for n in range(5, -1, -1)], False)
    await pop_one(database, place, batch=2, auto_ack=True)
    assert await _list(database, queue, status="completed", scan_max=4) == ([], True)
    assert await _list(database, queue, status="completed") == (["m1", "m0"], False)


async def test_list_of_one_partition_reaches_as_far_back_as_it_is_asked_to(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue, "p")
    await _fill(database, place, *(f"m{n}" for n in range(6)))
    page = await _list(database, queue, partition="p", limit=2, offset=4, scan_max=4)
    assert page == (["m1", "m0"], False)
    assert await _list(database, queue, partition="p", status="pending", scan_max=4, limit=9) == (
        ["m5", "m4", "m3", "m2"], True
    )  # fmt: skip


async def test_list_of_several_queues_shows_none_beyond_what_was_read_of_another(
    database: asyncpg.Connection,
) -> None:
    space = unique("space")
    (busy,) = await ensure(database, f"{space}.busy")
    (quiet,) = await ensure(database, f"{space}.quiet")
    await _fill(database, quiet, "q0")
    await _fill(database, busy, *(f"b{n}" for n in range(5)))
    await _fill(database, quiet, "q1")
    # Two of each queue: below b3 the busy one has others, so q0 would stand in a wrong place.
    assert await _list(database, namespace=space, scan_max=4) == (["q1", "b4", "b3"], True)
    whole = ["q1", "b4", "b3", "b2", "b1", "b0", "q0"]
    assert await _list(database, namespace=space) == (whole, False)


async def _count(
    session: asyncpg.Connection, start: datetime, end: datetime, step_s: int, most: int = 100
) -> tuple[dict[datetime, int], bool]:
    rows = await session.fetch(
        load_queries("observation/status")["count_by_time"],
        None,
        None,
        None,
        start,
        end,
        step_s,
        most,
    )
    return {row["starts_at"]: row["messages"] for row in rows}, any(row["is_cut"] for row in rows)


async def _insert(session: asyncpg.Connection, place: UUID, times: list[datetime]) -> None:
    """Messages of given times, in order."""
    await session.execute(
        "INSERT INTO queen.messages (partition_id, seq, id, queue_id, created_at, payload)"
        " SELECT l.partition_id, l.last_seq + u.n, gen_random_uuid(), l.queue_id, u.at, '1'"
        " FROM queen.partition_lookup l, unnest($2::timestamptz[]) WITH ORDINALITY AS u (at, n)"
        " WHERE l.partition_id = $1",
        place,
        times,
    )


@pytest.mark.parametrize("each", [1, 3, 60])
async def test_counts_by_time_are_exact_for_few_and_for_many_messages(
    database: asyncpg.Connection, each: int
) -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    steps = [start + timedelta(seconds=60 * n) for n in range(4)]
    for place in await ensure(database, unique(), "a", "b"):
        times = [step + timedelta(seconds=59 * n / each) for step in steps for n in range(each)]
        await _insert(database, place, [start - timedelta(seconds=1), *times])
    expected = dict.fromkeys(steps, 2 * each)
    end = steps[-1] + timedelta(seconds=60)
    assert await _count(database, start, end, 60) == (expected, False)
    del expected[steps[-1]]
    assert await _count(database, start, steps[-1], 60) == (expected, False)
    whole = await _count(database, start, end, 3600)
    assert whole == ({start: 8 * each}, False)


async def test_counts_leave_out_partitions_beyond_their_bound_and_say_so(
    database: asyncpg.Connection,
) -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    for n, place in enumerate(await ensure(database, unique(), *"abc")):
        await _insert(database, place, [start + timedelta(seconds=n)])
    end = start + timedelta(seconds=60)
    assert await _count(database, start, end, 60, most=2) == ({start: 2}, True)
    assert await _count(database, start, end, 60, most=3) == ({start: 3}, False)


async def test_old_traces_are_swept_so_many_at_a_time(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    await push(database, Item(place, 1, "x"))
    for n in range(5):
        await database.execute(
            "SELECT queen.add_trace($1, 'x', 'g', 'info', '1', ARRAY[$2])", place, f"n{n}"
        )
    await database.execute(
        "UPDATE queen.message_traces t SET created_at = now() - interval '2 hours'"
        " FROM queen.message_trace_names n WHERE n.trace_id = t.id AND n.trace_name <> 'n4'"
    )
    sweep = load_queries("traces")["sweep_traces"]
    assert [await database.fetchval(sweep, 3600, 3) for _ in range(3)] == [3, 1, 0]
    names = await database.fetch("SELECT trace_name FROM queen.message_trace_names")
    assert [row["trace_name"] for row in names] == ["n4"]


async def test_notes_of_removed_messages_go_when_they_mean_nothing_any_more(
    database: asyncpg.Connection,
) -> None:
    first, second = await ensure(database, unique(), "a", "b")
    for place in (first, second):
        await _fill(database, place, "t1", "t2", "t3", "t4")
        await database.execute("SELECT queen.delete_message($1, 't2', 1000)", place)
        await database.execute("SELECT queen.delete_message($1, 't4', 1000)", place)
    await database.execute(
        "UPDATE queen.partition_lookup SET first_seq = 3 WHERE partition_id = $1", first
    )
    sweep = load_queries("traces")["sweep_removed_messages"]
    assert await database.fetchval(sweep, 100) == 1
    left = await database.fetch("SELECT partition_id, seq FROM queen.removed_messages")
    assert {tuple(row) for row in left} == {(first, 4), (second, 2), (second, 4)}
