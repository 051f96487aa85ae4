"""The times of polls for pools without news."""

from __future__ import annotations

import pytest

from queenmq.engine.pop.board.poll_schedule import PollSchedule
from queenmq.engine.requests import Scope
from tests.support.pops import make_pool


def make_schedule(least_ms: float = 100, most_ms: float = 1_000) -> PollSchedule:
    return PollSchedule(
        min_interval_ms=least_ms, max_interval_ms=most_ms, listening_interval_ms=5 * most_ms
    )


class TestInterval:
    def test_it_doubles_from_the_least_to_the_most(self) -> None:
        schedule, pool = make_schedule(), make_pool()
        seen = []
        for _ in range(7):
            schedule.back_off(pool)
            seen.append(pool.poll_ms)
        assert seen == [100, 200, 400, 800, 1_000, 1_000, 1_000]

    def test_it_grows_further_while_notifications_arrive_and_no_longer(self) -> None:
        schedule, pool = make_schedule(), make_pool()
        schedule.is_listening = True
        for _ in range(7):
            schedule.back_off(pool)
        assert pool.poll_ms == 5_000
        schedule.is_listening = False
        schedule.back_off(pool)
        assert pool.poll_ms == 1_000

    def test_it_is_never_shorter_for_listening(self) -> None:
        schedule = PollSchedule(
            min_interval_ms=100, max_interval_ms=1_000, listening_interval_ms=200
        )
        pool = make_pool()
        schedule.is_listening = True
        for _ in range(7):
            schedule.back_off(pool)
        assert pool.poll_ms == 1_000

    def test_news_make_it_short_again(self) -> None:
        schedule, pool = make_schedule(), make_pool()
        for _ in range(5):
            schedule.back_off(pool)
        schedule.reset(pool)
        assert pool.poll_ms == 100
        schedule.back_off(pool)
        assert pool.poll_ms == 200

    def test_least_and_most_may_be_the_same(self) -> None:
        schedule, pool = make_schedule(300, 300), make_pool()
        for _ in range(3):
            schedule.back_off(pool)
        assert pool.poll_ms == 300


class TestTimes:
    def test_nothing_is_due_on_an_empty_schedule(self) -> None:
        schedule = make_schedule()
        assert schedule.next_at_ms() is None
        assert schedule.take_due(1e9) == []

    @pytest.mark.parametrize("now", [0.0, 1.0, 99.9, 100.0, 12_345.6])
    def test_a_pool_is_polled_within_its_interval(self, now: float) -> None:
        schedule, pool = make_schedule(), make_pool()
        schedule.back_off(pool)
        schedule.add(pool, now)
        at = schedule.next_at_ms()
        assert at is not None and now < at <= now + 100
        assert schedule.take_due(at - 0.01) == []
        assert schedule.take_due(at) == [pool]
        assert schedule.next_at_ms() is None

    def test_a_pool_that_never_backed_off_is_polled_at_the_least_interval(self) -> None:
        schedule, pool = make_schedule(), make_pool()
        schedule.add(pool, 1_000)
        assert schedule.next_at_ms() == 1_100

    def test_pools_that_wait_equally_long_are_polled_together(self) -> None:
        schedule = make_schedule()
        pools = [make_pool(scope=Scope(f"q{number}")) for number in range(20)]
        for number, pool in enumerate(pools):
            pool.poll_ms = 1_000
            schedule.add(pool, 5_001 + number * 20)
        at = schedule.next_at_ms()
        assert at is not None
        assert schedule.take_due(at) == pools

    def test_adding_again_does_not_put_it_off(self) -> None:
        schedule, pool = make_schedule(), make_pool()
        schedule.add(pool, 1_000)
        pool.poll_ms = 1_000
        schedule.add(pool, 1_050)
        assert schedule.next_at_ms() == 1_100

    def test_adding_again_may_bring_it_forward(self) -> None:
        schedule, pool = make_schedule(), make_pool()
        pool.poll_ms = 1_000
        schedule.add(pool, 1_000)
        schedule.reset(pool)
        schedule.add(pool, 1_050)
        assert schedule.next_at_ms() == 1_100
        assert schedule.take_due(1_100) == [pool]
        assert schedule.take_due(9_999) == [], "once is enough"

    def test_pools_come_in_the_order_of_their_times(self) -> None:
        schedule = make_schedule()
        slow, fast = make_pool(), make_pool()
        slow.poll_ms = 1_000
        schedule.add(slow, 1_000)
        schedule.add(fast, 1_000)
        assert schedule.take_due(5_000) == [fast, slow]

    def test_a_busy_pool_is_polled_at_the_most_interval(self) -> None:
        schedule, pool = make_schedule(), make_pool()
        schedule.add(pool, 1_000, is_busy=True)
        assert schedule.next_at_ms() == 2_000
        schedule.add(pool, 1_050)
        assert schedule.next_at_ms() == 1_100, "until it is not busy any more"


class TestDueTimes:
    def test_a_pool_is_polled_when_its_first_partition_is_due(self) -> None:
        schedule, pool = make_schedule(), make_pool()
        pool.poll_ms = 1_000
        pool.due_at_ms = 1_234.5
        schedule.add(pool, 1_000)
        assert schedule.next_at_ms() == 1_234.5

    def test_a_due_time_after_the_interval_changes_nothing(self) -> None:
        schedule, pool = make_schedule(), make_pool()
        pool.due_at_ms = 60_000
        schedule.add(pool, 1_000)
        assert schedule.next_at_ms() == 1_100

    def test_a_due_time_learnt_later_brings_the_poll_forward(self) -> None:
        schedule, pool = make_schedule(), make_pool()
        pool.poll_ms = 1_000
        schedule.add(pool, 1_000)
        pool.due_at_ms = 1_200
        schedule.add(pool, 1_150)
        assert schedule.next_at_ms() == 1_200

    def test_a_due_time_is_over_once_it_was_met_and_kept_until_then(self) -> None:
        schedule, pool = make_schedule(), make_pool()
        pool.due_at_ms = 1_250
        schedule.add(pool, 1_000)
        assert schedule.take_due(1_100) == [pool]
        assert pool.due_at_ms == 1_250
        schedule.add(pool, 1_190)
        assert schedule.next_at_ms() == 1_200
        schedule.take_due(1_200)
        schedule.add(pool, 1_210)
        assert schedule.take_due(1_250) == [pool]
        assert pool.due_at_ms is None

    def test_a_due_time_that_has_passed_is_met_once_and_makes_no_busy_loop(self) -> None:
        schedule, pool = make_schedule(), make_pool()
        pool.due_at_ms = 500
        schedule.add(pool, 1_000)
        assert schedule.next_at_ms() == 1_001
        assert schedule.take_due(1_001) == [pool]
        schedule.add(pool, 1_001)
        assert schedule.next_at_ms() == 1_100
