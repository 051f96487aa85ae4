"""Measures the load of a broker and decides about each operation.

A timer measures ten times a second, its own lateness included. Requests use the last measurement,
so a decision costs no call and no wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from queenmq.clock import now_ms
from queenmq.engine.lifecycle import Health
from queenmq.engine.load.pressure import (
    Limits,
    LoadDecision,
    OperationType,
    Pressure,
    Sample,
    SlotUse,
    Thresholds,
    decide,
    engaged_types,
    pressure_of,
    retry_after_s,
)
from queenmq.errors import Overloaded

_INTERVAL_MS = 100

_EXECUTE, _REJECT = LoadDecision.EXECUTE, LoadDecision.REJECT
_ACKS = (OperationType.ACK_BATCH, OperationType.ACK_SINGLE)
#: The setting that a refusal is counted under.
_BOUNDS = {
    OperationType.PUSH: "load_push_queue_max",
    OperationType.POP: "load_pop_threshold",
    **dict.fromkeys(_ACKS, "load_ack_queue_max"),
}


class Gauges(NamedTuple):
    """The sources of the measures. All are called often, and must be cheap."""

    slots: Callable[[], SlotUse]
    fullness: Callable[[], float]
    oldest_ms: Callable[[], float]
    acks_waiting: Callable[[], int]
    operation_depth: Callable[[], int]
    #: Queued operations completed per second; None while unknown.
    drain_rate: Callable[[], float | None]


class LoadManager:
    """Owns the current pressure, which is 0 before the first measurement."""

    name = "load-manager"

    def __init__(
        self,
        gauges: Gauges,
        *,
        thresholds: Thresholds,
        limits: Limits,
        release_ratio: float,
        is_enabled: bool,
    ) -> None:
        self._gauges = gauges
        self._thresholds = thresholds
        #: The others depend on the counts of this moment only while they are engaged.
        self._bounded = frozenset(
            kind for kind, threshold in thresholds.items() if threshold.is_bound_strict
        )
        self._limits = limits
        self._release_ratio = release_ratio
        self.is_enabled = is_enabled
        self.pressure = Pressure()
        self.lag_ms = 0.0
        #: Told how late each measure was.
        self.on_lag: list[Callable[[float], None]] = []
        #: Decisions so far.
        self.counts = {kind: dict.fromkeys(LoadDecision, 0) for kind in OperationType}
        self._last_value = 0.0
        self._due_ms = 0.0
        self._timer: asyncio.TimerHandle | None = None
        #: Whether the last measure met a defect.
        self._is_failing = False

    # What the broker calls.

    async def start(self) -> None:
        """Measure from now on."""
        if self._timer is None:
            self._set_timer()

    def health(self) -> Health:
        if self._timer is None:
            return Health.STOPPED
        return Health.FAILING if self._is_failing else Health.RUNNING

    async def stop(self) -> None:
        """Measure no more. Without measures nothing is held back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.pressure = Pressure()

    def decide(self, operation_type: OperationType) -> LoadDecision:
        """Decide whether an arriving operation runs, waits or is refused."""
        decision = _EXECUTE
        if self.is_enabled and (
            operation_type in self.pressure.engaged or operation_type in self._bounded
        ):
            decision = decide(operation_type, self._current(), self._thresholds)
        self.counts[operation_type][decision] += 1
        return decision

    def admit(self, operation_type: OperationType) -> LoadDecision:
        """Decide. Raises Overloaded for an operation that is refused."""
        decision = self.decide(operation_type)
        if decision is _REJECT:
            raise self._make_overloaded(operation_type)
        return decision

    def is_engaged(self, operation_type: OperationType) -> bool:
        """Return whether operations of this type are held back now."""
        return operation_type in self.pressure.engaged

    # Measuring.

    def _current(self) -> Pressure:
        """Return the last measurement with current counts, so that bounds hold between
        measurements.
        """
        value, engaged, _, _ = self.pressure
        gauges = self._gauges
        return Pressure(value, engaged, gauges.operation_depth(), gauges.acks_waiting())

    def _make_overloaded(self, operation_type: OperationType) -> Overloaded:
        pressure = self._current()
        if operation_type in _ACKS:
            depth, drain_rate = pressure.acks_waiting, None
        else:
            depth, drain_rate = pressure.operation_depth, self._gauges.drain_rate()
        seconds = retry_after_s(depth, drain_rate)
        what = operation_type.name.lower().replace("_", " ")
        return Overloaded(
            f"the broker is overloaded and takes no {what} now; nothing was done,"
            f" try again in {seconds} s",
            depth=depth,
            retry_after_s=seconds,
            bound=_BOUNDS[operation_type],
        )

    def _set_timer(self) -> None:
        self._due_ms = now_ms() + _INTERVAL_MS
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_INTERVAL_MS / 1000, self._tick)

    def _tick(self) -> None:
        self.lag_ms = max(0.0, now_ms() - self._due_ms)
        # Scheduled first, so that an error below does not end the measuring.
        self._set_timer()
        self._is_failing = True
        for listener in self.on_lag:
            listener(self.lag_ms)
        self._measure()
        self._is_failing = False

    def _measure(self) -> None:
        gauges = self._gauges
        sample = Sample(
            slots=gauges.slots(),
            fullness=gauges.fullness(),
            oldest_ms=gauges.oldest_ms(),
            lag_ms=self.lag_ms,
            operation_depth=gauges.operation_depth(),
            acks_waiting=gauges.acks_waiting(),
        )
        value = pressure_of(sample, self._limits)
        # One bad measurement is a hiccup, such as a paused process. Two in a row are load.
        lasting = min(value, self._last_value)
        self._last_value = value
        engaged = engaged_types(
            self.pressure.engaged, lasting, self._thresholds, self._release_ratio
        )
        self.pressure = Pressure(lasting, engaged, sample.operation_depth, sample.acks_waiting)
