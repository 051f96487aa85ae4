"""Consumer groups that are moved or deleted while others push, pop, ack and subscribe."""

from __future__ import annotations

import asyncio
import itertools
import random
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.isolation.sessions import (
    Ack,
    Connect,
    Want,
    ack,
    acks_of,
    cursor,
    ensure,
    pop,
    pop_one,
    push_all,
    renew,
    start_blocked,
)
from tests.support.broker import SOON_S, unique
from tests.support.waiting import wait_until_async

_LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
_SUBSCRIBE = "SELECT queen.subscribe_groups($1, $2, $3, $4)"
_GROUP = "g"


async def _seek(
    session: asyncpg.Connection, queue: str, time: datetime | None = _LONG_AGO
) -> dict[UUID, datetime | None]:
    rows = await session.fetch(
        "SELECT * FROM queen.seek_group($1, $2, NULL, $3)", _GROUP, queue, time
    )
    return dict(row for row in rows)


async def _delete(session: asyncpg.Connection, queue: str, *, start: bool = True) -> int:
    removed: int = await session.fetchval(
        "SELECT queen.delete_group($1, $2, $3)", _GROUP, queue, start
    )
    return removed


async def _drain(session: asyncpg.Connection, place: UUID) -> list[Any]:
    return (await pop_one(session, place, _GROUP, batch=100, auto_ack=True)).data


async def _queue(session: asyncpg.Connection) -> tuple[str, UUID]:
    """A queue of three messages whose group has a cursor before them."""
    queue = unique()
    (place,) = await ensure(session, queue)
    assert (await pop_one(session, place, _GROUP)).outcome == "none"
    await push_all(session, place, 1, 2, 3)
    return queue, place


