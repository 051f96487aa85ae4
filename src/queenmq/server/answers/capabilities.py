"""Decides what a broker can do now, for each kind of request. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from queenmq.engine.load.pressure import OperationType

#: A kind of call counts as failing for this long after a failure, unless one succeeds.
_FAILURE_MS = 10_000.0

#: Kinds of requests by the calls they need. Pushes are judged by the spool instead.
_CALLS = {
    "pop": (OperationType.POP,),
    "ack": (OperationType.ACK_BATCH, OperationType.ACK_SINGLE),
    "transaction": (OperationType.PUSH,),
    "admin": (OperationType.SYSTEM_EVENT,),
}
NAMES = ("push", *_CALLS)


class Capability(NamedTuple):
    """The state of one kind of request."""

    #: Of pushes: `stored`, `spooled` or `refused`. Of others: `served`, `paused` or `refused`.
    status: str
    reason: str | None = None
    #: Whether this is the normal state.
    is_well: bool = True

    @property
    def is_accepted(self) -> bool:
        """Return whether such requests are worth sending here."""
        return self.status != "refused"


class Failure(NamedTuple):
    """The last failure of a kind of call that has not succeeded since."""

    at_ms: float
    reason: str


class Circumstances(NamedTuple):
    """The input of the decision."""

    #: Why the database counts as down; None while it is up.
    outage: str | None
    failures: Mapping[OperationType, Failure]
    is_push_paused: bool
    is_pop_paused: bool
    #: Push requests on disk, why they cannot be drained, and why no more are accepted.
    spooled: int
    drain_trouble: str | None
    spool_trouble: str | None


def judge(now: Circumstances, now_ms: float) -> dict[str, Capability]:
    """Return the state of each kind of request."""
    found = {"push": _judge_push(now, now_ms)}
    for name, kinds in _CALLS.items():
        found[name] = _judge_calls(now, kinds, now_ms)
    if now.is_pop_paused and found["pop"].is_well:
        found["pop"] = Capability("paused", "maintenance")
    return found


def _judge_push(now: Circumstances, now_ms: float) -> Capability:
    trouble = now.outage or _trouble_of_pushes(now)
    is_spooling = trouble is not None or now.is_push_paused or now.spooled > 0
    if not is_spooling:
        # A fault does not send pushes to the spool. It is reported to the caller.
        failure = now.failures.get(OperationType.PUSH)
        is_fault = failure is not None and failure.reason == "fault"
        if failure is not None and is_fault and now_ms - failure.at_ms < _FAILURE_MS:
            return Capability("refused", "fault", is_well=False)
        return Capability("stored")
    if now.spool_trouble is not None:
        return Capability("refused", now.spool_trouble, is_well=False)
    if trouble is not None:
        return Capability("spooled", trouble, is_well=False)
    return Capability("spooled", "maintenance" if now.is_push_paused else "draining")


def _trouble_of_pushes(now: Circumstances) -> str | None:
    """Return why pushes on disk cannot be stored."""
    if not now.spooled or now.is_push_paused:
        return None
    if now.drain_trouble is not None:
        return now.drain_trouble
    # Another process of the broker drains; it fails for the same reason as our last push.
    failure = now.failures.get(OperationType.PUSH)
    return None if failure is None else failure.reason


def _judge_calls(now: Circumstances, kinds: tuple[OperationType, ...], now_ms: float) -> Capability:
    if now.outage is not None:
        return Capability("refused", now.outage, is_well=False)
    for kind in kinds:
        failure = now.failures.get(kind)
        if failure is not None and now_ms - failure.at_ms < _FAILURE_MS:
            return Capability("refused", failure.reason, is_well=False)
    return Capability("served")
