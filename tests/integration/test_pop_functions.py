"""The pop functions of the database, one session: what is delivered, and what is left behind."""

from __future__ import annotations

import re
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.isolation.sessions import (
    QUEUE_MODE,
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
    push_all,
    release,
    renew,
    resolve,
)
from tests.isolation.sessions import Item as PushItem
from tests.support.broker import unique

GROUPS = [pytest.param(QUEUE_MODE, id="default group"), pytest.param("fresh", id="named group")]


async def _age(database: asyncpg.Connection, place: UUID, seconds: int) -> None:
    """Make all messages of a partition older."""
    for table, column in (
        ("messages", "created_at"),
        ("partition_lookup", "last_message_created_at"),
    ):
        await database.execute(
            f"UPDATE queen.{table} SET {column} = {column} - make_interval(secs => $2)"
            " WHERE partition_id = $1",
            place,
            seconds,
        )


@pytest.mark.parametrize("group", GROUPS)
async def test_first_pop_of_a_group_delivers(database: asyncpg.Connection, group: str) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, {"n": 1})
    assert await resolve(database, queue, group) == [[place]]
    popped = await pop_one(database, place, group)
    assert popped.outcome == "granted" and popped.data == [{"n": 1}]


async def test_every_candidate_of_an_empty_call_is_answered(database: asyncpg.Connection) -> None:
    places = await ensure(database, unique(), "a", "b")
    rows = await pop(database, *(Want([place]) for place in places))
    assert [(row.request, row.outcome, row.messages) for row in rows] == [
        (1, "none", []),
        (2, "none", []),
    ]


