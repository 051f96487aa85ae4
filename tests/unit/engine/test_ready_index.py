"""Pools: who waits, which partition is next, and how pools are found and forgotten."""

from __future__ import annotations

from uuid import UUID

import pytest

from queenmq.engine import ready_index
from queenmq.engine.operation import PartitionKey, PopRequest, Scope
from queenmq.engine.pop_machine import PopEvent, PopState
from queenmq.engine.ready_index import Intention, Pool, PoolIndex

QUEUE = Scope(queue="orders")
GROUP = "billing"


def partition(number: int) -> UUID:
    return UUID(int=number)


def make_intention(*, wait_ms: int | None = None, tick: int = 0) -> Intention:
    request = PopRequest(scope=QUEUE, consumer_group=GROUP, batch=1, wait_ms=wait_ms)
    return Intention(request, tick=tick, answer=None)


def make_pool(*ready: int) -> Pool:
    pool = Pool(QUEUE, GROUP)
    for number in ready:
        pool.mark_ready(partition(number))
    return pool


def taken(pool: Pool, count: int, busy: set[tuple[UUID, str]] | None = None) -> list[int]:
    return [one.int for one in pool.take_ready(count, busy or set())]


class TestIntention:
    def test_starts_pending(self) -> None:
        intention = make_intention()
        assert intention.state is PopState.PENDING
        assert not intention.is_final

    def test_moves_by_the_table(self) -> None:
        intention = make_intention()
        intention.move(PopEvent.ASSIGNED)
        assert intention.state is PopState.LEASING
        intention.move(PopEvent.GRANTED)
        assert intention.is_final

    def test_is_ordered_by_arrival(self) -> None:
        first, second = make_intention(), make_intention()
        assert first < second

    def test_may_wait_only_if_asked_to_and_in_time(self) -> None:
        waiting = make_intention(wait_ms=0)
        assert waiting.may_wait
        waiting.is_expired = True
        assert not waiting.may_wait
        assert not make_intention(wait_ms=None).may_wait


class TestWaiters:
    def test_the_longest_waiter_is_first(self) -> None:
        pool = make_pool()
        early, late = make_intention(), make_intention()
        pool.add(late)
        pool.add(early)
        assert pool.first() is early
        assert pool.pending() == [early, late]

    def test_a_returning_waiter_gets_its_old_place(self) -> None:
        pool = make_pool()
        early, late = make_intention(), make_intention()
        pool.add(early)
        pool.add(late)
        assert pool.first() is early
        assert pool.pop_first() is early
        pool.add(early)
        assert pool.first() is early

    def test_first_is_none_when_nobody_waits(self) -> None:
        assert make_pool().first() is None

    def test_first_skips_those_who_left(self) -> None:
        pool = make_pool()
        gone, stays = make_intention(), make_intention()
        pool.add(gone)
        pool.add(stays)
        pool.left()
        gone.move(PopEvent.CALLER_LEFT)
        assert pool.first() is stays
        assert pool.waiting_count == 1

    def test_count_follows_arrivals_and_departures(self) -> None:
        pool = make_pool()
        for _ in range(3):
            pool.add(make_intention())
        assert pool.first() is not None
        pool.pop_first()
        pool.left()
        assert pool.waiting_count == 1

    def test_row_is_cleaned_up_after_many_leave(self) -> None:
        pool = make_pool()
        crowd = [make_intention() for _ in range(1_000)]
        for intention in crowd:
            pool.add(intention)
        # The last ones leave first, so that none of them is dropped from the front.
        for intention in reversed(crowd[10:]):
            pool.left()
            intention.move(PopEvent.CALLER_LEFT)
        assert pool.pending() == crowd[:10]
        assert len(pool._waiting) <= 64, "the rest is dropped without ever coming to the front"

    def test_row_is_in_order_after_the_clean_up(self) -> None:
        pool = make_pool()
        crowd = [make_intention() for _ in range(200)]
        for intention in crowd:
            pool.add(intention)
        for intention in crowd[::2] + crowd[1:100:2]:
            pool.left()
            intention.move(PopEvent.CALLER_LEFT)
        served = []
        while pool.first() is not None:
            served.append(pool.pop_first())
        assert served == crowd[101::2]
        assert pool.waiting_count == 0


class TestReadyPartitions:
    def test_least_recently_served_partition_is_next(self) -> None:
        pool = make_pool(1, 2, 3)
        served = []
        for _ in range(7):
            (number,) = taken(pool, 1)
            served.append(number)
            pool.mark_ready(partition(number))
        assert served == [1, 2, 3, 1, 2, 3, 1]

    def test_a_partition_that_is_marked_again_keeps_its_place(self) -> None:
        pool = make_pool(1, 2)
        pool.mark_ready(partition(1))
        assert taken(pool, 2) == [1, 2]

    def test_take_ready_takes_no_more_than_asked(self) -> None:
        pool = make_pool(1, 2, 3)
        assert taken(pool, 2) == [1, 2]
        assert taken(pool, 2) == [3]
        assert taken(pool, 2) == []

    def test_take_ready_passes_over_busy_ones_which_keep_their_place(self) -> None:
        pool = make_pool(1, 2, 3)
        assert taken(pool, 2, {(partition(1), GROUP)}) == [2, 3]
        assert taken(pool, 2) == [1]

    def test_a_partition_that_is_busy_for_another_group_is_free(self) -> None:
        assert taken(make_pool(1), 1, {(partition(1), "audit")}) == [1]

    def test_memory_of_ready_partitions_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ready_index, "READY_MAX", 3)
        pool = make_pool(1, 2, 3, 4)
        pool.mark_ready(partition(2))
        assert taken(pool, 9) == [1, 2, 3]


