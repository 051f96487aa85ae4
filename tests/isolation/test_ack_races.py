"""Acks against pops, renewals, other acks and hand-backs of the same lease."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import asyncpg

from tests.isolation.sessions import (
    Ack,
    Connect,
    Want,
    ack,
    ack_completed,
    acks_of,
    cursor,
    ensure,
    expire,
    pop,
    pop_one,
    push_all,
    release,
    renew,
    start_blocked,
)
from tests.support.broker import unique


async def test_ack_waits_for_a_take_over_and_is_then_refused(
    database: asyncpg.Connection, connect: Connect
) -> None:
    slow, quick = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    old = await pop_one(slow, place)
    await expire(database, place)
    opened = quick.transaction()
    await opened.start()
    new = await pop_one(quick, place)
    waiting = await start_blocked(database, slow, ack(slow, *acks_of(old)))
    await opened.commit()
    assert [row["success"] for row in await waiting] == [False]
    row = await cursor(database, place)
    assert row["cursor_seq"] == 0 and row["lease_id"] == new.lease_id


async def test_ack_in_an_open_transaction_is_not_overtaken_by_a_pop(
    database: asyncpg.Connection, connect: Connect
) -> None:
    acker = await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1, 2)
    popped = await pop_one(database, place, batch=1)
    opened = acker.transaction()
    await opened.start()
    assert (await ack(acker, *acks_of(popped)))[0]["lease_released"]
    assert await pop(database, Want([place])) == []
    await opened.commit()
    assert (await pop_one(database, place)).data == [2]


async def test_rolled_back_ack_changes_nothing(
    database: asyncpg.Connection, connect: Connect
) -> None:
    acker = await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    popped = await pop_one(database, place)
    opened = acker.transaction()
    await opened.start()
    await ack(acker, *acks_of(popped, status="dlq"))
    await opened.rollback()
    assert not await database.fetchval("SELECT count(*) FROM queen.dead_letter_queue")
    assert [row["success"] for row in await ack(database, *acks_of(popped))] == [True]


async def test_second_ack_of_one_message_waits_and_changes_nothing(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1, 2)
    popped = await pop_one(database, place)
    one = acks_of(popped)[0]
    opened = first.transaction()
    await opened.start()
    await ack(first, one)
    waiting = await start_blocked(database, second, ack(second, one))
    await opened.commit()
    assert [row["success"] for row in await waiting] == [True]
    row = await cursor(database, place)
    assert (row["cursor_seq"], row["total_consumed"]) == (1, 1)


async def test_failed_ack_and_late_completed_ack_of_one_lease_do_not_both_count(
    database: asyncpg.Connection, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    popped = await pop_one(database, place)
    opened = first.transaction()
    await opened.start()
    await ack(first, *acks_of(popped, status="failed"))
    waiting = await start_blocked(database, second, ack(second, *acks_of(popped)))
    await opened.commit()
    assert [row["success"] for row in await waiting] == [False]
    again = await pop_one(database, place)
    assert again.data == [1] and again.messages[0]["retryCount"] == 1


async def test_renewal_waits_for_the_ack_that_ends_the_lease(
    database: asyncpg.Connection, connect: Connect
) -> None:
    acker, renewer = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    popped = await pop_one(database, place)
    opened = acker.transaction()
    await opened.start()
    await ack(acker, *acks_of(popped))
    waiting = await start_blocked(database, renewer, renew(renewer, popped.lease_id))
    await opened.commit()
    renewed = await waiting
    assert renewed["renewed"] == 0 and renewed["was_known"]
    assert not (await cursor(database, place))["is_leased"]


async def test_renewed_lease_is_not_taken_over(
    database: asyncpg.Connection, connect: Connect
) -> None:
    renewer = await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    popped = await pop_one(database, place)
    opened = renewer.transaction()
    await opened.start()
    assert (await renew(renewer, popped.lease_id, 3600))["renewed"] == 1
    assert await pop(database, Want([place])) == []
    await opened.commit()
    assert (await pop_one(database, place)).outcome == "held"


async def test_renewal_of_a_lease_being_taken_over_is_refused(
    database: asyncpg.Connection, connect: Connect
) -> None:
    taker, renewer = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    old = await pop_one(database, place)
    await expire(database, place)
    opened = taker.transaction()
    await opened.start()
    new = await pop_one(taker, place)
    waiting = await start_blocked(database, renewer, renew(renewer, old.lease_id))
    await opened.commit()
    assert (await waiting)["renewed"] == 0
    assert (await cursor(database, place))["lease_id"] == new.lease_id


async def test_renewal_never_shortens_a_lease(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    popped = await pop_one(database, place)
    before = (await cursor(database, place))["lease_expires_at"]
    assert (await renew(database, popped.lease_id, 1))["expires_at"] == before


async def test_hand_back_after_an_ack_does_not_undo_it(
    database: asyncpg.Connection, connect: Connect
) -> None:
    acker, returner = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1, 2, 3)
    popped = await pop_one(database, place, batch=2)
    opened = acker.transaction()
    await opened.start()
    await ack(acker, acks_of(popped)[0])
    waiting = await start_blocked(database, returner, release(returner, popped))
    await opened.commit()
    assert await waiting == 1
    assert (await pop_one(database, place)).data == [2, 3]


async def test_acks_of_many_pairs_in_opposite_order_never_deadlock(
    database: asyncpg.Connection, connect: Connect
) -> None:
    sessions = [await connect() for _ in range(4)]
    places = await ensure(database, unique(), *(f"p{number}" for number in range(40)))
    for place in places:
        await push_all(database, place, *range(5))
    popped = [await pop_one(database, place) for place in places]
    acks = [[acks_of(one)[turn] for one in popped] for turn in range(5)]

    async def settle(session: asyncpg.Connection, number: int) -> None:
        chance = random.Random(number)
        for batch in acks:
            for one in await ack(session, *chance.sample(batch, len(batch))):
                assert one["success"], one["error"]

    await asyncio.gather(*(settle(session, n) for n, session in enumerate(sessions)))
    for place in places:
        row = await cursor(database, place)
        assert (row["cursor_seq"], row["total_consumed"], row["is_leased"]) == (5, 5, False)


async def test_pops_acks_renewals_and_hand_backs_at_random_deliver_in_order_without_deadlock(
    database: asyncpg.Connection, connect: Connect
) -> None:
    places = await ensure(database, unique(), *(f"p{number}" for number in range(5)))
    count = 40
    for place in places:
        await push_all(database, place, *range(count))
    passed: dict[object, list[int]] = {place: [] for place in places}

    async def consume(session: asyncpg.Connection, number: int) -> None:
        chance = random.Random(number)
        while any(len(done) < count for done in passed.values()):
            wants = [Want([place], batch=5) for place in chance.sample(places, 3)]
            for row in await pop(session, *wants):
                if row.outcome != "granted":
                    continue
                what = chance.random()
                if what < 0.2:
                    assert await release(session, row) == 1
                    continue
                if what < 0.4:
                    assert (await renew(session, row.lease_id))["renewed"] == 1
                status = "retry" if what > 0.9 else "completed"
                if status == "completed":
                    passed[row.partition_id].extend(row.data)
                results = await ack(session, *acks_of(row, status=status))
                assert all(one["success"] or status == "retry" for one in results)

    sessions = [await connect() for _ in range(5)]
    await asyncio.gather(*(consume(session, n) for n, session in enumerate(sessions)))
    for place in places:
        assert passed[place] == list(range(count))


async def test_ack_of_an_unknown_message_or_partition_harms_no_other_ack(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, unique())
    (elsewhere,) = await ensure(database, unique())
    await database.execute("SELECT queen.delete_queue(name) FROM queen.queues q"
                           " WHERE EXISTS (SELECT FROM queen.partitions p WHERE p.queue_id = q.id"
                           " AND p.id = $1)", elsewhere)  # fmt: skip
    await push_all(database, place, 1)
    popped = await pop_one(database, place)
    results = await ack(database, Ack(elsewhere, "x"), Ack(place, "no such id"), *acks_of(popped))
    assert [row["success"] for row in results] == [False, False, True]


async def test_completed_lease_waits_for_a_take_over_and_is_then_refused(
    database: asyncpg.Connection, connect: Connect
) -> None:
    slow, quick = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    old = await pop_one(slow, place)
    await expire(database, place)
    opened = quick.transaction()
    await opened.start()
    new = await pop_one(quick, place)
    waiting = await start_blocked(database, slow, ack_completed(slow, acks_of(old)))
    await opened.commit()
    assert [row["error"] for row in await waiting] == ["Invalid or expired lease"]
    row = await cursor(database, place)
    assert row is not None and (row["cursor_seq"], row["lease_id"]) == (0, new.lease_id)


async def test_completed_lease_waits_for_the_removal_of_one_of_its_messages(
    database: asyncpg.Connection, connect: Connect
) -> None:
    acker, remover = await connect(), await connect()
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1, 2, 3)
    popped = await pop_one(database, place)
    middle = popped.messages[1]["transactionId"]
    opened = remover.transaction()
    await opened.start()
    await remover.fetch("SELECT * FROM queen.delete_message($1, $2, 1000)", place, middle)
    waiting = await start_blocked(database, acker, ack_completed(acker, acks_of(popped)))
    await opened.commit()
    errors = [row["error"] for row in await waiting]
    assert errors == [None, "Message not found", None]
    row = await cursor(database, place)
    assert row is not None and (row["cursor_seq"], row["is_leased"]) == (3, False)


async def test_completed_leases_of_many_sessions_never_wait_in_a_circle(
    database: asyncpg.Connection, connect: Connect
) -> None:
    places = await ensure(database, unique(), *(f"p{number}" for number in range(8)))
    sessions = [await connect() for _ in range(4)]
    for turn in range(10):
        for place in places:
            await push_all(database, place, turn)
        rows = await pop(database, *(Want([place]) for place in places))
        leases = [acks_of(row) for row in rows]

        async def settle(
            number: int, session: asyncpg.Connection, leases: list[list[Ack]] = leases
        ) -> list[Any]:
            mine = list(leases)
            random.Random(number).shuffle(mine)
            return await ack_completed(session, *mine)

        answers = await asyncio.gather(*(settle(*one) for one in enumerate(sessions, turn)))
        assert all(row["success"] for answer in answers for row in answer)
        for place in places:
            row = await cursor(database, place)
            assert row is not None and (row["cursor_seq"], row["total_consumed"]) == (
                turn + 1,
                turn + 1,
            )
