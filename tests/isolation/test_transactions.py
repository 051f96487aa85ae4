"""commit_transaction: all or nothing, and in which order it locks."""

from __future__ import annotations

import asyncio
import random
from uuid import UUID

import asyncpg
import pytest

from tests.isolation.sessions import (
    Ack,
    Connect,
    Item,
    ack,
    acks_of,
    cursor,
    ensure,
    expire,
    pop_one,
    push,
    push_all,
    seqs,
    start_blocked,
    transaction,
)
from tests.support.broker import unique

_PLACES = 12


async def _refusal(call: object) -> str:
    with pytest.raises(asyncpg.PostgresError) as refusal:
        await call  # type: ignore[misc]
    return refusal.value.sqlstate or ""


async def test_push_and_ack_become_visible_together(
    database: asyncpg.Connection, connect: Connect
) -> None:
    session = await connect()
    source, target = await ensure(database, unique(), "source", "target")
    await push_all(database, source, "in")
    popped = await pop_one(database, source)
    opened = session.transaction()
    await opened.start()
    await transaction(session, items=[Item(target, "out")], acks=acks_of(popped))
    assert (await pop_one(database, target)).outcome == "none"
    assert (await cursor(database, source))["cursor_seq"] == 0
    await opened.commit()
    assert (await pop_one(database, target)).data == ["out"]
    assert (await cursor(database, source))["cursor_seq"] == 1


@pytest.mark.parametrize("broken", ["stale lease", "unknown message", "duplicate", "retry"])
async def test_one_refused_part_undoes_all(database: asyncpg.Connection, broken: str) -> None:
    source, target = await ensure(database, unique(), "source", "target")
    await push_all(database, source, 1, 2)
    popped = await pop_one(database, source)
    acks = acks_of(popped)
    items = [Item(target, "out", "given")]
    expected = "QN010"
    if broken == "stale lease":
        acks[1] = acks[1]._replace(lease_id=UUID(int=7))
    elif broken == "unknown message":
        acks.append(Ack(source, "nobody", popped.lease_id))
    elif broken == "retry":
        acks[1] = acks[1]._replace(status="retry")
    else:
        await push(database, Item(target, "earlier", "given"))
        expected = "QN012"
    before = await seqs(database, target)
    assert await _refusal(transaction(database, items=items, acks=acks)) == expected
    assert await seqs(database, target) == before
    row = await cursor(database, source)
    assert row["cursor_seq"] == 0 and row["is_leased"]


async def test_live_required_lease_is_enough_without_an_ack(database: asyncpg.Connection) -> None:
    source, target = await ensure(database, unique(), "source", "target")
    await push_all(database, source, 1)
    popped = await pop_one(database, source)
    await transaction(database, items=[Item(target, 1)], leases=[popped.lease_id])
    assert await seqs(database, target) == [1]


@pytest.mark.parametrize("end", ["expired", "taken over", "auto-acked by another", "unknown"])
async def test_lost_required_lease_refuses_the_transaction(
    database: asyncpg.Connection, end: str
) -> None:
    source, target = await ensure(database, unique(), "source", "target")
    await push_all(database, source, 1)
    lease = (await pop_one(database, source)).lease_id
    await expire(database, source)
    if end == "taken over":
        await pop_one(database, source)
    elif end == "auto-acked by another":
        assert (await pop_one(database, source, auto_ack=True)).data == [1]
    elif end == "unknown":
        lease = UUID(int=7)
    call = transaction(database, items=[Item(target, 1)], leases=[lease])
    assert await _refusal(call) == "QN011"
    assert await seqs(database, target) == []


