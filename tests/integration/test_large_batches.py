"""Large batches and wide holes: read apart in order, passed in one step, and nothing lost."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from queenmq.engine.requests import LeaseRelease, PopCandidate, PopGrant
from queenmq.ids import new_lease_id
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.messages import PostgresMessageStore
from tests.isolation.sessions import QUEUE_MODE, cursor, ensure, push_all
from tests.support.broker import unique

HOLE = 100_000


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresMessageStore]:
    """The broker's store on the test's own database."""
    opened = Database(database_url, Settings())
    await opened.open()
    yield PostgresMessageStore(opened)
    await opened.close()


async def _pop(
    store: PostgresMessageStore,
    *places: UUID,
    batch: int = 10,
    auto_ack: bool = False,
    apart_count: int = 1_000,
) -> list[PopGrant]:
    """One request."""
    lease_id = new_lease_id(places[0])
    candidates = [PopCandidate(1, place, QUEUE_MODE, batch, auto_ack, lease_id) for place in places]
    return await store.pop_messages_batch(candidates, apart_count=apart_count)


async def _pop_one(store: PostgresMessageStore, place: UUID, **more: int) -> PopGrant:
    (grant,) = await _pop(store, place, **more)
    return grant


def _data(text: str | None) -> list[object]:
    return [message["data"] for message in json.loads(f"[{text or ''}]")]


async def _dig_hole(database: asyncpg.Connection, place: UUID, count: int = HOLE) -> None:
    """As if this many messages had been pushed and deleted."""
    await database.execute(
        "UPDATE queen.partition_lookup SET last_seq = last_seq + $2 WHERE partition_id = $1",
        place,
        count,
    )


class TestHoles:
    @pytest.mark.parametrize("auto_ack", [False, True], ids=["leased", "auto-acked"])
    async def test_a_wide_hole_is_passed_in_one_step(
        self, database: asyncpg.Connection, store: PostgresMessageStore, auto_ack: bool
    ) -> None:
        (place,) = await ensure(database, unique())
        await _dig_hole(database, place)
        await push_all(database, place, "behind")
        first = await _pop_one(store, place, batch=1, auto_ack=auto_ack)
        assert first.outcome == "again"
        row = await cursor(database, place)
        assert (row["cursor_seq"], row["is_leased"]) == (HOLE, False)
        second = await _pop_one(store, place, batch=1, auto_ack=auto_ack)
        assert second.outcome == "granted" and _data(second.messages) == ["behind"]

    @pytest.mark.parametrize("auto_ack", [False, True], ids=["leased", "auto-acked"])
    async def test_a_hole_at_the_end_is_passed_to_the_end_and_no_further(
        self, database: asyncpg.Connection, store: PostgresMessageStore, auto_ack: bool
    ) -> None:
        (place,) = await ensure(database, unique())
        await _dig_hole(database, place)
        assert (await _pop_one(store, place, auto_ack=auto_ack)).outcome == "again"
        assert (await _pop_one(store, place, auto_ack=auto_ack)).outcome == "none"
        await push_all(database, place, "later")
        assert _data((await _pop_one(store, place)).messages) == ["later"]

    async def test_several_holes_take_one_call_each(
        self, database: asyncpg.Connection, store: PostgresMessageStore
    ) -> None:
        (place,) = await ensure(database, unique())
        for number in range(3):
            await _dig_hole(database, place)
            await push_all(database, place, number)
        got, calls = [], 0
        while len(got) < 3:
            calls += 1
            assert calls <= 6
            got += _data((await _pop_one(store, place, batch=1, auto_ack=True)).messages)
        assert got == [0, 1, 2]

    async def test_a_lease_that_was_lost_passes_nothing(
        self, database: asyncpg.Connection, store: PostgresMessageStore
    ) -> None:
        (place,) = await ensure(database, unique())
        await push_all(database, place, 1, 2)
        lost = LeaseRelease(place, QUEUE_MODE, new_lease_id(place), pass_seq=2)
        grant = await _pop_one(store, place)
        await store.pop_sm_release([lost], lock_timeout_ms=1_000)
        row = await cursor(database, place)
        assert (row["cursor_seq"], row["lease_id"]) == (0, UUID(grant.lease_id))

    async def test_a_release_passes_only_what_is_gone(
        self, database: asyncpg.Connection, store: PostgresMessageStore
    ) -> None:
        (place,) = await ensure(database, unique())
        await push_all(database, place, *range(6))
        await database.execute(
            "DELETE FROM queen.messages WHERE partition_id = $1 AND seq IN (1, 2, 3)", place
        )
        grant = await _pop_one(store, place, batch=2, apart_count=1)
        assert grant.outcome == "leased"
        lease = LeaseRelease(place, QUEUE_MODE, UUID(grant.lease_id), pass_seq=grant.end_seq)
        await store.pop_sm_release([lease], lock_timeout_ms=1_000)
        assert (await cursor(database, place))["cursor_seq"] == 3
        assert _data((await _pop_one(store, place)).messages) == [3, 4, 5]


class TestReadApart:
    async def test_a_large_leased_batch_is_read_in_a_call_of_its_own(
        self, database: asyncpg.Connection, store: PostgresMessageStore
    ) -> None:
        (place,) = await ensure(database, unique())
        await push_all(database, place, *range(50))
        grant = await _pop_one(store, place, batch=30, apart_count=10)
        assert (grant.outcome, grant.messages) == ("leased", None)
        assert (grant.after_seq, grant.end_seq, grant.has_more) == (0, 30, True)
        assert (await cursor(database, place))["is_leased"]
        read = (await store.pop_sm_fetch(QUEUE_MODE, [grant]))[place]
        assert (read.message_count, _data(read.messages)) == (30, list(range(30)))
        leases = {one["leaseId"] for one in json.loads(f"[{read.messages}]")}
        assert leases == {grant.lease_id}

    @pytest.mark.parametrize(("batch", "outcome"), [(10, "granted"), (11, "leased")])
    async def test_the_bound_itself_is_read_at_once(
        self, database: asyncpg.Connection, store: PostgresMessageStore, batch: int, outcome: str
    ) -> None:
        (place,) = await ensure(database, unique())
        await push_all(database, place, *range(50))
        assert (await _pop_one(store, place, batch=batch, apart_count=10)).outcome == outcome

    async def test_what_counts_is_what_is_there_and_not_what_was_asked_for(
        self, database: asyncpg.Connection, store: PostgresMessageStore
    ) -> None:
        (place,) = await ensure(database, unique())
        await push_all(database, place, *range(5))
        grant = await _pop_one(store, place, batch=1_000, apart_count=10)
        assert (grant.outcome, _data(grant.messages)) == ("granted", list(range(5)))

    async def test_an_auto_acked_batch_is_always_read_at_once(
        self, database: asyncpg.Connection, store: PostgresMessageStore
    ) -> None:
        # Its cursor has moved; what is not read now would be lost.
        (place,) = await ensure(database, unique())
        await push_all(database, place, *range(50))
        grant = await _pop_one(store, place, batch=50, auto_ack=True, apart_count=1)
        assert (grant.outcome, _data(grant.messages)) == ("granted", list(range(50)))

    async def test_each_partition_of_a_request_is_judged_by_itself(
        self, database: asyncpg.Connection, store: PostgresMessageStore
    ) -> None:
        large, small = await ensure(database, unique(), "large", "small")
        await push_all(database, large, *range(20))
        await push_all(database, small, "one")
        grants = {
            one.partition_id: one
            for one in await _pop(store, large, small, batch=30, apart_count=10)
        }
        assert (grants[large].outcome, grants[small].outcome) == ("leased", "granted")
        assert grants[large].lease_id == grants[small].lease_id
        read = await store.pop_sm_fetch(QUEUE_MODE, [grants[large]])
        assert _data(read[large].messages) == list(range(20))

    async def test_a_message_pushed_between_is_not_lost(
        self, database: asyncpg.Connection, store: PostgresMessageStore
    ) -> None:
        (place,) = await ensure(database, unique())
        await push_all(database, place, *range(20))
        grant = await _pop_one(store, place, batch=100, apart_count=10)
        await push_all(database, place, "between")
        read = (await store.pop_sm_fetch(QUEUE_MODE, [grant]))[place]
        assert _data(read.messages) == list(range(20))
        # All that was leased has passed; the next pop goes on behind it.
        done = LeaseRelease(place, QUEUE_MODE, UUID(grant.lease_id), pass_seq=grant.end_seq)
        await store.pop_sm_release([done], lock_timeout_ms=1_000)
        assert _data((await _pop_one(store, place)).messages) == ["between"]

    async def test_a_partition_that_was_deleted_between_has_no_result(
        self, database: asyncpg.Connection, store: PostgresMessageStore
    ) -> None:
        gone, stays = unique(), unique()
        (first,) = await ensure(database, gone)
        (second,) = await ensure(database, stays)
        for place in (first, second):
            await push_all(database, place, *range(20))
        grants = await _pop(store, first, second, batch=40, apart_count=10)
        assert [one.outcome for one in grants] == ["leased", "leased"]
        await database.execute("SELECT queen.delete_queue($1)", gone)
        read = await store.pop_sm_fetch(QUEUE_MODE, grants)
        assert list(read) == [second]
        assert read[second].message_count == 20
