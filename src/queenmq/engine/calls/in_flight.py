"""How many calls of one kind are in flight at once. Pure: no clock, no I/O.

Fewer calls are larger and cost less per request. More calls keep the database at work while others
of them travel or wait for a commit. Which of the two counts depends on how far away the database
is, so the number follows what is measured: the time that a call spends waiting, the work that it
brings, and the requests there are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

#: Work of a call that carries next to nothing: starting it costs the database about this much.
_START_MS = 0.4
#: Calls that the database can work on at the same time. A broker seldom keeps more cores busy.
_CORES = 3
#: Take the smallest number that is expected to reach this share of the best rate.
_ENOUGH = 0.95
#: How much the newest call counts in the averages.
_NEWEST = 0.1


class CallLoad(NamedTuple):
    """What a path has measured lately."""

    #: Time that a call spends travelling and waiting for its commit, whatever it carries.
    wait_ms: float
    #: Time that a call takes in all.
    call_ms: float
    #: Requests in a call, and requests that wait or are in calls.
    requests: float
    outstanding: float
    #: Requests that fit into one call.
    requests_max: float


class EndedCall(NamedTuple):
    """A call as it went."""

    took_ms: float
    requests: int
    rows: int


def decide_in_flight(load: CallLoad, *, least: int, most: int) -> int:
    """Return the smallest number of calls that serves these requests nearly as fast as can be."""
    # Nothing is gained by more calls than requests.
    most = max(least, min(most, math.ceil(load.outstanding)))
    rates = {count: _expected_rate(load, count) for count in range(least, most + 1)}
    enough = _ENOUGH * max(rates.values())
    return next(count for count, rate in rates.items() if rate >= enough)


def _expected_rate(load: CallLoad, calls: int) -> float:
    """Return the requests that so many calls answer in a millisecond.

    While the calls are under way, the requests for the next one gather: there is one more share of
    requests than calls. A call takes its wait and its work, and all calls together cannot do more
    work than the cores allow.
    """
    work_ms = max(load.call_ms - load.wait_ms, _START_MS)
    request_ms = (work_ms - _START_MS) / max(load.requests, 1.0)
    share = max(1.0, min(load.outstanding / (calls + 1), load.requests_max))
    share_ms = _START_MS + request_ms * share
    return share * min(calls / (load.wait_ms + share_ms), _CORES / share_ms)


class InFlight:
    """The number of calls that one path may have in flight, between `least` and `most`."""

    def __init__(self, least: int, most: int, *, rows_max: int) -> None:
        self._least = least
        self.most = most
        self._rows_max = rows_max
        #: How many calls may be in flight now.
        self.limit = least
        self._call_ms = 0.0
        self._requests = 0.0
        self._rows = 0.0
        self._outstanding = 0.0

    @property
    def is_adaptive(self) -> bool:
        """Whether the number follows what is measured."""
        return self._least < self.most

    def note(self, call: EndedCall, *, outstanding: int, wait_ms: float, room: int) -> None:
        """Learn from a call that has ended, and decide anew; room is for so many calls."""
        if not self.is_adaptive:
            return
        share = _NEWEST if self._call_ms else 1.0
        self._call_ms += share * (call.took_ms - self._call_ms)
        self._requests += share * (call.requests - self._requests)
        self._rows += share * (call.rows - self._rows)
        self._outstanding += share * (outstanding - self._outstanding)
        load = CallLoad(
            wait_ms=wait_ms,
            call_ms=self._call_ms,
            requests=self._requests,
            outstanding=self._outstanding,
            requests_max=self._rows_max * self._requests / max(self._rows, 1.0),
        )
        most = max(self._least, min(self.most, room))
        self.limit = decide_in_flight(load, least=self._least, most=most)
