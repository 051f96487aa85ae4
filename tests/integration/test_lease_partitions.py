"""Leases over several partitions: found as long as they mean anything, and not kept longer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from queenmq.services.janitor import LeaseSweep
from queenmq.settings import load
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.admin import AdminStore
from tests.isolation.sessions import (
    Popped,
    Want,
    ack,
    acks_of,
    ensure,
    expire,
    pop,
    push_all,
    renew,
    transaction,
)
from tests.support.broker import unique

_COUNT = "SELECT count(*) FROM queen.lease_partitions"


@pytest.fixture
async def sweep(database_url: str) -> AsyncIterator[LeaseSweep]:
    pool = Database(database_url, load({}))
    await pool.open()
    yield LeaseSweep(AdminStore(pool))
    await pool.close()


async def _filled(
    database: asyncpg.Connection, *names: str, queue: str | None = None
) -> list[UUID]:
    places = await ensure(database, queue or unique(), *names)
    for place in places:
        await push_all(database, place, 1, 2)
    return places


async def _lease(database: asyncpg.Connection, places: list[UUID], batch: int) -> list[Popped]:
    popped = await pop(database, Want(places, batch=batch))
    return [one for one in popped if one.outcome == "granted"]


def _lease_id(popped: list[Popped]) -> UUID:
    (lease_id,) = {one.lease_id for one in popped}
    assert lease_id is not None
    return lease_id


async def test_lease_over_many_partitions_is_one_row_and_renewed_as_a_whole(
    database: asyncpg.Connection, sweep: LeaseSweep
) -> None:
    places = await _filled(database, *"abcdefgh")
    taken = await _lease(database, places, 100)
    assert await database.fetchval(_COUNT) == 1
    await sweep.run_once()
    assert (await renew(database, _lease_id(taken)))["renewed"] == 8


async def test_lease_of_which_one_partition_is_left_is_renewed_there(
    database: asyncpg.Connection, sweep: LeaseSweep
) -> None:
    places = await _filled(database, *"abc")
    taken = await _lease(database, places, 100)
    await ack(database, *acks_of(taken[0]), *acks_of(taken[1]))
    await push_all(database, places[0], 3)
    await _lease(database, [places[0]], 1)
    await sweep.run_once()
    assert (await renew(database, _lease_id(taken)))["renewed"] == 1


async def test_completed_lease_is_known_until_its_cursors_carry_another(
    database: asyncpg.Connection, sweep: LeaseSweep
) -> None:
    places = await _filled(database, *"abc")
    first = await _lease(database, places, 100)
    await ack(database, *(item for one in first for item in acks_of(one)))
    await sweep.run_once()
    renewal = await renew(database, _lease_id(first))
    assert (renewal["renewed"], renewal["was_known"]) == (0, True)
    # A transaction that must not have lost the lease goes on, as its messages are acknowledged.
    await transaction(database, leases=[_lease_id(first)])
    for place in places:
        await push_all(database, place, 3)
    second = await _lease(database, places, 100)
    assert await database.fetchval(_COUNT) == 2
    await sweep.run_once()
    assert await database.fetchval(_COUNT) == 1
    assert (await renew(database, _lease_id(second)))["renewed"] == 3
    renewal = await renew(database, _lease_id(first))
    assert (renewal["renewed"], renewal["was_known"]) == (0, False)


async def test_lease_that_was_taken_over_everywhere_is_forgotten(
    database: asyncpg.Connection, sweep: LeaseSweep
) -> None:
    places = await _filled(database, *"ab")
    await _lease(database, places, 100)
    for place in places:
        await expire(database, place)
    taken = await _lease(database, places, 100)
    await sweep.run_once()
    left = await database.fetch("SELECT lease_id FROM queen.lease_partitions")
    assert [row["lease_id"] for row in left] == [_lease_id(taken)]


async def test_ended_lease_that_its_cursors_still_carry_goes_after_an_hour(
    database: asyncpg.Connection, sweep: LeaseSweep
) -> None:
    ended = await _lease(database, await _filled(database, *"ab"), 100)
    live = await _lease(database, await _filled(database, *"ab"), 100)
    await ack(database, *(item for one in ended for item in acks_of(one)))
    await database.execute(
        "UPDATE queen.lease_partitions SET created_at = created_at - interval '2 hours'"
    )
    await sweep.run_once()
    left = await database.fetch("SELECT lease_id FROM queen.lease_partitions")
    assert [row["lease_id"] for row in left] == [_lease_id(live)]


@pytest.mark.parametrize(
    "delete", ["queen.delete_queue($1)", "queen.delete_group('__QUEUE_MODE__', $1, true)"]
)
async def test_deleting_one_queue_leaves_a_lease_over_two_queues_in_place(
    database: asyncpg.Connection, sweep: LeaseSweep, delete: str
) -> None:
    gone = unique()
    (first,) = await _filled(database, "a", queue=gone)
    others = await _filled(database, *"bc")
    taken = await _lease(database, [first, *others], 100)
    await database.fetchval(f"SELECT {delete}", gone)
    await sweep.run_once()
    assert (await renew(database, _lease_id(taken)))["renewed"] == 2


async def test_row_of_the_older_form_is_read_and_swept(
    database: asyncpg.Connection, sweep: LeaseSweep
) -> None:
    places = await _filled(database, *"ab")
    lease_id = _lease_id(await _lease(database, places, 100))
    await database.execute(
        "INSERT INTO queen.lease_partitions (lease_id, partition_id, consumer_group)"
        " SELECT l.lease_id, u.id, l.consumer_group"
        " FROM queen.lease_partitions l, unnest($1::uuid[]) AS u (id)"
        " WHERE u.id <> l.partition_id",
        places,
    )
    await database.execute(
        "UPDATE queen.lease_partitions SET partition_ids = NULL WHERE partition_ids IS NOT NULL"
    )
    assert (await renew(database, lease_id))["renewed"] == 2
    for place in places:
        await expire(database, place)
    await _lease(database, places, 100)
    await sweep.run_once()
    assert await database.fetchval(_COUNT) == 1


async def test_sweep_goes_through_more_than_a_page(
    database: asyncpg.Connection, sweep: LeaseSweep
) -> None:
    await database.execute(
        "INSERT INTO queen.lease_partitions (lease_id, partition_id, consumer_group, partition_ids)"
        " SELECT gen_random_uuid(), gen_random_uuid(), 'g', ARRAY[gen_random_uuid()]"
        " FROM generate_series(1, 12001)"
    )
    await sweep.run_once()
    assert await database.fetchval(_COUNT) == 0
