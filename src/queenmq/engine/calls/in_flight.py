"""Decides how many calls of one kind are in flight at once. Pure: no clock, no I/O.

Fewer calls are larger and cost less per request. More calls keep the database busy while some
travel or wait for a commit. The best number depends on the distance to the database, so it follows
measurements: how long a call waits, how much work it brings, and how many requests there are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

#: The cost of an almost empty call: the work of the database to start one.
_START_MS = 0.4
#: Calls that the database can process in parallel. A broker rarely keeps more cores busy.
_CORES = 3
#: Take the smallest number that is expected to reach this share of the best rate.
_ENOUGH = 0.95
#: A database next to the broker answers within this time, most of which is its disk. There, more
#: calls divide the same work into smaller parts: with 16 clients a push cost a tenth more CPU.
NEAR_MS = 1.5
#: How much the newest call counts in the averages.
_NEWEST = 0.1


class CallLoad(NamedTuple):
    """The recent measurements of a path."""

    #: Time that a call spends travelling and waiting for its commit, whatever it carries.
    wait_ms: float
    #: Total time of a call.
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
    """Return the smallest number of calls that is nearly as fast as the best one."""
    if load.wait_ms <= NEAR_MS:
        return least
    # More calls than requests gain nothing.
    most = max(least, min(most, math.ceil(load.outstanding)))
    rates = {count: _expected_rate(load, count) for count in range(least, most + 1)}
    enough = _ENOUGH * max(rates.values())
    return next(count for count, rate in rates.items() if rate >= enough)


def _expected_rate(load: CallLoad, calls: int) -> float:
    """Return how many requests this many calls answer in a millisecond.

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
        """Return whether the number follows measurements."""
        return self._least < self.most

    def note(self, call: EndedCall, *, outstanding: int, wait_ms: float, room: int) -> None:
        """Learn from a call that has ended and choose a new number, at most `room`."""
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
