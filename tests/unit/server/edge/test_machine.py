"""The table of a connection's states: complete, connected, and drawn as it is."""

from __future__ import annotations

import itertools

import pytest

from queenmq.server.edge.machine import TRANSITIONS, Event, State, WrongStep, draw, step

PAIRS = list(itertools.product(State, Event))


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=lambda one: one.name)
def test_every_pair_steps_as_the_table_says_or_names_both(state: State, event: Event) -> None:
    if event in TRANSITIONS[state]:
        assert step(state, event) is TRANSITIONS[state][event]
    else:
        with pytest.raises(WrongStep, match=f"{state.value}.*{event.value}"):
            step(state, event)


@pytest.mark.parametrize("start", State, ids=lambda one: one.name)
def test_closed_is_reachable_from_every_state(start: State) -> None:
    reached, open_ends = {start}, [start]
    while open_ends:
        for following in TRANSITIONS[open_ends.pop()].values():
            if following not in reached:
                reached.add(following)
                open_ends.append(following)
    assert State.CLOSED in reached


def test_a_refused_request_is_never_worked_on() -> None:
    after = {steps[Event.REFUSED] for steps in TRANSITIONS.values() if Event.REFUSED in steps}
    assert after == {State.CLOSING}
    assert TRANSITIONS[State.CLOSING] == {Event.LOST: State.CLOSED}


def test_the_drawing_has_every_step_and_no_other() -> None:
    lines = {line.strip() for line in draw().splitlines()[2:-1]}
    assert lines == {
        f"{state.name} --> {to.name}: {event.value}"
        for state, steps in TRANSITIONS.items()
        for event, to in steps.items()
    }
