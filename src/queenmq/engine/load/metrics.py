"""The series of the load manager."""

from __future__ import annotations

import functools

from queenmq.engine.load.manager import LoadManager
from queenmq.engine.load.pressure import LoadDecision, OperationType
from queenmq.metrics.registry import Registry

#: Ten measurements a second: the histogram shows for how much of the time the loop was late.
_LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


def register_load(registry: Registry, manager: LoadManager) -> None:
    """Make all series of the load manager of one broker process."""
    registry.gauge(
        "queen_load_pressure",
        "0 is idle, 1 is all that a worker should carry; of the busiest worker.",
        read=lambda: manager.pressure.value,
        merge="max",
    )
    registry.gauge(
        "queen_event_loop_lag_seconds",
        "How late the last timer was, in the latest worker.",
        read=lambda: manager.lag_ms / 1000,
        merge="max",
    )
    late = registry.histogram(
        "queen_event_loop_late_seconds", "How late each timer was.", bounds=_LAG_SECONDS
    )
    manager.on_lag.append(lambda lag_ms: late.observe(lag_ms / 1000))
    engaged = registry.gauges(
        "queen_load_engaged", "Workers whose threshold for the type is reached.", "type"
    )
    decisions = registry.counters(
        "queen_load_decisions", "Operations by decision.", "type", "decision"
    )
    for kind in OperationType:
        name = kind.name.lower()
        registry.follow(engaged.of(name), functools.partial(_is_engaged, manager, kind))
        for decision in LoadDecision:
            registry.follow(
                decisions.of(name, decision.value),
                functools.partial(_count, manager, kind, decision),
            )


def _is_engaged(manager: LoadManager, kind: OperationType) -> float:
    return float(kind in manager.pressure.engaged)


def _count(manager: LoadManager, kind: OperationType, decision: LoadDecision) -> float:
    return manager.counts[kind][decision]
