"""The states of one pop request. Pure: one table, one step function, and a picture of the table.

PENDING    in its pool: waits for a partition to try, or for news
RESOLVING  in its pool, while a look-up that began after it came is on its way
LEASING    in a database call that leases and, as a rule, fetches for it
FETCHING   leased a batch too large to read beside others; a call of its own reads it
ABANDONED  its caller left during a call; what the call leases is handed back
COMPLETED  answered with messages
EMPTY      answered without messages, or its caller has left
FAILED     answered with an error
"""

from __future__ import annotations

# IntEnum: its members are looked up in tables at each step, and hash as fast as numbers.
import enum


class PopState(enum.IntEnum):
    """The state of a pop. See the module's text."""

    PENDING = enum.auto()
    RESOLVING = enum.auto()
    LEASING = enum.auto()
    FETCHING = enum.auto()
    ABANDONED = enum.auto()
    COMPLETED = enum.auto()
    EMPTY = enum.auto()
    FAILED = enum.auto()


class PopEvent(enum.IntEnum):
    """An event of a pop."""

    #: A look-up for its pool begins, and ends.
    LOOK_UP = enum.auto()
    LOOKED_UP = enum.auto()
    #: The plan gave it partitions to try.
    ASSIGNED = enum.auto()
    #: A lease without messages yet, messages, or nothing in the tried partitions.
    LEASED = enum.auto()
    GRANTED = enum.auto()
    REFUSED = enum.auto()
    #: A call failed: worth another try, or not.
    BROKEN = enum.auto()
    ERROR = enum.auto()
    #: Nothing to deliver, and no time left to wait.
    DRY = enum.auto()
    CALLER_LEFT = enum.auto()


_S, _E = PopState, PopEvent

TRANSITIONS: dict[PopState, dict[PopEvent, PopState]] = {
    _S.PENDING: {
        _E.LOOK_UP: _S.RESOLVING,
        _E.ASSIGNED: _S.LEASING,
        _E.DRY: _S.EMPTY,
        _E.ERROR: _S.FAILED,
        _E.CALLER_LEFT: _S.EMPTY,
    },
    _S.RESOLVING: {
        _E.LOOKED_UP: _S.PENDING,
        # A push may come before the look-up ends.
        _E.ASSIGNED: _S.LEASING,
        _E.DRY: _S.EMPTY,
        _E.ERROR: _S.FAILED,
        _E.CALLER_LEFT: _S.EMPTY,
    },
    _S.LEASING: {
        _E.GRANTED: _S.COMPLETED,
        _E.LEASED: _S.FETCHING,
        _E.REFUSED: _S.PENDING,
        _E.BROKEN: _S.PENDING,
        _E.ERROR: _S.FAILED,
        _E.CALLER_LEFT: _S.ABANDONED,
    },
    _S.FETCHING: {
        _E.GRANTED: _S.COMPLETED,
        _E.REFUSED: _S.PENDING,
        _E.BROKEN: _S.PENDING,
        _E.ERROR: _S.FAILED,
        _E.CALLER_LEFT: _S.ABANDONED,
    },
    _S.ABANDONED: {
        _E.GRANTED: _S.EMPTY,
        _E.LEASED: _S.EMPTY,
        _E.REFUSED: _S.EMPTY,
        _E.BROKEN: _S.EMPTY,
    },
    _S.COMPLETED: {},
    _S.EMPTY: {},
    _S.FAILED: {},
}

#: States that nothing leaves.
FINAL = frozenset(state for state, moves in TRANSITIONS.items() if not moves)
#: States in which a pop is in its pool.
WAITING = frozenset((_S.PENDING, _S.RESOLVING))


def step(state: PopState, event: PopEvent) -> PopState:
    """Return the state after an event. Raises if the event must not happen in this state."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise AssertionError(f"pop in state {state.name} cannot take event {event.name}") from None


def diagram() -> str:
    """Return the table as a Mermaid state diagram, for the architecture page."""
    lines = ["stateDiagram-v2", "    [*] --> PENDING"]
    for state, moves in TRANSITIONS.items():
        targets: dict[PopState, list[str]] = {}
        for event, target in moves.items():
            targets.setdefault(target, []).append(event.name.lower())
        lines += [
            f"    {state.name} --> {target.name}: {', '.join(events)}"
            for target, events in targets.items()
        ]
        if not moves:
            lines.append(f"    {state.name} --> [*]")
    return "\n".join(lines)
