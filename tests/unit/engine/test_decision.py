"""The decision engine: who gets which partition, what is left for later, and the reasons given."""

from __future__ import annotations

import pytest

from queenmq.engine.outcomes import HoldReason
from queenmq.engine.pop.board.decision import Decision, Plan, Room, decide
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.requests import Scope
from tests.support.pops import (
    AMPLE,
    GROUP,
    ORDERS,
    make_intention,
    make_pool,
    partition,
    served,
    taken,
)

NAMED = Scope("orders", "p1")
SHOP = Scope(namespace="shop")


def make_waited_for(
    *ready: int, scope: Scope = ORDERS, group: str = GROUP, waiters: int = 1, **more: object
) -> Pool:
    """A pool in which some wait and some partitions are ready."""
    pool = make_pool(*ready, scope=scope, group=group)
    for _ in range(waiters):
        pool.add(make_intention(scope, group=group, **more))
    return pool


def decide_for(*pools: Pool, busy: tuple[int, ...] = (), room: Room = AMPLE) -> Plan:
    return decide(pools, {partition(one) for one in busy}, room=room)


class TestOrder:
    def test_nothing_comes_of_nothing(self) -> None:
        plan = decide_for()
        assert (plan.assignments, plan.skipped, plan.cut_off) == ([], [], [])

    def test_a_pool_without_waiters_is_no_part_of_the_plan(self) -> None:
        plan = decide_for(make_pool(1))
        assert (plan.assignments, plan.skipped, plan.cut_off) == ([], [], [])

    def test_the_longest_waiter_gets_the_first_partition(self) -> None:
        pool = make_waited_for(1, 2, waiters=3)
        plan = decide_for(pool)
        assert served(plan) == list(pool.waiting())[:2]
        assert taken(plan) == [[1], [2]]

    def test_a_waiter_may_get_several_partitions_or_what_is_there(self) -> None:
        plan = decide_for(make_waited_for(1, 2, 3, waiters=2, partitions=2))
        assert taken(plan) == [[1, 2], [3]]

    def test_the_pool_of_the_longest_waiter_goes_first(self) -> None:
        early, late = make_waited_for(1), make_waited_for(1, scope=SHOP)
        plan = decide_for(late, early)
        assert [one.pool for one in plan.assignments] == [early]
        assert [pool for pool, _ in plan.skipped] == [late]

    def test_a_partition_that_is_named_goes_to_who_names_it(self) -> None:
        anybody, named = make_waited_for(1, 2), make_waited_for(1, scope=NAMED)
        plan = decide_for(anybody, named)
        assert [one.pool for one in plan.assignments] == [anybody, named]
        assert taken(plan) == [[2], [1]]

    def test_a_name_of_one_group_keeps_nothing_from_another(self) -> None:
        anybody, named = make_waited_for(1), make_waited_for(1, scope=NAMED, group="audit")
        assert taken(decide_for(anybody, named)) == [[1], [1]]

    def test_a_name_that_nobody_waits_for_keeps_nothing_from_anybody(self) -> None:
        plan = decide_for(make_pool(1, scope=NAMED), make_waited_for(1))
        assert taken(plan) == [[1]]

    def test_groups_take_the_same_partition_beside_each_other(self) -> None:
        plan = decide_for(*(make_waited_for(1, group=group) for group in ("audit", "billing")))
        assert taken(plan) == [[1], [1]]

    def test_a_partition_in_another_call_is_passed_over_for_every_group(self) -> None:
        pools = [make_waited_for(1, 2, group=group) for group in ("audit", "billing")]
        assert taken(decide_for(*pools, busy=(1,))) == [[2], [2]]

    def test_an_assignment_says_what_its_pool_had_heard(self) -> None:
        pool = make_waited_for(1)
        pool.learnt_tick = 7
        (one,) = decide_for(pool).assignments
        assert one.seen_tick == 7


