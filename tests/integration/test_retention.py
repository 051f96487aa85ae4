"""The messages that retention removes, and the consistency of the rest."""

from __future__ import annotations

import json
from uuid import UUID

import asyncpg
import pytest

from queenmq.storage.schema import lookup_care
from tests.isolation.sessions import (
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
    push_all,
    resolve,
    seqs,
)
from tests.support.retention import OLD, Removed, age, place_of, retain

LESS, MORE = OLD // 2, OLD * 2
#: Each rule alone, so short that it takes all old messages.
RULES = {
    "retention": {"retention_enabled": True, "retention_seconds": LESS},
    "eviction": {"max_wait_time_seconds": LESS},
}
COMPLETED = {"retention_enabled": True, "completed_retention_seconds": LESS}
EACH_RULE = pytest.mark.parametrize("rule", RULES)


async def _filled(
    session: asyncpg.Connection, *, old: int, young: int = 0, **columns: object
) -> UUID:
    """Queue q with one partition of that many messages, numbered from 1 on."""
    await configure(session, "q", **columns)
    (place,) = await ensure(session, "q")
    await push_all(session, place, *range(1, old + 1))
    await age(session, place)
    if young:
        await push_all(session, place, *range(old + 1, old + young + 1))
    return place


async def _pass(session: asyncpg.Connection, place: UUID, count: int, *groups: str) -> None:
    for group in groups:
        popped = await pop_one(session, place, group, batch=count, auto_ack=True)
        assert len(popped.messages) == count


@EACH_RULE
async def test_old_messages_go_and_young_ones_stay(database: asyncpg.Connection, rule: str) -> None:
    place = await _filled(database, old=3, young=2, **RULES[rule])
    removed = await retain(database, "q")
    assert removed == (Removed(retention=3) if rule == "retention" else Removed(evicted=3))
    assert await seqs(database, place) == [4, 5]
    assert await place_of(database, place) == (4, 5)
    assert await retain(database, "q") == Removed()


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"retention_enabled": True},
        {"retention_seconds": LESS, "completed_retention_seconds": LESS},
        {"retention_enabled": True, "retention_seconds": MORE},
        {"retention_enabled": True, "completed_retention_seconds": MORE},
        {"max_wait_time_seconds": MORE},
    ],
    ids=["no rule", "enabled alone", "not enabled", "age", "completed age", "wait"],
)
async def test_without_a_rule_that_fits_nothing_goes(
    database: asyncpg.Connection, columns: dict[str, object]
) -> None:
    place = await _filled(database, old=3, **columns)
    await _pass(database, place, 1, "g")
    assert await retain(database, "q") == Removed()
    assert await seqs(database, place) == [1, 2, 3]


async def test_completed_is_what_every_group_has_passed(database: asyncpg.Connection) -> None:
    place = await _filled(database, old=4, young=1, **COMPLETED)
    await _pass(database, place, 5, "fast")
    await _pass(database, place, 2, "slow")
    assert await retain(database, "q") == Removed(completed=2)
    assert await seqs(database, place) == [3, 4, 5]
    await _pass(database, place, 3, "slow")
    assert await retain(database, "q") == Removed(completed=2)
    assert await seqs(database, place) == [5], "passed by all, but not for long enough"


async def test_nothing_is_completed_where_nobody_consumes(database: asyncpg.Connection) -> None:
    place = await _filled(database, old=2, **COMPLETED)
    assert await retain(database, "q") == Removed()
    assert await seqs(database, place) == [1, 2]


async def test_a_group_that_has_not_come_to_a_partition_yet_has_passed_nothing_there(
    database: asyncpg.Connection,
) -> None:
    place = await _filled(database, old=2, **COMPLETED)
    (other,) = await ensure(database, "q", "other")
    await push_all(database, other, "x")
    await _pass(database, place, 2, "here")
    await _pass(database, other, 1, "here", "elsewhere")
    assert await retain(database, "q") == Removed()
    await _pass(database, place, 2, "elsewhere")
    assert await retain(database, "q") == Removed(completed=2)


async def test_a_group_that_only_has_a_start_counts_from_that_start(
    database: asyncpg.Connection,
) -> None:
    place = await _filled(database, old=4, **COMPLETED)
    await _pass(database, place, 4, "here")
    # Two messages are before the start of the other group.
    await database.execute(
        "UPDATE queen.messages SET created_at = created_at - interval '1 minute'"
        " WHERE partition_id = $1 AND seq <= 2",
        place,
    )
    await database.execute(
        "SELECT queen.subscribe_groups(ARRAY['q'], ARRAY[''], ARRAY['later'],"
        " ARRAY[(SELECT created_at FROM queen.messages WHERE partition_id = $1 AND seq = 3)])",
        place,
    )
    assert await retain(database, "q") == Removed(completed=2)
    assert await seqs(database, place) == [3, 4]


