"""The states of a pop: every pair of state and event is either a move or a named error."""

from __future__ import annotations

import itertools

import pytest

from queenmq.engine.pop_machine import FINAL, TRANSITIONS, PopEvent, PopState, step

PAIRS = list(itertools.product(PopState, PopEvent))


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=lambda value: value.name)
def test_every_pair_moves_or_raises_and_names_both(state: PopState, event: PopEvent) -> None:
    if event in TRANSITIONS[state]:
        assert step(state, event) is TRANSITIONS[state][event]
        return
    with pytest.raises(AssertionError) as caught:
        step(state, event)
    assert state.name in str(caught.value)
    assert event.name in str(caught.value)


def test_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(PopState)


def test_final_states_are_those_that_answer() -> None:
    assert {PopState.COMPLETED, PopState.EMPTY, PopState.FAILED} == FINAL


@pytest.mark.parametrize("state", PopState, ids=lambda state: state.name)
def test_a_final_state_is_reachable_from_every_state(state: PopState) -> None:
    assert _reachable(state) & FINAL


@pytest.mark.parametrize("state", PopState, ids=lambda state: state.name)
def test_every_state_is_reachable_from_the_start(state: PopState) -> None:
    assert state in _reachable(PopState.PENDING)


@pytest.mark.parametrize("event", PopEvent, ids=lambda event: event.name)
def test_every_event_is_taken_somewhere(event: PopEvent) -> None:
    assert any(event in moves for moves in TRANSITIONS.values())


def test_a_caller_may_leave_every_state_that_waits_for_an_answer() -> None:
    for state in (PopState.PENDING, PopState.LEASING):
        after = step(state, PopEvent.CALLER_LEFT)
        assert after in (PopState.ABANDONED, PopState.EMPTY)


def test_what_a_call_brings_for_a_caller_who_left_never_completes() -> None:
    for event in (PopEvent.GRANTED, PopEvent.REFUSED, PopEvent.ERROR):
        assert step(PopState.ABANDONED, event) is PopState.EMPTY


def _reachable(state: PopState) -> set[PopState]:
    found, fresh = set(), {state}
    while fresh:
        found |= fresh
        fresh = {after for one in fresh for after in TRANSITIONS[one].values()} - found
    return found
