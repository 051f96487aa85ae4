"""The states of a pop: every pair of state and event is either a move or a named error."""

from __future__ import annotations

import itertools
import re

import pytest

from queenmq.engine.pop.machine import (
    FINAL,
    TRANSITIONS,
    WAITING,
    PopEvent,
    PopState,
    diagram,
    step,
)
from tests.support.pops import make_intention, told

S, E = PopState, PopEvent
PAIRS = list(itertools.product(PopState, PopEvent))

#: The whole machine once more, read from what each state and event means.
MOVES = {
    (S.PENDING, E.LOOK_UP): S.RESOLVING,
    (S.RESOLVING, E.LOOKED_UP): S.PENDING,
    (S.PENDING, E.ASSIGNED): S.LEASING,
    (S.RESOLVING, E.ASSIGNED): S.LEASING,
    (S.PENDING, E.DRY): S.EMPTY,
    (S.RESOLVING, E.DRY): S.EMPTY,
    (S.PENDING, E.CALLER_LEFT): S.EMPTY,
    (S.RESOLVING, E.CALLER_LEFT): S.EMPTY,
    (S.LEASING, E.LEASED): S.FETCHING,
    **{(state, E.GRANTED): S.COMPLETED for state in (S.LEASING, S.FETCHING)},
    **{(state, E.REFUSED): S.PENDING for state in (S.LEASING, S.FETCHING)},
    **{(state, E.BROKEN): S.PENDING for state in (S.LEASING, S.FETCHING)},
    **{(state, E.CALLER_LEFT): S.ABANDONED for state in (S.LEASING, S.FETCHING)},
    **{(state, E.ERROR): S.FAILED for state in (S.PENDING, S.RESOLVING, S.LEASING, S.FETCHING)},
    **{(S.ABANDONED, event): S.EMPTY for event in (E.GRANTED, E.LEASED, E.REFUSED, E.BROKEN)},
}

#: The shortest way from the start to each state.
WAYS = {
    S.PENDING: [],
    S.RESOLVING: [E.LOOK_UP],
    S.LEASING: [E.ASSIGNED],
    S.FETCHING: [E.ASSIGNED, E.LEASED],
    S.ABANDONED: [E.ASSIGNED, E.CALLER_LEFT],
    S.COMPLETED: [E.ASSIGNED, E.GRANTED],
    S.EMPTY: [E.DRY],
    S.FAILED: [E.ERROR],
}


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=lambda value: value.name)
def test_every_pair_moves_as_written_or_raises_and_names_both(
    state: PopState, event: PopEvent
) -> None:
    if (state, event) in MOVES:
        assert step(state, event) is TRANSITIONS[state][event] is MOVES[state, event]
        return
    assert event not in TRANSITIONS[state]
    with pytest.raises(AssertionError) as caught:
        step(state, event)
    assert state.name in str(caught.value)
    assert event.name in str(caught.value)


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=lambda value: value.name)
def test_a_pop_takes_the_step_or_stays_as_it_was(state: PopState, event: PopEvent) -> None:
    intention = make_intention()
    for way in WAYS[state]:
        intention.move(way, 10)
    assert intention.state is state
    times = intention._times
    before = told(times)
    if (state, event) in MOVES:
        intention.move(event, 25)
        assert intention.state is MOVES[state, event]
        entries, total_ms = told(times)
        assert entries[intention.state] == before[0][intention.state] + 1
        assert total_ms[state] == before[1][state] + 25 - (10 if WAYS[state] else 0)
    else:
        with pytest.raises(AssertionError):
            intention.move(event, 25)
        assert intention.state is state
        assert told(times) == before
    assert intention.is_final == (intention.state in FINAL)
    assert intention.is_waiting == (intention.state in WAITING)


def test_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(PopState)


def test_final_states_are_those_that_answer() -> None:
    assert {S.COMPLETED, S.EMPTY, S.FAILED} == FINAL


def test_waiting_states_are_those_in_a_pool() -> None:
    assert {S.PENDING, S.RESOLVING} == WAITING


@pytest.mark.parametrize("state", PopState, ids=lambda state: state.name)
def test_a_final_state_is_reachable_from_every_state(state: PopState) -> None:
    assert _reachable(state) & FINAL


@pytest.mark.parametrize("state", PopState, ids=lambda state: state.name)
def test_every_state_is_reachable_from_the_start(state: PopState) -> None:
    assert state in _reachable(S.PENDING)


@pytest.mark.parametrize("event", PopEvent, ids=lambda event: event.name)
def test_every_event_is_taken_somewhere(event: PopEvent) -> None:
    assert any(event in moves for moves in TRANSITIONS.values())


@pytest.mark.parametrize(
    "state", [S.PENDING, S.RESOLVING, S.LEASING, S.FETCHING], ids=lambda state: state.name
)
def test_a_caller_may_leave_every_state_that_waits_for_an_answer(state: PopState) -> None:
    after = step(state, E.CALLER_LEFT)
    assert after is (S.EMPTY if state in WAITING else S.ABANDONED)


def test_what_a_call_brings_for_a_caller_who_left_never_completes() -> None:
    assert set(TRANSITIONS[S.ABANDONED].values()) == {S.EMPTY}


@pytest.mark.parametrize("state", [S.LEASING, S.FETCHING], ids=lambda state: state.name)
def test_every_end_of_a_call_has_a_place_for_a_caller_who_left(state: PopState) -> None:
    # An error of a call reaches somebody who left as a broken call.
    ends = set(TRANSITIONS[state]) - {E.CALLER_LEFT, E.ERROR}
    assert ends <= set(TRANSITIONS[S.ABANDONED])


def test_the_diagram_mentions_every_transition_and_no_other() -> None:
    drawn = set()
    for line in diagram().splitlines()[1:]:
        arrow = re.fullmatch(r" {4}(\[\*\]|\w+) --> (\[\*\]|\w+)(?:: (.+))?", line)
        assert arrow, line
        source, target, events = arrow.groups()
        if "[*]" not in (source, target):
            drawn |= {(S[source], E[event.upper()], S[target]) for event in events.split(", ")}
    assert drawn == {(state, event, after) for (state, event), after in MOVES.items()}


def test_the_diagram_begins_and_ends_where_a_pop_does() -> None:
    lines = [line.strip() for line in diagram().splitlines()]
    assert lines[0] == "stateDiagram-v2"
    assert [line for line in lines if line.startswith("[*]")] == ["[*] --> PENDING"]
    assert {line.split()[0] for line in lines if line.endswith("[*]")} == {s.name for s in FINAL}


def _reachable(state: PopState) -> set[PopState]:
    found, fresh = set(), {state}
    while fresh:
        found |= fresh
        fresh = {after for one in fresh for after in TRANSITIONS[one].values()} - found
    return found
