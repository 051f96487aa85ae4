"""Decides under load whether to execute, queue or refuse an operation. Pure: no clock, no I/O.

Pressure is one number: 0 is idle, 1 is as much as the broker should ever carry. Each type of
operation is engaged from its own threshold on, and stays so until the pressure is well below it. A
table says what engaging a type means. Bounds are checked before anything else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum, IntEnum, StrEnum
from typing import NamedTuple

#: Pressure of a fully used pool without waiting calls. It works well: below every threshold.
_FULL_POOL = 0.6
RETRY_AFTER_S_MAX = 30


class OperationType(IntEnum):
    """The kind of a request. The value is its priority: the lowest is served first."""

    SYSTEM_EVENT = 1
    ACK_BATCH = 3
    ACK_SINGLE = 4
    PUSH = 5
    POP = 6
    BACKGROUND = 8
    ANALYTICS = 10


class LoadDecision(StrEnum):
    """The decision about an operation."""

    EXECUTE = "execute"
    QUEUE = "queue"
    REJECT = "reject"


_EXECUTE = LoadDecision.EXECUTE


class SlotUse(NamedTuple):
    """Database connections in all, those in use, and calls that wait for one."""

    size: int
    in_use: int
    waiting: int


class Sample(NamedTuple):
    """The measures of one moment."""

    slots: SlotUse
    #: The fullest waiting line of requests: its depth, divided by its bound.
    fullness: float
    #: Age of the oldest push or ack that waits for a call.
    oldest_ms: float
    #: How late the event loop woke a timer.
    lag_ms: float
    operation_depth: int
    acks_waiting: int


class Limits(NamedTuple):
    """Measures that alone make a pressure of 1."""

    age_ms: float = 1_000
    lag_ms: float = 500


class Pressure(NamedTuple):
    """The input of a decision."""

    value: float = 0.0
    engaged: frozenset[OperationType] = frozenset()
    operation_depth: int = 0
    acks_waiting: int = 0


class Depth(Enum):
    """The count that is compared with the bound of a type."""

    OPERATIONS = "operations"
    ACKS = "acks"

    def of(self, pressure: Pressure) -> int:
        return pressure.acks_waiting if self is _ACKS else pressure.operation_depth


_ACKS = Depth.ACKS


class Threshold(NamedTuple):
    """The behaviour of one type of operation under load."""

    #: The type is engaged from this pressure on.
    engage_at: float
    #: Refused when engaged and this deep; 0 refuses as soon as it is engaged.
    bound: float = 0
    depth: Depth = Depth.OPERATIONS
    when_engaged: LoadDecision = LoadDecision.EXECUTE
    #: The bound holds whether engaged or not.
    is_bound_strict: bool = False


Thresholds = Mapping[OperationType, Threshold]


def make_thresholds(
    *,
    push_at: float = 0.7,
    push_queue_max: int = 10_000,
    ack_at: float = 0.8,
    ack_queue_max: int = 50_000,
    pop_at: float = 0.95,
) -> Thresholds:
    """Return the table of all types.

    Acks are never queued: an ack that is confirmed now and applied later may outlive its lease.
    Pops are not queued because they can wait themselves, and background jobs run again anyway.
    Reports are served: operators need them most under load, and the other calls go first.
    """
    ack = Threshold(ack_at, ack_queue_max, depth=Depth.ACKS, is_bound_strict=True)
    return {
        OperationType.SYSTEM_EVENT: Threshold(math.inf, math.inf),
        OperationType.ACK_BATCH: ack,
        OperationType.ACK_SINGLE: ack,
        OperationType.PUSH: Threshold(push_at, push_queue_max, when_engaged=LoadDecision.QUEUE),
        OperationType.POP: Threshold(pop_at),
        OperationType.BACKGROUND: Threshold(push_at),
        OperationType.ANALYTICS: Threshold(math.inf, math.inf),
    }


def pressure_of(sample: Sample, limits: Limits) -> float:
    """Return the worst measurement, each as a share of its limit."""
    size, in_use, waiting = sample.slots
    slots = (_FULL_POOL * in_use + waiting) / size if size else 0.0
    return max(
        0.0,
        slots,
        sample.fullness,
        sample.oldest_ms / limits.age_ms,
        sample.lag_ms / limits.lag_ms,
    )


def engage(was_engaged: bool, pressure: float, threshold: float, release_ratio: float) -> bool:
    """Switch on at the threshold and off only well below it, so that it does not flap."""
    return pressure >= (threshold * release_ratio if was_engaged else threshold)


def engaged_types(
    before: frozenset[OperationType], pressure: float, thresholds: Thresholds, release_ratio: float
) -> frozenset[OperationType]:
    """Return the types that are engaged now."""
    return frozenset(
        kind
        for kind, threshold in thresholds.items()
        if engage(kind in before, pressure, threshold.engage_at, release_ratio)
    )


def decide(
    operation_type: OperationType, pressure: Pressure, thresholds: Thresholds
) -> LoadDecision:
    """Decide what to do with an operation of this type.

    The bound comes first, or it would bound nothing. A push that is not engaged is executed however
    deep the operation queue is. If the push would have to wait behind a full queue, the push itself
    refuses it.
    """
    threshold = thresholds[operation_type]
    is_engaged = operation_type in pressure.engaged
    if is_engaged or threshold.is_bound_strict:
        if threshold.depth.of(pressure) >= threshold.bound:
            return LoadDecision.REJECT
    return threshold.when_engaged if is_engaged else _EXECUTE


def retry_after_s(depth: int, drain_rate: float | None) -> int:
    """Return the whole seconds that this many operations take at this rate; 1 if unknown."""
    if drain_rate is None or depth <= 0:
        return 1
    if drain_rate * RETRY_AFTER_S_MAX <= depth:
        return RETRY_AFTER_S_MAX
    return max(1, math.ceil(depth / drain_rate))