@pytest.mark.parametrize("partition", ["", "Default"], ids=["queue", "partition"])
@pytest.mark.parametrize("mode", ["new", "timestamp"])
async def test_what_a_group_has_subscribed_to_stays_until_it_has_come(
    database: asyncpg.Connection, partition: str, mode: str
) -> None:
    """Also before its first pop, when it has no cursor anywhere."""
    subscribe = "SELECT queen.subscribe_groups(ARRAY['q'], ARRAY[$1], ARRAY['later'], $2)"
    place = await _filled(database, old=2, **COMPLETED)
    if mode == "new":
        await database.execute(subscribe, partition, [None])
    await push_all(database, place, 3, 4)
    await age(database, place)
    if mode == "timestamp":
        time = "SELECT created_at FROM queen.messages WHERE partition_id = $1 AND seq = 3"
        await database.execute(subscribe, partition, [await database.fetchval(time, place)])
    await _pass(database, place, 4, "here")
    assert await retain(database, "q") == Removed(completed=2)
    assert await seqs(database, place) == [3, 4]
    assert (await pop_one(database, place, "later", auto_ack=True)).data == [3, 4]
    assert await retain(database, "q") == Removed(completed=2)


async def test_messages_before_a_start_are_taken_by_nobody(database: asyncpg.Connection) -> None:
    place = await _filled(database, old=2, **RULES["eviction"])
    await database.execute(
        "SELECT queen.subscribe_groups(ARRAY['q'], ARRAY[''], ARRAY['later'],"
        " ARRAY[NULL::timestamptz])"
    )
    await push_all(database, place, 3)
    assert await retain(database, "q") == Removed(evicted=2)
    assert (await pop_one(database, place, "later")).data == [3]


async def test_a_group_that_subscribed_to_one_partition_counts_in_the_others(
    database: asyncpg.Connection,
) -> None:
    place = await _filled(database, old=2, **COMPLETED)
    (other,) = await ensure(database, "q", "other")
    await _pass(database, place, 2, "here")
    await database.execute(
        "SELECT queen.subscribe_groups(ARRAY['q'], ARRAY['other'], ARRAY['later'],"
        " ARRAY[NULL::timestamptz])"
    )
    assert await retain(database, "q") == Removed()
    assert (await pop_one(database, place, "later", auto_ack=True)).data == [1, 2]
    assert await retain(database, "q") == Removed(completed=2)
    assert await seqs(database, other) == []


async def _spark(
    session: asyncpg.Connection, group: str, query: str, xid: int, *queues: str
) -> None:
    await session.execute(
        "INSERT INTO queen.spark_positions (consumer_group, query_id, queues, xid, lag, updated_at)"
        " VALUES ($1, $2, $3, $4::text::xid8, 0, clock_timestamp())",
        group,
        query,
        json.dumps(queues),
        str(xid),
    )


async def _xid(session: asyncpg.Connection, place: UUID, seq: int) -> int:
    return int(
        await session.fetchval(
            "SELECT xid::text FROM queen.messages WHERE partition_id = $1 AND seq = $2", place, seq
        )
    )


async def test_spark_streams_with_a_group_count_by_their_position(
    database: asyncpg.Connection,
) -> None:
    place = await _filled(database, old=1, **COMPLETED)
    await push_all(database, place, 2)
    await push_all(database, place, 3)
    await age(database, place)
    await _spark(database, "lake", "before", 1, "q")
    await _spark(database, "lake", "now", await _xid(database, place, 3), "q")
    await _spark(database, "others", "1", 1, "not-q")
    assert await retain(database, "q") == Removed(completed=2), "Spark alone reads the queue"
    assert await seqs(database, place) == [3]
    await _pass(database, place, 1, "g")
    assert await retain(database, "q") == Removed(), "Spark has not read the third"


async def test_age_takes_what_groups_have_not_passed(database: asyncpg.Connection) -> None:
    place = await _filled(database, old=4, **RULES["retention"], completed_retention_seconds=LESS)
    await _pass(database, place, 3, "g")
    assert await retain(database, "q") == Removed(retention=1, completed=3)
    assert (await pop_one(database, place, "g")).outcome == "none"


async def test_what_somebody_has_consumed_is_not_evicted(database: asyncpg.Connection) -> None:
    place = await _filled(database, old=2, **RULES["eviction"])
    await _pass(database, place, 2, "fast")
    await _pass(database, place, 1, "slow")
    assert await retain(database, "q") == Removed()
    assert await seqs(database, place) == [1, 2]


async def test_what_is_leased_is_not_waiting_for_anybody(database: asyncpg.Connection) -> None:
    place = await _filled(database, old=3, **RULES["eviction"])
    await _pass(database, place, 1, "g")
    await pop_one(database, place, "g")
    assert await retain(database, "q") == Removed(), "one was consumed, the rest is leased"


