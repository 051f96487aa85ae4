"""Queued pushes: one operation per request and partition, as it was pushed."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.isolation.sessions import Item, ensure, pop_one, push, push_all, transaction
from tests.support.broker import unique
from tests.support.operations import (
    RawItem,
    claim,
    enqueue,
    operations,
    push_requests,
    queue_items,
    run,
    run_all,
    stored,
)


async def test_ids_are_valid_version_7_uuids_and_all_differ(database: asyncpg.Connection) -> None:
    rows = await database.fetch("SELECT queen.new_operation_id() AS id FROM generate_series(1, $1)",
                                100_000)  # fmt: skip
    ids = [row["id"] for row in rows]
    assert len(set(ids)) == len(ids)
    assert {one.version for one in ids} == {7}
    assert {str(one)[19] for one in ids} == set("89ab")


async def test_an_id_begins_with_the_time_in_milliseconds(database: asyncpg.Connection) -> None:
    before, made, after = await database.fetchrow(
        "SELECT a.ms, i.id, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        " FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms) a,"
        " LATERAL (SELECT queen.new_operation_id() AS id OFFSET 0) i"
    )
    assert abs((made.int >> 80) - before) <= 1_000 and abs(after - (made.int >> 80)) <= 1_000


_IMPOSSIBLE = [
    ("another type than a push", "operation_type = 'ACK'"),
    ("an empty name", "partition_name = ''"),
    ("an unknown reason", "reason = 'because'"),
    ("an unknown status", "status = 'waiting'"),
    ("a priority out of range", "priority = 11"),
    ("no items", "item_count = 0"),
    ("no time to run", "timeout_seconds = 0"),
    ("no runs at all", "max_retries = 0"),
    ("more failures than runs", "retry_count = max_retries + 1"),
    ("processing without a claim", "status = 'processing'"),
    ("a claim without processing", "claim_token = gen_random_uuid()"),
    ("a claim that nobody made", "status = 'processing', claim_token = gen_random_uuid(),"
                                 " processing_started_at = now()"),
    ("completed without a result", "status = 'completed', processed_at = now(),"
                                   " is_blocking = false"),
    ("completed and still in the way", "status = 'completed', processed_at = now(), result = '[]'"),
    ("discarded and still in the way", "status = 'discarded', processed_at = now()"),
    ("failed without a reason", "status = 'failed', processed_at = now()"),
    ("failed at no time", "status = 'failed', error_message = 'x'"),
    ("waiting but not in the way", "is_blocking = false"),
    ("a result before the end", "result = '[]'"),
]  # fmt: skip


@pytest.mark.parametrize("change", [c for _, c in _IMPOSSIBLE], ids=[n for n, _ in _IMPOSSIBLE])
async def test_an_impossible_row_is_refused(database: asyncpg.Connection, change: str) -> None:
    (place,) = await ensure(database, unique())
    await enqueue(database, place, 1)
    with pytest.raises(asyncpg.CheckViolationError):
        await database.execute(f"UPDATE queen.operation_queue SET {change}")


async def test_two_operations_of_a_partition_cannot_have_one_place(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    await enqueue(database, place, 1, 2)
    with pytest.raises(asyncpg.UniqueViolationError):
        await database.execute("UPDATE queen.operation_queue SET seq = 1 WHERE seq = 2")


async def test_there_is_one_operation_per_request_and_partition(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    a, b, c = await ensure(database, queue, "a", "b", "c")
    answered = await push_requests(
        database,
        [RawItem(a, '"a0"'), RawItem(b, '"b0"'), RawItem(a, '"a1"')],
        [RawItem(b, '"b1"'), RawItem(c, '"c0"')],
        queued=[a, b],
    )
    assert answered.outcomes == "ssssq"
    first, second, again, other, _ = answered.ids
    assert first == again and len({first, second, other}) == 3
    rows = await operations(database, a) + await operations(database, b)
    assert [(row["partition_name"], row["seq"], row["item_count"]) for row in rows] == [
        ("a", 1, 2), ("b", 1, 1), ("b", 2, 1),
    ]  # fmt: skip
    assert {row["queue_name"] for row in rows} == {queue}
    assert {row["status"] for row in rows} == {"pending"}
    assert await stored(database, c) == ["c0"]
    await run_all(database)
    assert await stored(database, a) == ["a0", "a1"]
    assert await stored(database, b) == ["b0", "b1"]


_EXACT = [
    '{"a":1,"a":2}',
    r'"\u00e9\u0000\ud83d\ude00"',
    r'"\ud800"',
    r'{"\u0000":null}',
    '12345678901234567890123456789.000000000000000000010',
    '1E400',
    'null',
    '""',
    '{}',
    '{"b" : [ 1,2 ],\n "a":"ü😀\\/"}',
    '{"payload":{"transactionId":"inner"},"transactionId":"mine","index":9}',
]  # fmt: skip


@pytest.mark.parametrize("text", _EXACT)
async def test_a_payload_is_kept_byte_for_byte(database: asyncpg.Connection, text: str) -> None:
    direct, place = await ensure(database, unique(), "direct", "queued")
    await push_requests(database, [RawItem(direct, text)])
    await push_requests(database, [RawItem(place, text)], queued=[place])
    assert await run_all(database) == 1
    query = "SELECT payload::text FROM queen.messages WHERE partition_id = $1"
    assert await database.fetchval(query, place) == await database.fetchval(query, direct) == text


async def test_ids_and_origin_of_an_item_stay_outside_of_its_payload(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    trace = uuid4()
    item = RawItem(place, '{"n":1}', 'tx "1"\\:ü', trace, "somebody", True)
    await push_requests(database, [item, RawItem(place, "2")], queued=[place])
    await run_all(database)
    rows = await database.fetch("SELECT * FROM queen.messages ORDER BY seq")
    names = ("transaction_id", "trace_id", "producer_sub", "is_encrypted", "payload")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (item.transaction_id, trace, "somebody", True, '{"n":1}'),
        (None, None, None, False, "2"),
    ]


async def test_a_queued_message_is_delivered_like_any_other(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    await queue_items(database, Item(place, {"n": 1}, "tx"))
    assert (await pop_one(database, place)).outcome != "popped"
    await run_all(database)
    popped = await pop_one(database, place)
    assert [(one["transactionId"], one["data"]) for one in popped.messages] == [("tx", {"n": 1})]


async def test_a_repeat_is_noticed_when_the_operation_is_run(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    winner = (await push(database, Item(place, "stored", "a"))).message_ids[0]
    items = [Item(place, 1, "a"), Item(place, 2, "b"), Item(place, 3, "b"), Item(place, 4)]
    await queue_items(database, *items)
    assert await run_all(database) == 2
    assert await stored(database, place) == ["stored", 2, 4]
    (row,) = await operations(database, place)
    result = json.loads(row["result"])
    assert [one["status"] for one in result] == ["duplicate", "queued", "duplicate", "queued"]
    assert [one["index"] for one in result] == [0, 1, 2, 3]
    assert result[0]["message_id"] == winner
    assert result[1]["message_id"] == result[2]["message_id"]
    assert result[3]["transaction_id"] == result[3]["message_id"]


async def test_a_queued_request_that_is_sent_again_is_stored_once(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    for _ in range(3):
        await queue_items(database, Item(place, "x", "same"), Item(place, "y", "other"))
    assert await run_all(database) == 2
    assert await stored(database, place) == ["x", "y"]


async def test_results_tell_the_place_of_an_item_in_its_own_request(
    database: asyncpg.Connection,
) -> None:
    a, b = await ensure(database, unique(), "a", "b")
    trace = uuid4()
    await push_requests(
        database,
        [RawItem(b, "0")],
        [RawItem(a, "0"), RawItem(b, "1", "t", trace), RawItem(a, "2"), RawItem(b, "3")],
        queued=[a, b],
    )
    await run_all(database)
    results = [json.loads(row["result"]) for row in await operations(database, b)]
    assert [[one["index"] for one in result] for result in results] == [[0], [1, 3]]
    (row,) = await operations(database, a)
    assert [one["index"] for one in json.loads(row["result"])] == [0, 2]
    assert (results[1][0]["transaction_id"], results[1][0]["trace_id"]) == ("t", str(trace))
    ids = await database.fetch(
        "SELECT id::text FROM queen.messages WHERE partition_id = $1 ORDER BY seq", b
    )
    assert [one["message_id"] for result in results for one in result] == [r[0] for r in ids]


async def test_a_completed_operation_keeps_its_result_and_drops_its_items(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    await enqueue(database, place, "large")
    await run_all(database)
    (row,) = await operations(database, place)
    assert (row["status"], row["payload"], row["is_blocking"]) == ("completed", "null", False)
    assert row["claim_token"] is None and row["claimed_by_worker"] is None


async def test_the_place_in_line_counts_what_waits_before(database: asyncpg.Connection) -> None:
    a, b = await ensure(database, unique(), "a", "b")
    await enqueue(database, a, 1, 2)
    answered = await push_requests(
        database, [RawItem(b, "1"), RawItem(b, "2")], [RawItem(a, "3")], queued=[b]
    )
    assert answered.positions == [3, 3, 4]
    assert answered.outcomes == "ssb"
    await run_all(database)
    assert (await push_requests(database, [RawItem(a, "4")])).positions is None


async def test_only_the_partitions_where_something_waits_go_behind_it(
    database: asyncpg.Connection,
) -> None:
    a, b, c = await ensure(database, unique(), "a", "b", "c")
    await enqueue(database, b, "before")
    items = [Item(place, n) for n, place in enumerate([c, b, a, b, c])]
    pushed = await push(database, *items)
    assert pushed.outcomes == "qbqbq"
    assert len(set(pushed.message_ids)) == 4
    assert (await stored(database, a), await stored(database, c)) == ([2], [0, 4])
    assert await run_all(database) == 3
    assert await stored(database, b) == ["before", 1, 3]
    assert [row["reason"] for row in await operations(database, b)] == [
        "system_busy", "maintaining_order",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["tenant:42", "a:b:c", ":", "Default:x", "Default "])
async def test_a_name_with_a_separator_is_a_name_like_any_other(
    database: asyncpg.Connection, name: str
) -> None:
    queue, other = unique("q:1"), unique("q")
    (place,) = await ensure(database, queue, name)
    (neighbour,) = await ensure(database, other, f"1:{name}")
    await enqueue(database, place, 1)
    (row,) = await operations(database, place)
    assert (row["queue_name"], row["partition_name"]) == (queue, name)
    assert (await push_all(database, neighbour, "free")).outcomes == "q"
    assert (await push_all(database, place, 2)).outcomes == "b"
    (first, *_) = (await claim(database)).rows
    assert (first["queue_name"], first["partition_name"]) == (queue, name)


async def test_too_many_operations_of_a_partition_are_refused_with_its_id(
    database: asyncpg.Connection,
) -> None:
    a, b, c = await ensure(database, unique(), "a", "b", "c")
    for _ in range(2):
        await push(database, Item(a, 0), queued=[a], queue_max=2)
    with pytest.raises(asyncpg.PostgresError) as raised:
        await push(database, Item(b, 1), Item(a, 2), Item(c, 3), queued=[b], queue_max=2)
    assert raised.value.sqlstate == "QN003"
    assert raised.value.detail == f"{{{a}}}"
    assert [await stored(database, place) for place in (a, b, c)] == [[], [], []]
    assert not await operations(database, b)
    # Room again, and all of it is taken.
    claimed = await claim(database, items_max=1)
    await run(database, claimed)
    pushed = await push(database, Item(b, 1), Item(a, 2), Item(c, 3), queued=[b], queue_max=2)
    assert pushed.outcomes == "sbq"


async def test_the_bound_counts_the_requests_of_the_call_itself(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    requests: list[Any] = [[RawItem(place, str(n))] for n in range(4)]
    with pytest.raises(asyncpg.PostgresError) as raised:
        await push_requests(database, *requests, queued=[place], queue_max=3)
    assert raised.value.sqlstate == "QN003"
    assert not await operations(database, place)
    answered = await push_requests(database, *requests, queued=[place], queue_max=4)
    assert answered.outcomes == "ssss"


async def test_what_is_stored_and_what_is_queued_come_together_or_not_at_all(
    database: asyncpg.Connection,
) -> None:
    a, b = await ensure(database, unique(), "a", "b")
    with pytest.raises(asyncpg.DataError):
        await push_requests(
            database, [RawItem(a, "1"), RawItem(b, "1")], [RawItem(a, "{")], queued=[b]
        )
    with pytest.raises(asyncpg.DataError):
        await push_requests(
            database, [RawItem(a, "1"), RawItem(b, "1")], [RawItem(b, "{")], queued=[b]
        )
    gone = UUID(int=2**128 - 1)
    with pytest.raises(asyncpg.PostgresError) as raised:
        await push(database, Item(a, 1), Item(b, 1), Item(gone, 1), queued=[b, gone])
    assert raised.value.sqlstate == "QN001"
    assert (await stored(database, a), await operations(database, b)) == ([], [])


async def test_a_transaction_goes_behind_what_waits(database: asyncpg.Connection) -> None:
    a, b = await ensure(database, unique(), "a", "b")
    await enqueue(database, a, "before")
    done = await transaction(database, items=[Item(a, 1), Item(b, 2), Item(a, 3)])
    assert done["outcomes"] == "bqb"
    assert done["message_ids"][0] == done["message_ids"][2]
    assert done["positions"] == [2, None, 2]
    await run_all(database)
    assert await stored(database, a) == ["before", 1, 3]


async def test_a_refused_transaction_leaves_no_operation(database: asyncpg.Connection) -> None:
    a, b = await ensure(database, unique(), "a", "b")
    await enqueue(database, a, "before")
    await push(database, Item(b, 0, "taken"))
    with pytest.raises(asyncpg.PostgresError) as raised:
        await transaction(database, items=[Item(a, 1), Item(b, 2, "taken")])
    assert raised.value.sqlstate == "QN012"
    assert len(await operations(database, a)) == 1


async def test_the_sql_push_goes_behind_what_waits(database: asyncpg.Connection) -> None:
    queue = unique()
    place, named = await ensure(database, queue, "Default", "named")
    await enqueue(database, place, "before")
    push_one = "SELECT queen.push($1, $2, partition => $3)"
    assert await database.fetchval("SELECT queen.push($1, '1')", queue) is None
    assert await database.fetchval(push_one, queue, "2", "named") is not None
    await run_all(database)
    assert await database.fetchval(push_one, queue, "3", "Default") is not None
    assert await stored(database, place) == ["before", 1, 3]
    assert await stored(database, named) == [2]


async def test_the_sql_push_of_a_rolled_back_caller_leaves_no_operation(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await enqueue(database, place, "before")
    caller = database.transaction()
    await caller.start()
    await database.fetchval("SELECT queen.push($1, '1')", queue)
    await caller.rollback()
    assert len(await operations(database, place)) == 1


async def test_no_ack_can_be_queued(database: asyncpg.Connection) -> None:
    """An ack is confirmed when it is done, so that it cannot outlive its lease."""
    rows = await database.fetch(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'queen'::regnamespace"
        " AND prosrc ~* 'insert\\s+into\\s+queen.operation_queue'"
    )
    assert [row["proname"] for row in rows] == ["queue_push"]
