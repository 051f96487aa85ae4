"""pop_sm_resolve: what it finds, in which order, and how much of it at once."""

from __future__ import annotations

from uuid import UUID

import asyncpg
import pytest

from tests.isolation.sessions import (
    ack,
    acks_of,
    configure,
    ensure,
    expire,
    pop_one,
    push_all,
)
from tests.support.broker import unique
from tests.support.look_ups import Ask, age, look_at, look_up


async def _filled(database: asyncpg.Connection, queue: str, *names: str) -> list[UUID]:
    """Partitions with a message each."""
    places = await ensure(database, queue, *names)
    for place in places:
        await push_all(database, place, 1)
    return places


class TestHowMuch:
    async def test_a_look_up_without_time_answers_the_first_pair_and_every_call_goes_on(
        self, database: asyncpg.Connection
    ) -> None:
        queues = [unique() for _ in range(4)]
        places = [(await _filled(database, queue))[0] for queue in queues]
        asks = [Ask(queue) for queue in queues]
        found = []
        for _ in range(len(asks)):
            answers = await look_up(database, *asks, budget_ms=0)
            assert 1 <= len(answers) <= len(asks)
            found += [one.ready for one in answers]
            asks = asks[len(answers) :]
            if not asks:
                break
        assert found == [[place] for place in places]

    async def test_what_is_known_belongs_to_its_pair_also_when_pairs_are_left_out(
        self, database: asyncpg.Connection
    ) -> None:
        first, second = unique(), unique()
        a, b = await _filled(database, first, "a", "b")
        (c,) = await _filled(database, second, "c")
        horizon = (await look_at(database, Ask(first))).horizon
        answers = await look_up(
            database,
            Ask(first, horizon=horizon, known=(b,)),
            Ask(first, horizon=horizon),
            Ask(second, horizon=horizon, known=(c,)),
            Ask(first, horizon=horizon, known=(a, b)),
        )
        assert [set(one.ready) for one in answers] == [{b}, set(), {c}, {a, b}]

    @pytest.mark.parametrize(("limit", "is_complete"), [(2, False), (3, True), (4, True)])
    async def test_limit_cuts_what_is_ready_and_says_so(
        self, database: asyncpg.Connection, limit: int, is_complete: bool
    ) -> None:
        queue = unique()
        places = await _filled(database, queue, "a", "b", "c")
        found = await look_at(database, Ask(queue), limit=limit)
        assert len(found.ready) == min(limit, 3) and set(found.ready) <= set(places)
        assert found.is_complete is is_complete

    async def test_limit_cuts_what_must_wait_and_says_so(
        self, database: asyncpg.Connection
    ) -> None:
        queue = unique()
        places = await _filled(database, queue, *"abcdef")
        for place in places:
            await pop_one(database, place)
        cut = await look_at(database, Ask(queue), limit=1)
        assert not cut.is_complete and len(cut.held) < 6
        whole = await look_at(database, Ask(queue), limit=6)
        assert whole.is_complete and set(whole.held) == set(places)