async def test_seek_waits_for_an_ack_in_flight_and_undoes_it(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, operator = await connect(), await connect()
    queue, place = await _queue(database)
    taken = await pop_one(database, place, _GROUP)
    async with consumer.transaction():
        assert all(row["success"] for row in await ack(consumer, *acks_of(taken, group=_GROUP)))
        waiting = await start_blocked(database, operator, _seek(operator, queue))
    assert list(await waiting) == [place]
    assert await _drain(database, place) == [1, 2, 3]


async def test_seek_waits_for_a_pop_in_flight_and_ends_its_lease(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, operator = await connect(), await connect()
    queue, place = await _queue(database)
    async with consumer.transaction():
        taken = await pop_one(consumer, place, _GROUP, batch=2)
        waiting = await start_blocked(database, operator, _seek(operator, queue))
    await waiting
    results = await ack(database, *acks_of(taken, group=_GROUP))
    assert {row["error"] for row in results} == {"Invalid or expired lease"}
    assert (await renew(database, taken.lease_id))["renewed"] == 0
    assert await _drain(database, place) == [1, 2, 3]


@pytest.mark.parametrize("status", ["completed", "failed", "dlq"])
async def test_ack_that_waited_for_a_seek_is_refused_and_changes_nothing(
    database: asyncpg.Connection, connect: Connect, status: str
) -> None:
    consumer, operator = await connect(), await connect()
    queue, place = await _queue(database)
    taken = await pop_one(database, place, _GROUP)
    acks = acks_of(taken, group=_GROUP, status=status)
    async with operator.transaction():
        await _seek(operator, queue)
        before = await cursor(operator, place, _GROUP)
        waiting = await start_blocked(database, consumer, ack(consumer, *acks))
    assert {row["error"] for row in await waiting} == {"Invalid or expired lease"}
    assert await cursor(database, place, _GROUP) == before
    assert await _drain(database, place) == [1, 2, 3]


async def test_pop_does_not_wait_for_an_open_seek(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, operator = await connect(), await connect()
    queue, place = await _queue(database)
    assert await _drain(database, place) == [1, 2, 3]
    await consumer.execute("SET lock_timeout = '2s'")
    async with operator.transaction():
        await _seek(operator, queue)
        assert await pop(consumer, Want([place], _GROUP)) == []
    assert await _drain(consumer, place) == [1, 2, 3]


async def test_push_does_not_wait_for_an_open_seek_to_the_end_and_is_not_passed_by_it(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer, operator = await connect(), await connect()
    queue, place = await _queue(database)
    await producer.execute("SET lock_timeout = '2s'")
    async with operator.transaction():
        await _seek(operator, queue, None)
        await push_all(producer, place, 4)
        await producer.fetchval("SELECT queen.push($1, '5')", queue)
    assert await _drain(database, place) == [4, 5]


async def test_message_of_an_open_push_is_not_passed_by_a_seek_to_the_end(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer = await connect()
    queue, place = await _queue(database)
    async with producer.transaction():
        await push_all(producer, place, 4)
        await _seek(database, queue, None)
        await _seek(database, queue, datetime(2100, 1, 1, tzinfo=UTC))
    assert await _drain(database, place) == [4]


async def _look_up(session: asyncpg.Connection, queue: str, horizon: str | None) -> asyncpg.Record:
    """A look-up that begins at a horizon and knows of no partition."""
    nothing = [None]
    row = await session.fetchrow(
        "SELECT partition_ids, horizon FROM queen.pop_sm_resolve("
        "$1, $2, $2, $2, $3, $4::text[]::xid8[], '{}', '{0}', 1000, 60000, NULL)",
        [queue],
        nothing,
        [_GROUP],
        [horizon],
    )
    assert row is not None
    return row


@pytest.mark.parametrize("change", [_seek, _delete], ids=["seek", "delete"])
async def test_look_up_from_a_horizon_of_before_or_during_the_change_finds_the_old_messages(
    database: asyncpg.Connection, connect: Connect, change: Any
) -> None:
    operator, other = await connect(), await connect()
    queue, place = await _queue(database)
    await _drain(database, place)
    before = (await _look_up(database, queue, None))["horizon"]
    assert (await _look_up(database, queue, before))["partition_ids"] == []
    async with operator.transaction():
        await change(operator, queue)
        # Later transactions move the horizon of whoever does not see this one.
        await other.fetchval("SELECT queen.push($1, '1')", unique())
        during = await _look_up(database, queue, before)
        assert during["partition_ids"] == []
    for horizon in (before, during["horizon"]):
        assert (await _look_up(database, queue, horizon))["partition_ids"] == [place]


# Delete.


async def test_delete_waits_for_a_cursor_that_is_being_created_and_removes_it(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, operator = await connect(), await connect()
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, 1, 2, 3)
    future = datetime(2100, 1, 1, tzinfo=UTC)
    await database.execute(_SUBSCRIBE, [queue], [""], [_GROUP], [future])
    async with consumer.transaction():
        assert (await pop_one(consumer, place, _GROUP)).outcome == "none"
        waiting = await start_blocked(database, operator, _delete(operator, queue))
    assert await waiting == 1
    assert await _drain(database, place) == [1, 2, 3]


async def test_pop_during_an_open_delete_neither_waits_nor_makes_a_cursor(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, operator = await connect(), await connect()
    queue, place = await _queue(database)
    (other,) = await ensure(database, queue, "other")
    await push_all(database, other, 4)
    await consumer.execute("SET lock_timeout = '2s'")
    async with operator.transaction():
        assert await _delete(operator, queue) == 1
        assert await pop(consumer, Want([place, other], _GROUP)) == []
    assert await _drain(consumer, place) == [1, 2, 3]
    assert await _drain(consumer, other) == [4]


async def test_group_that_subscribes_during_a_delete_starts_with_what_is_new(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, operator = await connect(), await connect()
    queue, place = await _queue(database)
    subscribe = (_SUBSCRIBE, [queue], [""], [_GROUP], [None])
    await database.execute(*subscribe)
    async with operator.transaction():
        await _delete(operator, queue)
        waiting = await start_blocked(database, consumer, consumer.execute(*subscribe))
    await waiting
    await push_all(database, place, 4)
    assert await _drain(database, place) == [4]


async def test_ack_under_a_lease_of_a_deleted_group_leaves_no_cursor_behind(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, operator = await connect(), await connect()
    queue = unique()
    places = await ensure(database, queue, "a", "b")
    for place in places:
        await push_all(database, place, 1)
    taken = await pop(database, Want(places, _GROUP))
    acks = [one for popped in taken for one in acks_of(popped, group=_GROUP)]
    async with operator.transaction():
        assert await _delete(operator, queue) == 2
        waiting = await start_blocked(database, consumer, ack(consumer, *acks))
    for results in (await waiting, await ack(database, *acks)):
        assert {row["error"] for row in results} == {"Invalid or expired lease"}
    assert await database.fetchval("SELECT count(*) FROM queen.partition_consumers") == 0


async def test_ack_without_a_lease_still_makes_its_cursor(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    pushed = await push_all(database, place, 1, 2)
    (result,) = await ack(database, Ack(place, pushed.message_ids[0], group=_GROUP))
    assert result["success"]
    assert await _drain(database, place) == [2]


# Everything at once.


class _Story:
    """The deliveries and leases of a group that is moved back again and again."""

    def __init__(self, places: list[UUID]) -> None:
        self.places = places
        self.pushed: set[int] = set()
        self.got: list[tuple[int, UUID]] = []
        self.is_over = False
        self._numbers = itertools.count()

    async def produce(self, session: asyncpg.Connection, chance: random.Random) -> None:
        for _ in range(120):
            number = next(self._numbers)
            await push_all(session, chance.choice(self.places), number)
            self.pushed.add(number)

    async def consume(self, session: asyncpg.Connection, chance: random.Random) -> None:
        while not self.is_over:
            places = chance.sample(self.places, len(self.places))
            for one in await pop(session, Want(places, _GROUP, batch=chance.randint(1, 5))):
                if one.lease_id is not None:
                    self.got += [(number, one.lease_id) for number in one.data]
                    await ack(session, *acks_of(one, group=_GROUP))

    async def move_back(self, session: asyncpg.Connection, queue: str) -> None:
        """Come back when everything was delivered again under leases of after the seek."""
        async with session.transaction():
            mark = len(self.got)
            rows = await session.fetch(
                "SELECT lease_id FROM queen.partition_consumers WHERE consumer_group = $1"
                " ORDER BY partition_id FOR UPDATE",
                _GROUP,
            )
            before = {row["lease_id"] for row in rows}
            assert len(await _seek(session, queue)) == len(self.places)

        def missing() -> set[int]:
            return self.pushed - {
                number for number, lease in self.got[mark:] if lease not in before
            }

        await wait_until_async(
            lambda: not missing(), timeout_s=SOON_S, what="the group to get everything again"
        )


async def test_nothing_is_skipped_after_a_seek_back_beside_pushes_pops_and_acks(
    database: asyncpg.Connection, connect: Connect
) -> None:
    queue = unique()
    story = _Story(await ensure(database, queue, *"abc"))
    for place in story.places:
        await pop_one(database, place, _GROUP)
    chance = random.Random(7)
    consumers = [asyncio.create_task(story.consume(await connect(), chance)) for _ in range(3)]
    producer = asyncio.create_task(story.produce(await connect(), chance))
    for _ in range(6):
        await story.move_back(database, queue)
    await producer
    await story.move_back(database, queue)
    story.is_over = True
    await asyncio.gather(*consumers)
    assert len(story.pushed) == 120
