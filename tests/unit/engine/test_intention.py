"""One pop: its place, its patience, and the time it spends in each state."""

from __future__ import annotations

from queenmq.engine.pop.machine import PopEvent, PopState
from tests.support.pops import TalliedTimes, make_intention, told


def test_starts_pending() -> None:
    intention = make_intention()
    assert intention.state is PopState.PENDING
    assert intention.is_waiting and not intention.is_final


def test_moves_by_the_table() -> None:
    intention = make_intention()
    intention.move(PopEvent.ASSIGNED, 1)
    assert intention.state is PopState.LEASING
    assert not intention.is_waiting
    intention.move(PopEvent.GRANTED, 2)
    assert intention.is_final


def test_numbers_ascend_with_arrival() -> None:
    crowd = [make_intention() for _ in range(5)]
    assert sorted(crowd, key=lambda one: one.number) == crowd
    assert len({one.number for one in crowd}) == 5


def test_may_wait_only_if_asked_to_and_in_time() -> None:
    waiting = make_intention(wait_ms=0)
    assert waiting.may_wait
    waiting.is_expired = True
    assert not waiting.may_wait
    assert not make_intention(wait_ms=None).may_wait


def test_times_add_up_over_states_and_pops() -> None:
    times = TalliedTimes()
    for start in (100, 200):
        intention = make_intention(times=times, now_ms=start)
        intention.move(PopEvent.LOOK_UP, start + 1)
        intention.move(PopEvent.ASSIGNED, start + 11)
        intention.move(PopEvent.REFUSED, start + 14)
        intention.move(PopEvent.DRY, start + 15)
    entries, total_ms = told(times)
    assert entries == {
        **dict.fromkeys(PopState, 0),
        PopState.PENDING: 4,
        PopState.RESOLVING: 2,
        PopState.LEASING: 2,
        PopState.EMPTY: 2,
    }
    assert total_ms == {
        **dict.fromkeys(PopState, 0),
        PopState.PENDING: 4,
        PopState.RESOLVING: 20,
        PopState.LEASING: 6,
    }