class TestWhatIsSaid:
    async def test_a_named_partition_is_found_or_not(self, database: asyncpg.Connection) -> None:
        queue = unique()
        full, _ = await ensure(database, queue, "full", "empty")
        await push_all(database, full, 1)
        answers = await look_up(
            database,
            Ask(queue, partition="full"),
            Ask(queue, partition="empty"),
            Ask(queue, partition="missing"),
            Ask(unique(), partition="full"),
            Ask(unique()),
        )
        assert [one.ready for one in answers] == [[full], [], [], [], []]
        assert [one.is_found for one in answers] == [True, True, False, False, True]

    async def test_letters_tell_what_is_waited_for(self, database: asyncpg.Connection) -> None:
        plain, delayed, windowed = unique(), unique(), unique()
        await configure(database, plain, retry_delay=60_000, on_poison="block", retry_limit=1)
        await configure(database, delayed, delayed_processing=60)
        await configure(database, windowed, window_buffer=60)
        leased, retried, blocked, free = await _filled(
            database, plain, "leased", "retried", "blocked", "free"
        )
        await pop_one(database, leased)
        popped = await pop_one(database, retried)
        await ack(database, *acks_of(popped, status="failed"))
        for _ in range(3):
            await pop_one(database, blocked)
            await expire(database, blocked)
        found = await look_at(database, Ask(plain))
        assert found.ready == [free]
        assert found.held == {leased: "l", retried: "w", blocked: "b"}
        assert 0 < found.next_due_ms <= 60_000
        for queue in (delayed, windowed):
            (place,) = await _filled(database, queue)
            found = await look_at(database, Ask(queue))
            assert (found.ready, found.held) == ([], {place: "w"})
            assert 0 < found.next_due_ms <= 60_000
            await age(database, place, 60)
            assert (await look_at(database, Ask(queue))).ready == [place]

    async def test_what_waits_for_somebody_to_act_has_no_due_time(
        self, database: asyncpg.Connection
    ) -> None:
        queue = unique()
        await configure(database, queue, on_poison="block", retry_limit=1)
        (place,) = await _filled(database, queue)
        for _ in range(3):
            await pop_one(database, place)
            await expire(database, place)
        found = await look_at(database, Ask(queue))
        assert found.held == {place: "b"} and found.next_due_ms is None

    async def test_lease_that_has_run_out_is_ready_again(
        self, database: asyncpg.Connection
    ) -> None:
        queue = unique()
        (place,) = await _filled(database, queue)
        await pop_one(database, place)
        await expire(database, place)
        assert (await look_at(database, Ask(queue))).ready == [place]

    async def test_priority_goes_before_the_least_recently_served(
        self, database: asyncpg.Connection
    ) -> None:
        namespace = unique("space")
        order = []
        for priority in (9, 1):
            queue = unique()
            await configure(database, queue, priority=priority, namespace=namespace)
            never, first, second = await ensure(database, queue, "never", "first", "second")
            for place in (never, first, second):
                await push_all(database, place, 1, 2)
            for place in (first, second):
                await pop_one(database, place, batch=1, auto_ack=True)
            order += [never, first, second]
        assert (await look_at(database, Ask(namespace=namespace))).ready == order


class TestPairs:
    async def test_a_name_in_one_pair_does_not_narrow_another(
        self, database: asyncpg.Connection
    ) -> None:
        one, two = unique(), unique()
        p0, p1 = await _filled(database, one, "p0", "p1")
        q0, q1 = await _filled(database, two, "p0", "p1")
        named, whole, other = await look_up(
            database, Ask(one, partition="p0"), Ask(two), Ask(one, "g", partition="p1")
        )
        assert named.ready == [p0]
        assert set(whole.ready) == {q0, q1}
        assert other.ready == [p1]

    async def test_each_group_gets_its_own_view(self, database: asyncpg.Connection) -> None:
        queue = unique()
        a, b, c = await _filled(database, queue, "a", "b", "c")
        await pop_one(database, a, "one", auto_ack=True)
        await pop_one(database, b, "two")
        first, second, fresh = await look_up(
            database, Ask(queue, "one"), Ask(queue, "two"), Ask(queue, "three")
        )
        assert (set(first.ready), first.held) == ({b, c}, {})
        assert (set(second.ready), second.held) == ({a, c}, {b: "l"})
        assert (set(fresh.ready), fresh.held) == ({a, b, c}, {})

    async def test_each_pair_has_a_horizon_of_its_own(self, database: asyncpg.Connection) -> None:
        queue = unique()
        (place,) = await _filled(database, queue)
        horizon = (await look_at(database, Ask(queue))).horizon
        since, whole = await look_up(database, Ask(queue, horizon=horizon), Ask(queue))
        assert (since.ready, whole.ready) == ([], [place])

    async def test_scopes_of_every_kind_go_together(self, database: asyncpg.Connection) -> None:
        namespace = unique("space")
        queue, other = f"{namespace}.mail.one", f"{namespace}.ship.two"
        (mail,) = await _filled(database, queue, "p")
        (ship,) = await _filled(database, other, "p")
        answers = await look_up(
            database,
            Ask(namespace=namespace),
            Ask(namespace=namespace, task="ship"),
            Ask(queue),
            Ask(namespace=unique()),
        )
        assert [set(one.ready) for one in answers] == [{mail, ship}, {ship}, {mail}, set()]
