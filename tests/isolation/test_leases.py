"""One live lease per (partition, consumer group), however many sessions ask at once."""

from __future__ import annotations

import asyncio

import asyncpg

from queenmq.ids import new_lease_id
from tests.isolation.sessions import (
    QUEUE_MODE,
    Ack,
    Connect,
    Popped,
    Want,
    ack,
    acks_of,
    cursor,
    ensure,
    expire,
    pop,
    pop_one,
    push_all,
    release,
    renew,
)
from tests.support.broker import unique


def _granted(rows: list[Popped]) -> list[Popped]:
    return [row for row in rows if row.outcome == "granted"]


async def test_second_consumer_of_a_group_gets_nothing_while_the_lease_lives(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    taken = await pop_one(first, place)
    refused = await pop_one(second, place)
    assert taken.outcome == "granted" and taken.data == [1]
    assert refused.outcome == "held" and refused.messages == [] and refused.lease_id is None
    assert refused.due_ms is not None and refused.due_ms > 0


async def test_two_requests_for_one_pair_in_one_call_have_one_winner(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1, 2)
    rows = await pop(database, Want([place], batch=1), Want([place], batch=1))
    (won,) = _granted(rows)
    assert won.request == 1 and won.data == [1]
    assert {row.request: row.outcome for row in rows} == {1: "granted", 2: "held"}


async def test_two_auto_ack_requests_for_one_pair_in_one_call_never_share_a_message(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1, 2)
    wants = [Want([place], batch=1, auto_ack=True)] * 2
    first = [row.data for row in _granted(await pop(database, *wants))]
    second = [row.data for row in _granted(await pop(database, *wants))]
    assert first + second == [[1], [2]]


async def test_same_partition_for_two_groups_in_one_call_is_given_to_both(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    rows = await pop(database, Want([place], "a"), Want([place], "b"))
    # Rows name their request; their order is not promised.
    assert sorted((row.request, row.data) for row in _granted(rows)) == [(1, [1]), (2, [1])]


async def test_pop_skips_a_row_that_another_session_holds(
    database: asyncpg.Connection, connect: Connect
) -> None:
    holder = await connect()
    held, free = await ensure(database, unique(), "held", "free")
    await push_all(database, held, "held")
    await push_all(database, free, "free")
    for place in (held, free):
        await release(database, await pop_one(database, place))
    async with holder.transaction():
        await holder.execute(
            "SELECT FROM queen.partition_consumers WHERE partition_id = $1 FOR UPDATE", held
        )
        rows = await pop(database, Want([held]), Want([free]))
        assert [(row.request, row.data) for row in rows] == [(2, ["free"])]
    assert (await pop_one(database, held)).data == ["held"]


async def test_uncommitted_lease_is_not_given_a_second_time(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    await release(database, await pop_one(database, place))
    opened = first.transaction()
    await opened.start()
    assert (await pop_one(first, place)).data == [1]
    assert await pop(second, Want([place])) == []
    await opened.commit()
    assert (await pop_one(second, place)).outcome == "held"


async def test_first_pops_of_a_group_in_two_sessions_have_one_winner(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    opened = first.transaction()
    await opened.start()
    assert (await pop_one(first, place, "fresh")).data == [1]
    # There is no row to skip yet; still the second session does not wait for the first one's end.
    assert _granted(await pop(second, Want([place], "fresh"))) == []
    await opened.commit()
    assert _granted(await pop(second, Want([place], "fresh"))) == []


async def test_lease_of_a_rolled_back_pop_is_free_again(
    database: asyncpg.Connection, connect: Connect
) -> None:
    session = await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    opened = session.transaction()
    await opened.start()
    await pop_one(session, place)
    await opened.rollback()
    assert (await pop_one(database, place)).data == [1]


async def test_killed_backend_between_lease_and_commit_leaves_no_lease(
    database: asyncpg.Connection, connect: Connect
) -> None:
    session = await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    await release(database, await pop_one(database, place))
    opened = session.transaction()
    await opened.start()
    await pop_one(session, place)
    pid = session.get_server_pid()
    await database.fetchval("SELECT pg_terminate_backend($1, 5000)", pid)
    assert (await pop_one(database, place)).data == [1]


async def test_two_wildcards_over_two_partitions_both_get_messages_every_time(
    database: asyncpg.Connection, connect: Connect
) -> None:
    sessions = [await connect() for _ in range(2)]
    places = await ensure(database, unique(), "a", "b")
    rounds = 100
    for place in places:
        await push_all(database, place, *range(rounds))
    for turn in range(rounds):
        # One call per session with both partitions in opposite order, as two resolvers might say.
        answers = await asyncio.gather(
            pop(sessions[0], Want(places, batch=1)),
            pop(sessions[1], Want(places[::-1], batch=1)),
        )
        got = [row for rows in answers for row in _granted(rows)]
        pairs = [row.partition_id for row in got]
        assert len(set(pairs)) == len(pairs)
        # A session may have found a row locked just then; another try must find what is left.
        if len(got) < 2:
            got += _granted(await pop(database, Want(places, batch=1)))
        assert sorted(row.partition_id for row in got) == sorted(places)
        assert all(row.data == [turn] for row in got)
        await ack(database, *(one for row in got for one in acks_of(row)))


async def test_many_sessions_popping_the_same_partitions_never_lease_one_twice(
    database: asyncpg.Connection, connect: Connect
) -> None:
    places = await ensure(database, unique(), *(f"p{number}" for number in range(50)))
    sessions = [await connect() for _ in range(6)]
    for place in places:
        await push_all(database, place, 1)
    for _ in range(5):
        answers = await asyncio.gather(
            *(
                pop(session, *(Want([place]) for place in (places if n % 2 else places[::-1])))
                for n, session in enumerate(sessions)
            )
        )
        won = [row for rows in answers for row in _granted(rows)]
        assert len({row.partition_id for row in won}) == len(won)
        assert len({row.lease_id for row in won}) == len(won)
        for row in won:
            assert await release(database, row) == 1


async def test_expired_lease_is_taken_over_and_the_old_one_is_refused(
    database: asyncpg.Connection, connect: Connect
) -> None:
    old_owner, new_owner = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1, 2)
    old = await pop_one(old_owner, place)
    await expire(database, place)
    new = await pop_one(new_owner, place)
    assert new.data == [1, 2] and new.lease_id != old.lease_id
    assert [row["success"] for row in await ack(old_owner, *acks_of(old))] == [False, False]
    assert (await renew(old_owner, old.lease_id))["renewed"] == 0
    assert await release(old_owner, old) == 0
    row = await cursor(database, place)
    assert row["cursor_seq"] == 0 and row["is_leased"] and row["lease_id"] == new.lease_id
    assert all(row["success"] for row in await ack(new_owner, *acks_of(new)))


async def test_expired_lease_that_nobody_took_is_refused_as_well(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    old = await pop_one(database, place)
    await expire(database, place)
    (result,) = await ack(database, *acks_of(old))
    assert not result["success"]
    assert (await renew(database, old.lease_id))["renewed"] == 0
    assert (await pop_one(database, place)).data == [1]


async def test_lease_that_an_auto_ack_took_over_is_refused(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    old = await pop_one(database, place)
    await expire(database, place)
    assert (await pop_one(database, place, auto_ack=True)).data == [1]
    (result,) = await ack(database, *acks_of(old, status="failed"))
    assert not result["success"]
    renewed = await renew(database, old.lease_id)
    assert renewed["renewed"] == 0
    (result,) = await ack(database, *acks_of(old))
    assert not result["success"], "the message was delivered to somebody else meanwhile"


async def test_lease_over_several_partitions_is_renewed_and_ends_as_one(
    database: asyncpg.Connection,
) -> None:
    places = await ensure(database, unique(), "a", "b", "c")
    for place in places:
        await push_all(database, place, 1)
    rows = _granted(await pop(database, Want(places, batch=10)))
    assert len(rows) == 3 and len({row.lease_id for row in rows}) == 1
    lease = rows[0].lease_id
    assert lease is not None
    assert (await renew(database, lease, 600))["renewed"] == 3
    await expire(database, places[1])
    assert (await renew(database, lease, 600))["renewed"] == 2
    # A leased partition that another group asks for is that group's own business.
    assert (await pop_one(database, places[0], "other")).data == [1]


async def test_release_by_a_stranger_changes_nothing(database: asyncpg.Connection) -> None:
    place, other = await ensure(database, unique(), "a", "b")
    await push_all(database, place, 1)
    await push_all(database, other, 1)
    mine, theirs = await pop_one(database, place), await pop_one(database, other)
    assert await release(database, mine._replace(lease_id=theirs.lease_id)) == 0
    assert (await cursor(database, place))["is_leased"]


async def test_ack_for_another_group_does_not_touch_the_lease(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    mine = await pop_one(database, place, "mine")
    (result,) = await ack(
        database, Ack(place, mine.messages[0]["transactionId"], mine.lease_id, group="theirs")
    )
    assert not result["success"]
    assert (await cursor(database, place, "mine"))["is_leased"]


async def test_cursors_and_leases_that_another_transaction_holds_are_found(
    database: asyncpg.Connection, connect: Connect
) -> None:
    holder = await connect()
    held, free = await ensure(database, unique(), "held", "free")
    await push_all(database, held, 1)
    await push_all(database, free, 1)
    leases = {place: (await pop_one(database, place)).lease_id for place in (held, free)}
    find_cursors = "SELECT partition_id FROM queen.find_busy_cursors($1, $2)"
    find_leases = "SELECT queen.find_busy_leases($1)"
    places, groups = [held, free], [QUEUE_MODE, QUEUE_MODE]
    async with holder.transaction():
        await renew(holder, leases[held])
        rows = await database.fetch(find_cursors, places, groups)
        assert [row["partition_id"] for row in rows] == [held]
        assert await database.fetchval(find_leases, list(leases.values())) == [leases[held]]
    assert await database.fetch(find_cursors, places, groups) == []
    assert await database.fetchval(find_leases, list(leases.values())) == []


async def test_leases_renewed_together_are_answered_each_in_its_place(
    database: asyncpg.Connection,
) -> None:
    live, late = await ensure(database, unique(), "live", "late")
    for place in (live, late):
        await push_all(database, place, 1)
    leases = [(await pop_one(database, place)).lease_id for place in (live, late)]
    await expire(database, late)
    unknown = new_lease_id(live)
    asked = [leases[1], leases[0], unknown, leases[0]]
    rows = await database.fetch(
        "SELECT * FROM queen.renew_leases($1, $2, NULL)", asked, [60, 60, 60, 900]
    )
    assert [(row["ordinal"], row["renewed"], row["was_known"]) for row in rows] == [
        (1, 0, True),
        (2, 1, True),
        (3, 0, False),
        (4, 1, True),
    ]
    # The longest of several wishes counts.
    left = await database.fetchval(
        "SELECT lease_expires_at > now() + interval '800 seconds' FROM queen.partition_consumers"
        " WHERE partition_id = $1",
        live,
    )
    assert left
