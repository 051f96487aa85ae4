"""The states of one connection, and the one table that changes them.

A connection handles one request at a time. While a request is WORKING, bytes of later requests wait
in the connection's buffer, so pipelined requests are answered in order, and none of them starts for
a client that has left. A refused request never reaches WORKING. Its connection goes to CLOSING, and
later bytes are ignored.

A large compressed body is decoded in a thread, in DECODING. The decoded body may still be refused.

Each state has its own time limit, see `crowd.py`: IDLE the keep-alive, HEAD the time to send a
head, BODY the pace of a body, CLOSING the time to read the last answer. WORKING has none, because
long polls wait there, and DECODING none, because the client can do nothing about it.
"""

from __future__ import annotations

import enum


class State(enum.Enum):
    """The state of a connection."""

    #: No byte of a request has arrived.
    IDLE = "idle"
    #: Part of a head has arrived.
    HEAD = "head"
    #: The head is complete and accepted, part of the body is missing.
    BODY = "body"
    #: All bytes of the request are there, and its body is being decoded.
    DECODING = "decoding"
    #: A complete request is with the application.
    WORKING = "working"
    #: The last answer was written; the rest of the input is ignored.
    CLOSING = "closing"
    CLOSED = "closed"

    # Enum's own hash is a Python function, and two of these are hashed for every step.
    __hash__ = object.__hash__


class Event(enum.Enum):
    """An event of a connection."""

    #: The first byte of a request arrived.
    BYTE = "byte"
    #: A head was accepted, and its body is not complete yet.
    FRAMED = "framed"
    #: All bytes of a request have arrived, and its body takes long to decode.
    ENCODED = "encoded"
    #: A request is complete.
    COMPLETE = "complete"
    #: The request was answered, and the connection may carry another.
    ANSWERED = "answered"
    #: The request was answered, and the connection ends with it.
    ANSWERED_LAST = "answered last"
    #: The request was refused by the edge.
    REFUSED = "refused"
    #: The server wants the connection to end, and no request is under way.
    DISMISSED = "dismissed"
    #: The connection is gone.
    LOST = "lost"

    __hash__ = object.__hash__


S, E = State, Event
TRANSITIONS: dict[State, dict[Event, State]] = {
    S.IDLE: {
        E.BYTE: S.HEAD,
        E.DISMISSED: S.CLOSING,
        E.LOST: S.CLOSED,
    },
    S.HEAD: {
        E.FRAMED: S.BODY,
        E.ENCODED: S.DECODING,
        E.COMPLETE: S.WORKING,
        E.REFUSED: S.CLOSING,
        E.DISMISSED: S.CLOSING,
        E.LOST: S.CLOSED,
    },
    S.BODY: {
        E.ENCODED: S.DECODING,
        E.COMPLETE: S.WORKING,
        E.REFUSED: S.CLOSING,
        E.DISMISSED: S.CLOSING,
        E.LOST: S.CLOSED,
    },
    S.DECODING: {
        E.COMPLETE: S.WORKING,
        E.REFUSED: S.CLOSING,
        E.LOST: S.CLOSED,
    },
    S.WORKING: {
        E.ANSWERED: S.IDLE,
        E.ANSWERED_LAST: S.CLOSING,
        E.LOST: S.CLOSED,
    },
    S.CLOSING: {E.LOST: S.CLOSED},
    S.CLOSED: {},
}


class WrongStep(AssertionError):
    """The table has no step for this event in this state. This is a bug."""


def step(state: State, event: Event) -> State:
    """Return the next state. Raises WrongStep if the table has none."""
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise WrongStep(f"a connection that is {state.value} cannot be {event.value}")
    return following


def draw() -> str:
    """Draw the table as a Mermaid diagram, for the docs."""
    lines = ["stateDiagram-v2", f"    [*] --> {S.IDLE.name}"]
    for state, steps in TRANSITIONS.items():
        lines += [f"    {state.name} --> {to.name}: {event.value}" for event, to in steps.items()]
    return "\n".join([*lines, f"    {S.CLOSED.name} --> [*]"])