async def test_eviction_takes_along_what_is_before(database: asyncpg.Connection) -> None:
    place = await _filled(database, old=3, young=1, **RULES["eviction"])
    await _pass(database, place, 2, "g")
    assert await retain(database, "q") == Removed(evicted=3)
    assert await place_of(database, place) == (4, 4)
    assert (await pop_one(database, place, "g")).data == [4]


@EACH_RULE
async def test_what_a_live_lease_covers_stays_until_it_ends(
    database: asyncpg.Connection, rule: str
) -> None:
    place = await _filled(database, old=5, **RULES[rule])
    await _pass(database, place, 2, "g")
    leased = await pop_one(database, place, "g", batch=2)
    removed = await retain(database, "q")
    assert await seqs(database, place) == [3, 4, 5], removed
    (answer, _) = await ack(database, *acks_of(leased, group="g"))
    assert answer["success"]
    leased = await pop_one(database, place, "g", batch=5)
    await expire(database, place, "g")
    await retain(database, "q")
    assert await seqs(database, place) == []
    (answer,) = await ack(database, *acks_of(leased, group="g"))
    assert not answer["success"]


@pytest.mark.parametrize("rule", [*RULES, "completed"])
async def test_with_archive_first_only_what_is_archived_goes(
    database: asyncpg.Connection, rule: str
) -> None:
    columns = RULES.get(rule, COMPLETED)
    place = await _filled(database, old=4, archive_before_delete=True, **columns)
    if rule == "completed":
        await _pass(database, place, 4, "g")
    assert await retain(database, "q") == Removed()
    await database.execute(
        "INSERT INTO queen.archive_marks (partition_id, lake, archived_seq, archived_at)"
        " VALUES ($1, gen_random_uuid(), 3, now())",
        place,
    )
    removed = await retain(database, "q")
    assert sum(removed[:3]) == 3
    assert await seqs(database, place) == [4]


async def test_a_partition_that_was_emptied_does_not_look_pending(
    database: asyncpg.Connection, database_url: str
) -> None:
    place = await _filled(database, old=3, **RULES["retention"])
    await _pass(database, place, 1, "g")
    await retain(database, "q")
    assert await place_of(database, place) == (4, 3)
    assert await resolve(database, "q", "g", "new") == [[], []]
    lags = await database.fetch("SELECT offset_lag, oldest_at FROM queen.group_lags(NULL)")
    assert [tuple(lag) for lag in lags] == [(0, None)]
    assert [finding for finding in await lookup_care.check(database_url) if finding.total] == []
    await push_all(database, place, 4)
    assert (await pop_one(database, place, "g")).data == [4]
    assert await seqs(database, place) == [4], "numbers go on"


async def test_cursors_behind_removed_messages_go_on_at_the_first_that_is_left(
    database: asyncpg.Connection,
) -> None:
    place = await _filled(database, old=3, young=2, **RULES["retention"])
    await _pass(database, place, 1, "behind")
    await retain(database, "q")
    for group in ("behind", "new"):
        popped = await pop_one(database, place, group, batch=1)
        assert popped.data == [4] and popped.has_more
        (answer,) = await ack(database, *acks_of(popped, group=group))
        assert answer["success"]


async def test_delayed_messages_behind_removed_ones_are_found(
    database: asyncpg.Connection,
) -> None:
    place = await _filled(database, old=2, young=1, **RULES["retention"], delayed_processing=3600)
    await retain(database, "q")
    (popped,) = await pop(database, Want([place], "g"))
    assert popped.outcome == "delayed" and popped.due_ms is not None and popped.due_ms > 3_000_000
    assert await resolve(database, "q", "g") == [[]]


async def test_a_poison_message_that_is_gone_blocks_nobody(database: asyncpg.Connection) -> None:
    place = await _filled(
        database, old=2, young=1, **RULES["retention"], on_poison="block", retry_limit=1
    )
    for _ in range(2):
        await pop_one(database, place, "g", batch=1)
        await expire(database, place, "g")
    assert (await pop_one(database, place, "g")).outcome == "again"
    assert (await pop_one(database, place, "g")).outcome == "blocked"
    await retain(database, "q")
    assert (await pop_one(database, place, "g")).data == [3]


async def test_a_lease_that_ran_out_on_a_removed_message_makes_no_other_poison(
    database: asyncpg.Connection,
) -> None:
    place = await _filled(
        database, old=1, young=1, **RULES["retention"], on_poison="block", retry_limit=1
    )
    for _ in range(2):
        await pop_one(database, place, "g", batch=1)
        await expire(database, place, "g")
    await retain(database, "q")
    popped = await pop_one(database, place, "g")
    assert popped.data == [2] and popped.messages[0]["retryCount"] == 0


