"""The knowledge that a pool needs to answer a pop empty."""

from __future__ import annotations

import pytest

from tests.support.pops import learn, make_intention, make_pool, partition


@pytest.mark.parametrize(("tick", "expected"), [(4, True), (5, False), (6, False)])
def test_a_look_up_that_started_after_the_newest_pop_settles(tick: int, expected: bool) -> None:
    pool = make_pool()
    pool.resolved_tick = 5
    pool.add(make_intention(tick=0))
    pool.add(make_intention(tick=tick))
    assert pool.is_exhausted() is expected


def test_nothing_is_settled_while_partitions_are_left_to_try() -> None:
    pool = make_pool(1)
    pool.resolved_tick = 5
    assert not pool.is_exhausted()


def test_nothing_is_settled_after_news_that_only_a_later_look_up_can_judge() -> None:
    pool = make_pool()
    learn(pool, tick=5)
    pool.require_look_up(6)
    assert not pool.is_exhausted()
    learn(pool, tick=6)
    assert not pool.is_exhausted()
    learn(pool, tick=7)
    assert pool.is_exhausted()


def test_who_may_not_wait_is_settled_once_all_was_looked_at_and_tried() -> None:
    pool = make_pool()
    learn(pool, tick=5)
    patient, early, late = (
        make_intention(tick=4, wait_ms=9),
        make_intention(tick=4),
        make_intention(tick=5),
    )
    for intention in (patient, early, late):
        pool.add(intention)
    assert pool.find_answerable() == [early]
    patient.is_expired = True
    assert pool.find_answerable() == [patient, early]
    learn(pool, tick=6)
    assert pool.find_answerable() == [patient, early, late]
    pool.mark_ready(partition(1))
    assert pool.find_answerable() == []


def test_only_calls_for_those_who_came_before_keep_anybody_waiting() -> None:
    pool = make_pool()
    learn(pool, tick=5)
    first, second, third = (make_intention() for _ in range(3))
    pool.add(first)
    pool.add(third)
    pool.claims.add(second.number)
    assert pool.find_answerable() == [first]
    pool.claims.clear()
    assert pool.find_answerable() == [first, third]


def test_nobody_is_settled_by_a_look_up_from_before_the_news() -> None:
    pool = make_pool()
    pool.add(make_intention(tick=0))
    pool.require_look_up(5)
    learn(pool, tick=5)
    assert pool.find_answerable() == []
    learn(pool, tick=6)
    assert len(pool.find_answerable()) == 1


def test_unsettled_are_those_who_came_after_the_last_look_up_began() -> None:
    pool = make_pool()
    crowd = [make_intention(tick=tick) for tick in (0, 3, 4, 4)]
    for intention in crowd:
        pool.add(intention)
    assert sorted(one.number for one in pool.not_looked_up()) == [one.number for one in crowd]
    pool.resolved_tick = 4
    assert {one.number for one in pool.not_looked_up()} == {one.number for one in crowd[2:]}
    pool.resolved_tick = 5
    assert pool.not_looked_up() == []
