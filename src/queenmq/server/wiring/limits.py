"""The bounds of the push and pop paths, from the settings."""

from __future__ import annotations

import os

from queenmq.engine.pop.board.decision import Room
from queenmq.engine.pop.board.limits import BoardLimits
from queenmq.engine.pop.service import PopLimits
from queenmq.engine.push.service import PushLimits
from queenmq.settings import Settings

#: Partitions to try that one look-up brings per place: as many as new messages that it reads.
_PAGE = 5_000
#: Push and ack calls in flight next to the database; more only make smaller calls there.
LEAST_CALLS = 2


def push_limits(settings: Settings) -> PushLimits:
    return PushLimits(
        calls_max=settings.push_calls_max or LEAST_CALLS,
        rows_max=settings.push_rows_max,
        waiting_max=settings.push_waiting_max,
        lock_timeout_ms=settings.push_lock_timeout_ms,
        wait_ms=settings.push_wait_ms,
    )


def pop_slots(settings: Settings) -> int:
    """Return how many pop calls run at once next to the database: as set, or as the cores allow."""
    return settings.pop_slots or min(max(os.cpu_count() or 2, 2), 8)


def pop_limits(settings: Settings) -> PopLimits:
    return PopLimits(
        board=BoardLimits(
            room=Room(
                requests=settings.pop_candidates_max if settings.enable_pop_batching else 1,
                candidates=settings.pop_candidates_max,
                messages=settings.pop_messages_max,
            ),
            look_up_pools_max=settings.smart_poll_max_intentions,
            page=_PAGE,
            is_checking=settings.enable_pending_check,
            look_up_limit_ms=settings.smart_poll_preflight_timeout_ms,
            look_up_interval_ms=settings.smart_poll_min_interval_ms,
        ),
        slots=pop_slots(settings),
        apart_count=settings.pop_apart_count,
        waiting_max=settings.pop_waiting_max,
        min_interval_ms=settings.smart_poll_min_interval_ms,
        max_interval_ms=settings.smart_poll_max_interval_ms,
        listening_interval_ms=settings.smart_poll_listening_interval_ms,
    )
