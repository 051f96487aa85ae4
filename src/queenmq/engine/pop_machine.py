"""The states of one pop request. Pure: tables and one step function.

PENDING    in its pool: waits for a partition to try
LEASING    in a database call that tries to lease and fetch for it
ABANDONED  its caller left during the call; what the call leases is handed back
COMPLETED  answered with messages
EMPTY      answered without messages, or its caller left before any call
FAILED     answered with an error
"""

from __future__ import annotations

import enum


class PopState(enum.Enum):
    """Where a pop is; see the module's text."""

    PENDING = enum.auto()
    LEASING = enum.auto()
    ABANDONED = enum.auto()
    COMPLETED = enum.auto()
    EMPTY = enum.auto()
    FAILED = enum.auto()


class PopEvent(enum.Enum):
    """What may happen to a pop."""

    ASSIGNED = enum.auto()
    GRANTED = enum.auto()
    REFUSED = enum.auto()
    DRY = enum.auto()
    ERROR = enum.auto()
    CALLER_LEFT = enum.auto()


_S, _E = PopState, PopEvent

TRANSITIONS: dict[PopState, dict[PopEvent, PopState]] = {
    _S.PENDING: {
        _E.ASSIGNED: _S.LEASING,
        _E.DRY: _S.EMPTY,
        _E.ERROR: _S.FAILED,
        _E.CALLER_LEFT: _S.EMPTY,
    },
    _S.LEASING: {
        _E.GRANTED: _S.COMPLETED,
        _E.REFUSED: _S.PENDING,
        _E.ERROR: _S.PENDING,
        _E.CALLER_LEFT: _S.ABANDONED,
    },
    _S.ABANDONED: {_E.GRANTED: _S.EMPTY, _E.REFUSED: _S.EMPTY, _E.ERROR: _S.EMPTY},
    _S.COMPLETED: {},
    _S.EMPTY: {},
    _S.FAILED: {},
}

#: States that nothing leaves.
FINAL = frozenset(state for state, moves in TRANSITIONS.items() if not moves)


def step(state: PopState, event: PopEvent) -> PopState:
    """The state after an event; a pair that must not happen raises and names both."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise AssertionError(f"pop in state {state.name} cannot take event {event.name}") from None