async def test_required_lease_whose_message_was_buried_as_poison_is_lost(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    source, target = await ensure(database, queue, "source", "target")
    await database.execute("UPDATE queen.queues SET retry_limit = 1 WHERE name = $1", queue)
    await push_all(database, source, 1)
    for _ in range(2):
        lease = (await pop_one(database, source)).lease_id
        await expire(database, source)
    assert (await pop_one(database, source)).outcome == "again"
    assert await database.fetchval("SELECT count(*) FROM queen.dead_letter_queue") == 1
    call = transaction(database, items=[Item(target, 1)], leases=[lease])
    assert await _refusal(call) == "QN011"


async def test_take_over_waits_until_a_transaction_with_the_lease_has_ended(
    database: asyncpg.Connection, connect: Connect
) -> None:
    worker, acker = await connect(), await connect()
    source, target = await ensure(database, unique(), "source", "target")
    await push_all(database, source, 1)
    popped = await pop_one(database, source)
    opened = worker.transaction()
    await opened.start()
    await transaction(
        worker, items=[Item(target, 1)], acks=acks_of(popped), leases=[popped.lease_id]
    )
    waiting = await start_blocked(database, acker, ack(acker, *acks_of(popped, status="failed")))
    await opened.commit()
    assert not (await waiting)[0]["success"]
    assert (await pop_one(database, source)).outcome == "none"


async def test_transaction_waits_for_a_push_in_flight_and_keeps_the_order(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer, worker = await connect(), await connect()
    source, target = await ensure(database, unique(), "source", "target")
    await push_all(database, source, 1)
    popped = await pop_one(database, source)
    opened = producer.transaction()
    await opened.start()
    await push_all(producer, target, "first")
    waiting = await start_blocked(
        database, worker, transaction(worker, items=[Item(target, "second")], acks=acks_of(popped))
    )
    await opened.commit()
    await waiting
    assert (await pop_one(database, target)).data == ["first", "second"]


async def test_transaction_that_gives_up_waiting_changes_nothing(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer = await connect()
    source, target = await ensure(database, unique(), "source", "target")
    await push_all(database, source, 1)
    popped = await pop_one(database, source)
    async with producer.transaction():
        await push_all(producer, target, "first")
        call = transaction(
            database, items=[Item(target, 2)], acks=acks_of(popped), lock_timeout_ms=20
        )
        assert await _refusal(call) == "55P03"
    assert (await cursor(database, source))["is_leased"]
    assert await seqs(database, target) == [1]


async def test_transactions_pushes_and_acks_over_the_same_partitions_never_deadlock(
    database: asyncpg.Connection, connect: Connect
) -> None:
    places = await ensure(database, unique(), *(f"p{number}" for number in range(_PLACES)))
    rounds = 25
    for place in places:
        await push_all(database, place, *range(rounds))
    popped = {place: await pop_one(database, place, batch=rounds) for place in places}
    sessions = [await connect() for _ in range(6)]

    async def work(session: asyncpg.Connection, number: int) -> None:
        chance = random.Random(number)
        for turn in range(rounds):
            some = chance.sample(places, 6)
            items = [Item(place, [number, turn]) for place in some]
            acks = [acks_of(popped[place])[turn] for place in reversed(some)]
            kind = number % 3
            if kind == 0:
                await push(session, *items)
            elif kind == 1:
                await ack(session, *acks)
            else:
                leases = [popped[place].lease_id for place in chance.sample(places, 3)]
                await transaction(session, items=items, acks=acks, leases=leases)

    await asyncio.gather(*(work(session, n) for n, session in enumerate(sessions)))
    for place in places:
        numbers = await seqs(database, place)
        assert numbers == list(range(1, len(numbers) + 1))


async def test_transaction_and_ack_that_both_create_a_cursor_never_deadlock(
    database: asyncpg.Connection, connect: Connect
) -> None:
    """One pair has a cursor, the other not: its creator must not hold what the other needs."""
    worker, acker, holder = await connect(), await connect(), await connect()
    known, fresh, target = sorted(await ensure(database, unique(), "a", "b", "c"))
    ids = [(await push_all(database, place, 1)).message_ids[0] for place in (known, fresh)]
    await pop_one(database, known)
    acks = [Ack(known, ids[0]), Ack(fresh, ids[1])]
    blocker = holder.transaction()
    await blocker.start()
    await push_all(holder, target, "holds the lookup row")
    # The transaction waits for the lookup row of `target`.
    first = await start_blocked(
        database, worker, transaction(worker, items=[Item(target, 1)], acks=acks)
    )
    # The ack creates the cursor of `fresh`, which the transaction needs, too.
    second = asyncio.create_task(ack(acker, *acks))
    await blocker.commit()
    await first
    assert [row["success"] for row in await second] == [True, True]


@pytest.mark.parametrize("removal", ["SELECT queen.clear_queue($1, NULL)",
                                     "SELECT queen.delete_queue($1)"],
                         ids=["clear", "delete"])  # fmt: skip
async def test_transaction_and_removal_of_its_queue_never_deadlock(
    database: asyncpg.Connection, connect: Connect, removal: str
) -> None:
    worker, remover, holder = await connect(), await connect(), await connect()
    queue = unique()
    source, target = sorted(await ensure(database, queue, "source", "target"))
    # Of another queue, and locked before `target`.
    gate = target
    while gate >= target:
        (gate,) = await ensure(database, unique())
    await push_all(database, source, 1)
    popped = await pop_one(database, source)
    blocker = holder.transaction()
    await blocker.start()
    await push_all(holder, gate, "holds the lookup row")
    # The transaction waits at the gate and still needs the lookup row of `target`.
    items = [Item(gate, 1), Item(target, 1)]
    first = await start_blocked(
        database, worker, transaction(worker, items=items, acks=acks_of(popped))
    )
    # The removal needs both, too.
    second = asyncio.create_task(remover.fetchval(removal, queue))
    await blocker.commit()
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert not [one for one in results if isinstance(one, asyncpg.DeadlockDetectedError)]
