"""Wires the measures and settings of the load manager."""

from __future__ import annotations

from queenmq.clock import now_ms
from queenmq.engine.load.manager import Gauges, LoadManager
from queenmq.engine.load.pressure import Limits, make_thresholds
from queenmq.server.wiring.acking import Acking
from queenmq.server.wiring.ground import Ground
from queenmq.server.wiring.popping import Popping
from queenmq.server.wiring.pushing import Pushing


def make_load_manager(
    ground: Ground, *, pushing: Pushing, popping: Popping, acking: Acking
) -> LoadManager:
    """Return the load manager of a broker."""
    settings, operations = ground.settings, pushing.operations
    push, pop, ack = pushing.push, popping.pop, acking.ack

    def fullness() -> float:
        """Return the fullest of the rows in which requests wait for a call, as a share of its
        bound.
        """
        return max(
            push.depth / settings.push_waiting_max,
            ack.depth / settings.load_ack_queue_max,
            pop.depth / settings.pop_waiting_max,
        )

    def oldest_ms() -> float:
        """Return the age of the oldest push or ack that waits for a call."""
        now = now_ms()
        return max(push.oldest_ms(now), ack.oldest_ms(now))

    return LoadManager(
        Gauges(
            slots=ground.database.slot_use,
            fullness=fullness,
            oldest_ms=oldest_ms,
            acks_waiting=lambda: ack.depth,
            operation_depth=lambda: operations.depth,
            drain_rate=lambda: operations.drain_rate,
        ),
        thresholds=make_thresholds(
            push_at=settings.load_push_threshold,
            push_queue_max=settings.load_push_queue_max,
            ack_at=settings.load_ack_threshold,
            ack_queue_max=settings.load_ack_queue_max,
            pop_at=settings.load_pop_threshold,
        ),
        limits=Limits(age_ms=settings.load_age_limit_ms, lag_ms=settings.load_lag_limit_ms),
        release_ratio=settings.load_release_ratio,
        is_enabled=settings.enable_load_management,
    )
