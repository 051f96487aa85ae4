"""Laws of the poll schedule, over random waits, due times and moments."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from queenmq.engine.pop.board.poll_schedule import PollSchedule
from queenmq.engine.pop.board.pool import Pool
from tests.support.pops import make_pool

LEAST_MS, MOST_MS = 100, 1_000
moments = st.floats(0, 1e9, allow_nan=False, width=32)
intervals = st.floats(LEAST_MS, MOST_MS, width=32)


def make_schedule() -> PollSchedule:
    return PollSchedule(
        min_interval_ms=LEAST_MS, max_interval_ms=MOST_MS, listening_interval_ms=MOST_MS
    )


@given(now=moments, interval=intervals)
def test_a_poll_is_never_in_the_past_and_never_later_than_the_interval(
    now: float, interval: float
) -> None:
    schedule, pool = make_schedule(), make_pool()
    pool.poll_ms = interval
    schedule.add(pool, now)
    at = schedule.next_at_ms()
    assert at is not None and now < at <= now + interval


@given(now=moments, interval=intervals, due=moments)
def test_a_due_time_is_met_as_far_as_it_lies_before_the_poll(
    now: float, interval: float, due: float
) -> None:
    schedule, pool = make_schedule(), make_pool()
    pool.poll_ms, pool.due_at_ms = interval, due
    schedule.add(pool, now)
    at = schedule.next_at_ms()
    assert at is not None and now < at <= now + interval
    assert at <= max(due, now + 1)


@given(
    start=moments, late=st.lists(st.floats(0, 499, width=32), min_size=1), steps=st.integers(0, 4)
)
def test_equal_intervals_share_their_times(start: float, late: list[float], steps: int) -> None:
    schedule = make_schedule()
    interval = min(LEAST_MS * 2**steps, MOST_MS)
    width = max(LEAST_MS, interval / 2)
    pools = []
    for offset in late:
        pool = make_pool()
        pool.poll_ms = interval
        # All of them within one field of the grid.
        schedule.add(pool, start // width * width + offset % width)
        pools.append(pool)
    assert len({pool.poll_at_ms for pool in pools}) == 1


@given(st.lists(st.booleans(), max_size=20))
def test_back_off_doubles_between_its_bounds_and_starts_anew(resets: list[bool]) -> None:
    schedule, pool = make_schedule(), make_pool()
    expected = 0.0
    for is_reset in resets:
        if is_reset:
            schedule.reset(pool)
            expected = LEAST_MS
        else:
            schedule.back_off(pool)
            expected = min(max(2 * expected, LEAST_MS), MOST_MS)
        assert pool.poll_ms == expected


class ScheduleMachine(RuleBasedStateMachine):
    """Some pools that wait, and a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = make_schedule()
        self.pools = [make_pool() for _ in range(4)]
        self.now = 0.0
        #: The time by which each pool that was added has to be polled.
        self.by: dict[Pool, float] = {}

    @rule(which=st.integers(0, 3), due=st.none() | st.floats(-500, 3_000, width=16))
    def park(self, which: int, due: float | None) -> None:
        pool = self.pools[which]
        if due is not None:
            pool.due_at_ms = self.now + due
        self.schedule.add(pool, self.now)
        latest = self.now + max(pool.poll_ms, LEAST_MS)
        if pool.due_at_ms is not None:
            latest = min(latest, max(pool.due_at_ms, self.now + 1))
        self.by[pool] = min(latest, self.by.get(pool, latest))

    @rule(which=st.integers(0, 3), is_news=st.booleans())
    def hear(self, which: int, is_news: bool) -> None:
        (self.schedule.reset if is_news else self.schedule.back_off)(self.pools[which])

    @rule()
    def sleep_until_next(self) -> None:
        at = self.schedule.next_at_ms()
        if at is not None:
            assert at > self.now, "time goes on between two polls"
            self.pass_to(at)

    @rule(ms=st.floats(0.5, 400, width=16))
    def oversleep(self, ms: float) -> None:
        self.pass_to(self.now + ms)

    def pass_to(self, now: float) -> None:
        self.now = now
        due = self.schedule.take_due(now)
        assert len(due) == len(set(due))
        assert set(due) >= {pool for pool, by in self.by.items() if by <= now}
        for pool in due:
            assert pool in self.by, "nobody is polled who was not added"
            del self.by[pool]
            assert pool.due_at_ms is None or pool.due_at_ms > now

    @invariant()
    def whoever_was_added_has_a_time(self) -> None:
        at = self.schedule.next_at_ms()
        assert (at is None) == (not self.by)
        if at is not None:
            assert at <= min(self.by.values())


def test_whoever_is_added_is_polled_in_time_and_once() -> None:
    run_state_machine_as_test(ScheduleMachine)


@given(start=moments, dues=st.lists(st.floats(-1_000, 2_000, width=16), max_size=5))
def test_a_pool_that_finds_nothing_is_polled_seldom(start: float, dues: list[float]) -> None:
    # Every look-up finds nothing to try and tells of a due time, perhaps one that has passed.
    schedule, pool = make_schedule(), make_pool()
    now, polls = start, 0
    while now < start + 10_000:
        schedule.back_off(pool)
        if polls < len(dues):
            pool.due_at_ms = now + dues[polls]
        schedule.add(pool, now)
        at = schedule.next_at_ms()
        assert at is not None and at > now
        now = at
        assert schedule.take_due(now) == [pool]
        polls += 1
    assert polls <= len(dues) + 4 + 10_000 / (MOST_MS / 2) + 1