class TestSettled:
    def test_a_look_up_that_started_after_the_pop_settles_it(self) -> None:
        pool = make_pool()
        pool.resolved_tick = 5
        assert pool.is_settled_for(make_intention(tick=4))
        assert not pool.is_settled_for(make_intention(tick=5))

    def test_nothing_is_settled_while_partitions_are_left_to_try(self) -> None:
        pool = make_pool(1)
        pool.resolved_tick = 5
        assert not pool.is_settled_for(make_intention(tick=0))

    def test_nothing_is_settled_while_an_auto_acked_call_is_in_flight(self) -> None:
        pool = make_pool()
        pool.resolved_tick = 5
        pool.auto_claims = 1
        assert not pool.is_settled_for(make_intention(tick=0))


SCOPES = {
    "partition": Scope("orders", "p1"),
    "other partition": Scope("orders", "p2"),
    "queue": Scope("orders"),
    "other queue": Scope("mails"),
    "namespace": Scope(namespace="shop"),
    "task": Scope(task="ship"),
    "both": Scope(namespace="shop", task="ship"),
    "other namespace": Scope(namespace="office"),
}


@pytest.fixture
def index() -> PoolIndex:
    """One pool per scope."""
    made = PoolIndex()
    for scope in SCOPES.values():
        made.get_or_add(scope, GROUP)
    return made


def touched(index: PoolIndex, *, namespace: str = "shop", task: str = "ship") -> list[str]:
    names = {scope: name for name, scope in SCOPES.items()}
    key = PartitionKey("orders", "p1")
    return [names[pool.scope] for pool in index.touched_by(key, namespace=namespace, task=task)]


class TestPoolIndex:
    def test_the_same_place_and_group_is_the_same_pool(self, index: PoolIndex) -> None:
        assert index.get_or_add(QUEUE, GROUP) is index.get_or_add(Scope(queue="orders"), GROUP)
        assert index.get_or_add(QUEUE, GROUP) is not index.get_or_add(QUEUE, "audit")
        assert len(index) == len(SCOPES) + 1

    def test_a_push_touches_every_pool_that_may_serve_it_by_name_first(
        self, index: PoolIndex
    ) -> None:
        found = touched(index)
        assert found[0] == "partition"
        assert sorted(found) == ["both", "namespace", "partition", "queue", "task"]

    def test_filters_compare_namespace_and_task(self, index: PoolIndex) -> None:
        assert touched(index, task="bill") == ["partition", "queue", "namespace"]
        assert touched(index, namespace="home") == ["partition", "queue", "task"]

    def test_all_groups_are_touched(self, index: PoolIndex) -> None:
        index.get_or_add(QUEUE, "audit")
        assert touched(index).count("queue") == 2

    def test_of_queue_finds_its_partitions_and_every_filter(self, index: PoolIndex) -> None:
        names = {scope: name for name, scope in SCOPES.items()}
        found = {names[pool.scope] for pool in index.of_queue("orders")}
        assert found == set(SCOPES) - {"other queue"}

    @pytest.mark.parametrize("name", SCOPES)
    def test_a_removed_pool_is_found_no_more(self, index: PoolIndex, name: str) -> None:
        pool = index.get_or_add(SCOPES[name], GROUP)
        index.remove(pool)
        assert pool not in list(index)
        assert pool not in list(index.of_queue("orders"))
        assert pool not in list(index.of_queue("mails"))
        assert name not in touched(index)

    def test_removing_every_pool_leaves_nothing_behind(self, index: PoolIndex) -> None:
        for pool in index:
            index.remove(pool)
        assert len(index) == 0
        assert vars(index) == vars(PoolIndex())

    def test_a_removed_pool_leaves_those_of_other_groups(self, index: PoolIndex) -> None:
        other = index.get_or_add(QUEUE, "audit")
        index.remove(index.get_or_add(QUEUE, GROUP))
        assert list(index.of_queue("orders")).count(other) == 1

    def test_remove_idle_keeps_pools_in_use(self, index: PoolIndex) -> None:
        waited_for, claimed, timed = (
            index.get_or_add(SCOPES[name], GROUP) for name in ("queue", "partition", "task")
        )
        waited_for.add(make_intention())
        claimed.claims = 1
        timed.timer = object()
        index.remove_idle()
        assert set(index) == {waited_for, claimed, timed}