async def test_retries_of_a_removed_message_are_forgotten(database: asyncpg.Connection) -> None:
    place = await _filled(database, old=1, young=1, **RULES["retention"], retry_delay=3_600_000)
    popped = await pop_one(database, place, "g", batch=1)
    await ack(database, *acks_of(popped, group="g", status="failed"))
    assert (await pop_one(database, place, "g")).outcome == "retry"
    await retain(database, "q")
    assert (await pop_one(database, place, "g")).data == [2]
    row = await cursor(database, place, "g")
    assert row is not None and row["retry_count"] == 0


async def test_one_call_removes_a_bounded_number_and_says_where_to_go_on(
    database: asyncpg.Connection,
) -> None:
    await configure(database, "q", **RULES["retention"])
    places = await ensure(database, "q", "a", "b", "c")
    for place in places:
        await push_all(database, place, *range(30))
        await age(database, place)
    assert await retain(database, "q", messages_max=25) == Removed(25, next_after="Default")
    assert await seqs(database, places[0]) == [26, 27, 28, 29, 30]
    removed = await retain(database, "q", "Default", messages_max=70)
    assert removed == Removed(5 + 30, next_after="b"), "a partition costs as much as 20 messages"
    assert await retain(database, "q", "b") == Removed(30)


async def test_partitions_are_looked_at_page_by_page(database: asyncpg.Connection) -> None:
    await configure(database, "q", **RULES["retention"])
    names = [f"p{number}" for number in range(7)]
    for place in await ensure(database, "q", *names):
        await push_all(database, place, 1)
        await age(database, place)
    after: str | None = ""
    pages = []
    while after is not None:
        removed = await retain(database, "q", after, partitions_max=3)
        pages.append(removed.retention)
        after = removed.next_after
    assert pages == [2, 3, 2], "Default is empty"


async def test_holes_made_by_hand_do_not_leave_the_first_number_behind(
    database: asyncpg.Connection, database_url: str
) -> None:
    place = await _filled(database, old=3, young=3, **RULES["retention"])
    await database.execute("DELETE FROM queen.messages WHERE seq IN (2, 4)")
    assert await retain(database, "q") == Removed(2)
    assert await place_of(database, place) == (5, 6)
    assert [finding for finding in await lookup_care.check(database_url) if finding.total] == []


async def test_a_message_that_was_deleted_singly_is_forgotten_with_those_around_it(
    database: asyncpg.Connection,
) -> None:
    place = await _filled(database, old=3, young=2, **RULES["retention"])
    name = await database.fetchval(
        "SELECT coalesce(transaction_id, id::text) FROM queen.messages WHERE seq = 2"
    )
    await database.execute("SELECT queen.delete_message($1, $2, 1000)", place, name)
    assert await retain(database, "q") == Removed(retention=2)
    assert await place_of(database, place) == (4, 5)
    assert await database.fetchval("SELECT count(*) FROM queen.removed_messages") == 0


async def test_a_transaction_id_is_free_again_when_its_message_is_gone(
    database: asyncpg.Connection,
) -> None:
    await configure(database, "q", **RULES["retention"])
    (place,) = await ensure(database, "q")
    await push(database, Item(place, 1, "tx"))
    assert (await push(database, Item(place, 1, "tx"))).outcomes == "d"
    await age(database, place)
    await retain(database, "q")
    assert (await push(database, Item(place, 1, "tx"))).outcomes == "q"


async def test_dead_letters_outlive_their_message(database: asyncpg.Connection) -> None:
    place = await _filled(database, old=1, **RULES["retention"])
    popped = await pop_one(database, place, "g")
    await ack(database, *acks_of(popped, group="g", status="dlq"))
    assert await retain(database, "q") == Removed(retention=1)
    payloads = await database.fetch("SELECT payload::text FROM queen.dead_letter_queue")
    assert [row[0] for row in payloads] == ["1"]


async def test_removed_messages_make_room_under_the_bound_of_a_queue(
    database: asyncpg.Connection,
) -> None:
    place = await _filled(database, old=3, **RULES["eviction"], max_size=3)
    assert (await push_all(database, place, "full")).outcomes == "f"
    await retain(database, "q")
    assert (await push_all(database, place, "a", "b", "c", "d")).outcomes == "qqqf"


async def test_what_went_is_in_the_history_by_rule(database: asyncpg.Connection) -> None:
    place = await _filled(database, old=4, **RULES["retention"], completed_retention_seconds=LESS)
    await _pass(database, place, 1, "g")
    for _ in range(2):
        await retain(database, "q", messages_max=2)
    rows = await database.fetch(
        "SELECT sum(retention_messages)::int, sum(completed_messages)::int,"
        " sum(evicted_messages)::int, sum(events)::int FROM queen.retention_history"
    )
    assert [tuple(row) for row in rows] == [(3, 1, 0, 2)]
