"""Learns from a lease call about the partitions that it tried. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from queenmq.engine.outcomes import HoldReason, PopOutcome
from queenmq.engine.pop.board.decision import Assignment
from queenmq.engine.requests import PopGrant

#: After this many tries on locked candidates, a pop is treated as if they were empty.
TRIES_MAX = 5

#: Outcomes of a candidate that say why its messages must wait.
_WAITS = {
    PopOutcome.HELD: HoldReason.LEASE,
    PopOutcome.RETRY: HoldReason.TIME,
    PopOutcome.WINDOW: HoldReason.TIME,
    PopOutcome.DELAYED: HoldReason.TIME,
    PopOutcome.BLOCKED: HoldReason.BLOCKED,
}
#: Outcomes of a candidate that gave messages.
_HAD = (PopOutcome.GRANTED, PopOutcome.LEASED)
#: Outcomes of a candidate that may still have messages.
_UNTRIED = (PopOutcome.AGAIN, PopOutcome.SPARE)
_NONE = PopOutcome.NONE


class Lesson(NamedTuple):
    """The work of the board after a pool has changed."""

    #: False: the partition that the scope names may be gone.
    is_known: bool
    #: When the first message of the pool that was found waiting is due.
    due_at_ms: float | None
    #: So many partitions are held that a look-up pays off, because it drops some.
    wants_look_up: bool


def learn_from_call(
    assignment: Assignment, answers: Iterable[PopGrant], *, tick: int, now_ms: float
) -> Lesson:
    """Update the pool with the results of its call."""
    pool = assignment.pool
    answered = {one.partition_id: one for one in answers}
    is_known, due_at_ms = True, None
    for partition_id in assignment.partition_ids:
        one = answered.get(partition_id)
        if one is None:
            is_known = _try_again(assignment, partition_id, tick)
        else:
            _learn_one(assignment, one, tick)
            if one.outcome in _HAD:
                pool.cuts = 0
            elif one.outcome in _WAITS and one.due_ms is not None:
                due_at_ms = min(now_ms + one.due_ms, due_at_ms or now_ms + one.due_ms)
    wants_look_up = len(pool.held) >= pool.prune_at and pool.horizon is not None
    return Lesson(is_known, due_at_ms, wants_look_up)


def _learn_one(assignment: Assignment, one: PopGrant, tick: int) -> None:
    intention, pool, _, seen_tick = assignment
    partition_id = one.partition_id
    if one.outcome in _UNTRIED:
        pool.mark_ready(partition_id)
    elif one.outcome in _WAITS:
        pool.hold(partition_id, _WAITS[one.outcome], tick)
    elif one.outcome is not _NONE and not intention.request.is_auto_ack:
        pool.hold(partition_id, HoldReason.LEASE, tick)
    elif one.has_more:
        pool.mark_ready(partition_id)
    elif pool.learnt_tick != seen_tick and partition_id not in pool.ready:
        # A look-up ended meanwhile; it may have seen more than this call.
        pool.hold(partition_id, HoldReason.TIME, tick)


def _try_again(assignment: Assignment, partition_id: UUID, tick: int) -> bool:
    """Handle a missing answer: another session had the row locked, or the partition is gone."""
    intention, pool, _, _ = assignment
    intention.tries += 1
    if intention.tries >= TRIES_MAX:
        intention.tries = 0
        pool.hold(partition_id, HoldReason.TIME, tick)
    elif pool.is_specific:
        pool.doubt()
        pool.require_look_up(tick)
        return False
    else:
        pool.mark_ready(partition_id)
    return True