class TestRoom:
    @pytest.mark.parametrize(
        ("room", "expected"),
        [
            pytest.param(AMPLE._replace(requests=2), [[0, 1], [2, 3]], id="requests"),
            pytest.param(AMPLE._replace(candidates=3), [[0, 1], [2]], id="candidates"),
            pytest.param(AMPLE._replace(messages=11), [[0, 1], [2, 3]], id="messages"),
        ],
    )
    def test_a_call_takes_no_more_than_fits(self, room: Room, expected: list[list[int]]) -> None:
        pool = make_waited_for(*range(9), waiters=4, partitions=2, batch=5)
        plan = decide_for(pool, room=room)
        assert taken(plan) == expected
        assert plan.cut_off == [pool]
        assert plan.skipped == []

    def test_one_request_always_fits(self) -> None:
        plan = decide_for(make_waited_for(1, 2, partitions=2, batch=9), room=Room(1, 1, 1))
        assert taken(plan) == [[1]]

    def test_a_full_call_cuts_off_other_pools_too(self) -> None:
        first, second = make_waited_for(1), make_waited_for(2, scope=SHOP)
        plan = decide_for(first, second, room=Room(1, 9, 9))
        assert served(plan) == list(first.waiting())
        assert plan.cut_off == [second]

    def test_who_came_first_is_served_first_whoever_else_asks_by_name(self) -> None:
        anybody = make_waited_for(*range(10, 20))
        named = [make_waited_for(n, scope=Scope("orders", f"p{n}")) for n in range(3)]
        for room in (Room(1, 9, 9), Room(9, 1, 9), Room(9, 9, 1)):
            assert taken(decide_for(*named, anybody, room=room)) == [[10]]

    def test_a_pop_whose_last_call_broke_is_tried_alone(self) -> None:
        pool = make_waited_for(1, 2, 3, waiters=3)
        first, second, third = pool.waiting()
        second.broken_calls = 1
        assert served(decide_for(pool)) == [first]
        pool.remove(first)
        assert served(decide_for(pool)) == [second]
        pool.remove(second)
        assert served(decide_for(pool)) == [third]


class TestReasons:
    def reason(self, pool: Pool, *, busy: tuple[int, ...] = ()) -> Decision:
        ((skipped, reason),) = decide_for(pool, busy=busy).skipped
        assert skipped is pool
        return reason

    @pytest.mark.parametrize("scope", [ORDERS, SHOP])
    def test_nothing_is_there(self, scope: Scope) -> None:
        assert self.reason(make_waited_for(scope=scope)) is Decision.SKIP_NO_PARTITIONS

    def test_the_named_partition_has_nothing(self) -> None:
        reason = self.reason(make_waited_for(scope=NAMED))
        assert reason is Decision.SKIP_PARTITION_UNAVAILABLE

    def test_the_named_partition_is_being_served(self) -> None:
        reason = self.reason(make_waited_for(1, scope=NAMED), busy=(1,))
        assert reason is Decision.SKIP_PARTITION_UNAVAILABLE

    def test_all_there_is_is_in_calls(self) -> None:
        assert self.reason(make_waited_for(1), busy=(1,)) is Decision.SKIP_LEASE_TAKEN

    def test_a_call_of_the_pool_is_on_its_way(self) -> None:
        pool = make_waited_for()
        pool.claims = {7}
        assert self.reason(pool) is Decision.SKIP_LEASE_TAKEN

    @pytest.mark.parametrize("scope", [ORDERS, NAMED, SHOP])
    @pytest.mark.parametrize(
        ("why", "expected"),
        [
            (HoldReason.LEASE, Decision.SKIP_LEASE_TAKEN),
            (HoldReason.TIME, Decision.SKIP_WINDOW_BUFFER),
            (HoldReason.BLOCKED, Decision.SKIP_WINDOW_BUFFER),
        ],
    )
    def test_all_there_is_must_wait(self, scope: Scope, why: str, expected: Decision) -> None:
        pool = make_waited_for(scope=scope)
        pool.hold(partition(1), why, 0)
        assert self.reason(pool) is expected

    def test_a_pool_that_gave_to_some_is_skipped_for_the_rest(self) -> None:
        pool = make_waited_for(1, waiters=2)
        plan = decide_for(pool)
        assert len(plan.assignments) == 1
        assert [one for one, _ in plan.skipped] == [pool]

    def test_a_pool_whose_waiters_all_got_something_is_not_skipped(self) -> None:
        assert decide_for(make_waited_for(1, 2)).skipped == []

    def test_every_reason_to_skip_has_a_name_of_its_own(self) -> None:
        assert len({one.value for one in Decision}) == len(Decision) == 5
