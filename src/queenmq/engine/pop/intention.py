"""One pop on its way through the broker. Pure: times come in as arguments."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from queenmq.engine.pop.machine import FINAL, WAITING, PopEvent, PopState, step
from queenmq.engine.requests import PopGrant, PopRequest

_numbers = itertools.count(1)
_PENDING = PopState.PENDING


@dataclass(frozen=True, slots=True)
class PopAnswer:
    """Messages per partition, or none and the reason."""

    grants: Sequence[PopGrant]
    reason: str = ""
    is_timeout: bool = False


class Timed(Protocol):
    """Told how long something took, in seconds."""

    def observe(self, value: float) -> None: ...


class StateTimes:
    """Counts entries into each state and measures the time in it."""

    def __init__(self, seconds: Mapping[PopState, Timed]) -> None:
        #: By the number of the state.
        self.entries = [0] * (max(PopState) + 1)
        self.observers = {state: timed.observe for state, timed in seconds.items()}


class Intention:
    """One pop: its request, its state, and its place among the waiters."""

    __slots__ = (
        "_since_ms",
        "_times",
        "answer",
        "behind",
        "broken_calls",
        "came_at_ms",
        "is_expired",
        "last_outcome",
        "number",
        "request",
        "state",
        "tick",
        "timer",
        "tries",
    )

    def __init__(
        self, request: PopRequest, *, tick: int, answer: Any, now_ms: float, times: StateTimes
    ) -> None:
        self.request = request
        self.number = next(_numbers)
        #: A look-up with a higher tick has seen everything pushed before the pop arrived.
        self.tick = tick
        #: The newest pop of its pool that was in a call when this one arrived, or returned.
        self.behind = 0
        #: The caller that waits for the answer. Opaque here.
        self.answer = answer
        self.timer: Any = None
        self.state = _PENDING
        self.is_expired = False
        #: Calls in a row whose candidates were locked, or that failed.
        self.tries = 0
        self.broken_calls = 0
        self.last_outcome = ""
        self.came_at_ms = now_ms
        self._since_ms = now_ms
        self._times = times
        times.entries[_PENDING] += 1

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def is_waiting(self) -> bool:
        return self.state in WAITING

    @property
    def may_wait(self) -> bool:
        return self.request.wait_ms is not None and not self.is_expired

    def move(self, event: PopEvent, now_ms: float) -> None:
        """Move to the state that the table has for this event."""
        before, after = self.state, step(self.state, event)
        self.state = after
        self._times.entries[after] += 1
        self._times.observers[before]((now_ms - self._since_ms) / 1000)
        self._since_ms = now_ms
