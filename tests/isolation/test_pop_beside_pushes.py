"""A push in flight holds its partition's row, and nothing that consumers do waits for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg

from tests.isolation.sessions import (
    Connect,
    ack,
    acks_of,
    ensure,
    pop_one,
    push_all,
    release,
    renew,
)
from tests.support.broker import unique


@asynccontextmanager
async def _push_in_flight(session: asyncpg.Connection, place: UUID) -> AsyncIterator[None]:
    async with session.transaction():
        await push_all(session, place, "in flight")
        yield


async def _consumer(connect: Connect) -> asyncpg.Connection:
    """A session that fails where it would have to wait."""
    session = await connect()
    await session.execute("SET lock_timeout = '2s'")
    return session


async def test_pop_ack_renewal_and_hand_back_go_on_beside_a_push_in_flight(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer, consumer = await connect(), await _consumer(connect)
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1, 2, 3)
    await release(database, await pop_one(database, place))
    async with _push_in_flight(producer, place):
        first = await pop_one(consumer, place, batch=1)
        assert first.data == [1] and first.lease_id is not None
        assert (await renew(consumer, first.lease_id))["renewed"] == 1
        assert (await ack(consumer, *acks_of(first)))[0]["success"]
        second = await pop_one(consumer, place, batch=1)
        assert second.data == [2] and await release(consumer, second) == 1
        # What is not committed yet is not there yet, and is not passed over either.
        assert (await pop_one(consumer, place, auto_ack=True)).data == [2, 3]
        assert (await pop_one(consumer, place)).outcome == "none"
    assert (await pop_one(consumer, place)).data == ["in flight"]


async def test_first_pop_of_a_group_goes_on_beside_a_push_in_flight(
    database: asyncpg.Connection, connect: Connect
) -> None:
    producer, consumer = await connect(), await _consumer(connect)
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    async with _push_in_flight(producer, place):
        popped = await pop_one(consumer, place, "fresh")
        assert popped.data == [1]
        assert (await ack(consumer, *acks_of(popped, group="fresh")))[0]["success"]
    assert (await pop_one(consumer, place, "fresh")).data == ["in flight"]


async def test_push_goes_on_beside_a_pop_in_flight(
    database: asyncpg.Connection, connect: Connect
) -> None:
    consumer, producer = await connect(), await _consumer(connect)
    (place,) = await ensure(database, unique())
    await push_all(database, place, 1)
    async with consumer.transaction():
        popped = await pop_one(consumer, place, "fresh")
        assert popped.data == [1]
        assert (await push_all(producer, place, 2)).outcomes == "q"
        await ack(consumer, *acks_of(popped, group="fresh"))
        assert (await push_all(producer, place, 3)).outcomes == "q"
    assert (await pop_one(database, place, "fresh")).data == [2, 3]