async def test_every_pair_gets_a_row_when_nothing_is_deliverable(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await ensure(database, queue)
    assert await resolve(database, queue, "a", "b", "c") == [[], [], []]
    assert await resolve(database, "no such queue", "a") == [[]]


async def test_calls_repeat_within_one_transaction(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1, 2)
    async with database.transaction():
        for number in (1, 2):
            popped = await pop_one(database, place, batch=1)
            assert popped.data == [number]
            assert (await ack(database, *acks_of(popped)))[0]["success"]


async def test_groups_with_and_without_history_are_resolved_side_by_side(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    places = await ensure(database, queue, "p1", "p2", "p3")
    for place in places:
        await push_all(database, place, 1)
        await pop_one(database, place, "old", auto_ack=True)
    old, new = await resolve(database, queue, "old", "new")
    assert old == [] and sorted(new) == sorted(places)
    rows = await pop(database, *(Want([place], "new", batch=1) for place in places))
    assert [row.outcome for row in rows] == ["granted"] * 3
    assert {row.partition_id for row in rows} == set(places)


async def test_batch_bounds_the_delivery_and_the_lease(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, *range(20))
    for start in range(0, 20, 5):
        popped = await pop_one(database, place, batch=5)
        assert popped.data == list(range(start, start + 5))
        assert popped.has_more is (start < 15)
        results = await ack(database, *acks_of(popped))
        assert results[-1]["lease_released"]


async def test_batch_bounds_all_partitions_of_a_request_together(
    database: asyncpg.Connection,
) -> None:
    places = await ensure(database, unique(), *"abcde")
    for place in places:
        await push_all(database, place, *range(4))
    rows = await pop(database, Want(places, batch=10))
    assert sum(len(row.messages) for row in rows) == 10
    assert sorted(row.outcome for row in rows) == ["granted"] * 3 + ["spare"] * 2
    for row in rows:
        if row.outcome == "spare":
            assert not (await cursor(database, row.partition_id))["is_leased"]


async def test_delayed_partition_is_not_leased_and_delivers_once_due(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await configure(database, queue, delayed_processing=30)
    (place,) = await ensure(database, queue)
    await push_all(database, place, 1)
    assert await resolve(database, queue, "g") == [[]]
    early = await pop_one(database, place, "g")
    assert early.outcome == "delayed" and early.lease_id is None
    assert 0 < early.due_ms <= 30_000
    assert not (await cursor(database, place, "g"))["is_leased"]
    await _age(database, place, 30)
    assert await resolve(database, queue, "g") == [[place]]
    assert (await pop_one(database, place, "g")).data == [1]


async def test_delay_holds_back_only_the_messages_that_are_too_young(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await configure(database, queue, delayed_processing=30)
    (place,) = await ensure(database, queue)
    await push_all(database, place, "old", "old too")
    await _age(database, place, 60)
    await push_all(database, place, "young")
    popped = await pop_one(database, place, batch=10)
    assert popped.data == ["old", "old too"]
    await ack(database, *acks_of(popped))
    assert (await pop_one(database, place)).outcome == "delayed"


async def test_window_holds_the_whole_partition_until_it_is_quiet(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await configure(database, queue, window_buffer=30)
    (place,) = await ensure(database, queue)
    await push_all(database, place, "old")
    await _age(database, place, 60)
    await push_all(database, place, "young")
    assert await resolve(database, queue, "g") == [[]]
    early = await pop_one(database, place, "g")
    assert early.outcome == "window" and early.due_ms > 0
    await _age(database, place, 30)
    assert (await pop_one(database, place, "g")).data == ["old", "young"]


async def test_undeliverable_partition_does_not_hide_the_one_that_is_due(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await configure(database, queue, delayed_processing=30)
    young, due = await ensure(database, queue, "young", "due")
    await push_all(database, young, "young")
    await push_all(database, due, "due")
    await _age(database, due, 60)
    for _ in range(3):
        assert await resolve(database, queue, "g") == [[due]]
    rows = await pop(database, Want([young, due], "g"))
    assert {row.partition_id: row.outcome for row in rows} == {young: "delayed", due: "granted"}


async def test_least_recently_served_partition_comes_first(database: asyncpg.Connection) -> None:
    queue = unique()
    places = await ensure(database, queue, "a", "b", "c")
    for place in places:
        await push_all(database, place, 1, 2, 3)
    served = []
    for _ in range(6):
        (order,) = await resolve(database, queue, "g")
        popped = await pop_one(database, order[0], "g", batch=1)
        await ack(database, *acks_of(popped, group="g"))
        served.append(order[0])
    assert sorted(served[:3]) == sorted(places)
    assert served[3:] == served[:3]


async def test_higher_priority_comes_first_across_queues(database: asyncpg.Connection) -> None:
    namespace = unique("space")
    places = {}
    for name, priority in (("low", 1), ("high", 9)):
        queue = unique(name)
        await configure(database, queue, priority=priority, namespace=namespace)
        (places[name],) = await ensure(database, queue)
        await push_all(database, places[name], name)
    row = await database.fetchrow(
        "SELECT * FROM queen.pop_sm_resolve(ARRAY[NULL], ARRAY[NULL], ARRAY[$1], ARRAY[NULL],"
        " ARRAY['g'], ARRAY[NULL::xid8], '{}', '{0}', 10, 1000, NULL)",
        namespace,
    )
    assert row["partition_ids"] == [places["high"], places["low"]]


async def test_partitions_emptied_by_retention_are_not_offered(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, 1)
    await database.fetchval("SELECT queen.clear_queue($1, NULL)", queue)
    assert await resolve(database, queue, "g") == [[]]
    assert (await pop_one(database, place, "g")).outcome == "none"


@pytest.mark.parametrize("auto_ack", [False, True], ids=["leased", "autoAck"])
async def test_hole_left_by_deleted_messages_is_passed_in_one_step_and_leaves_no_lease(
    database: asyncpg.Connection, auto_ack: bool
) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, *range(1, 1001))
    await database.execute(
        "DELETE FROM queen.messages WHERE partition_id = $1 AND seq BETWEEN 1 AND 998", place
    )
    assert (await pop_one(database, place, batch=1, auto_ack=auto_ack)).outcome == "again"
    row = await cursor(database, place)
    assert not row["is_leased"] and row["cursor_seq"] == 998
    assert (await pop_one(database, place, batch=1)).data == [999]


async def test_hole_at_the_end_is_passed_up_to_the_head(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, *range(1, 101))
    await database.execute("DELETE FROM queen.messages WHERE partition_id = $1", place)
    assert (await pop_one(database, place, batch=1)).outcome == "again"
    assert (await pop_one(database, place, batch=1)).outcome == "none"
    await push_all(database, place, "next")
    assert (await pop_one(database, place, batch=1)).data == ["next"]


@pytest.mark.parametrize(
    ("lease_time", "expected"), [pytest.param(7, 7, id="own"), pytest.param(0, 60, id="fallback")]
)
async def test_lease_lasts_as_long_as_the_queue_says(
    database: asyncpg.Connection, lease_time: int, expected: int
) -> None:
    queue = unique()
    await configure(database, queue, lease_time=lease_time)
    (place,) = await ensure(database, queue)
    await push_all(database, place, 1)
    await pop_one(database, place)
    row = await cursor(database, place)
    assert (row["lease_expires_at"] - row["lease_acquired_at"]).total_seconds() == expected


async def test_message_carries_what_its_ack_needs(database: asyncpg.Connection) -> None:
    queue = unique('we"ird')
    (place,) = await ensure(database, queue, "täg/1")
    await push(database, PushItem(place, {"a": [1, None]}, 'given "id"'), PushItem(place, None))
    popped = await pop_one(database, place, "gr\\oup")
    given, made = popped.messages
    assert given["transactionId"] == 'given "id"' and made["transactionId"] == made["id"]
    assert given["data"] == {"a": [1, None]} and made["data"] is None
    for message in popped.messages:
        assert message["queue"] == queue and message["partition"] == "täg/1"
        assert message["partitionId"] == str(place)
        assert message["leaseId"] == str(popped.lease_id)
        assert message["consumerGroup"] == "gr\\oup"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", message["createdAt"])
    results = await ack(database, *acks_of(popped, group="gr\\oup"))
    assert [row["success"] for row in results] == [True, True]


async def test_times_are_in_utc_whatever_the_session_says(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    shown = []
    for zone in ("UTC", "Pacific/Auckland"):
        await database.execute(f"SET TIME ZONE '{zone}'")
        popped = await pop_one(database, place)
        shown.append(popped.messages[0]["createdAt"])
        await release(database, popped)
    assert shown[0] == shown[1]


async def test_message_ids_are_version_7_and_ascend(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    ids = [UUID(one) for one in (await push_all(database, place, *range(2000))).message_ids]
    assert all(one.version == 7 for one in ids)
    assert all(one.variant == "specified in RFC 4122" for one in ids)
    assert ids == sorted(set(ids))


async def test_pop_of_an_unknown_partition_is_not_answered_and_creates_nothing(
    database: asyncpg.Connection,
) -> None:
    assert await pop(database, Want([uuid4()], "g")) == []
    assert not await database.fetchval("SELECT count(*) FROM queen.partition_consumers")


async def test_released_messages_are_deliverable_at_once_and_count_no_retry(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    for _ in range(5):
        popped = await pop_one(database, place)
        assert popped.messages[0]["retryCount"] == 0
        assert await release(database, popped) == 1


async def test_renewal_tells_unknown_leases_from_finished_ones(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    popped = await pop_one(database, place)
    unknown = await renew(database, uuid4())
    assert (unknown["renewed"], unknown["was_known"]) == (0, False)
    await ack(database, *acks_of(popped))
    finished = await renew(database, popped.lease_id)
    assert (finished["renewed"], finished["was_known"]) == (0, True)


async def test_batch_on_which_consumers_die_is_narrowed_down_to_the_one_message(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    await configure(database, queue, retry_limit=2)
    (place,) = await ensure(database, queue)
    await push_all(database, place, "good", "poison", "fine")
    for _ in range(2):
        assert (await pop_one(database, place)).data == ["good", "poison", "fine"]
        await expire(database, place)
    alone = await pop_one(database, place)
    assert alone.data == ["good"]
    await ack(database, *acks_of(alone))
    assert (await pop_one(database, place)).data == ["poison"]
    await expire(database, place)
    assert (await pop_one(database, place)).outcome == "again"
    dead = await database.fetch("SELECT seq, payload::text FROM queen.dead_letter_queue")
    assert [tuple(row) for row in dead] == [(2, '"poison"')]
    assert (await pop_one(database, place)).data == ["fine"]


@pytest.mark.parametrize("policy", ["skip", "block"])
async def test_poison_follows_the_policy_of_its_queue(
    database: asyncpg.Connection, policy: str
) -> None:
    queue = unique()
    await configure(database, queue, retry_limit=1, on_poison=policy)
    (place,) = await ensure(database, queue)
    await push_all(database, place, "poison", "fine")
    for _ in range(2):
        await pop_one(database, place)
        await expire(database, place)
    assert (await pop_one(database, place)).outcome == "again"
    assert not await database.fetchval("SELECT count(*) FROM queen.dead_letter_queue")
    if policy == "skip":
        assert (await pop_one(database, place)).data == ["fine"]
        return
    assert (await pop_one(database, place)).outcome == "blocked"
    assert await resolve(database, queue, QUEUE_MODE) == [[]]
    await configure(database, queue, on_poison="skip")
    assert (await pop_one(database, place)).data == ["poison"]
