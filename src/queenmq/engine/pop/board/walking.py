"""Takes pools through their queues, slice by slice. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from queenmq.engine.pop.board import pool as bounds
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.board.walk import Walk
from queenmq.engine.requests import Slice, WalkAsk

#: A walk pauses while more than this part of what a pool may remember is ready.
_READY_SHARE = 4
#: A search of the whole scope in spite of a horizon, in case anything was changed behind our back:
#: at this interval, and at least this many times as long as it took to walk through a large queue.
_CHECK_EVERY_MS = 120_000
_CHECK_SHARE = 100


def is_check_due(pool: Pool, now_ms: float) -> bool:
    """Return whether the scope was not searched whole for long."""
    return now_ms - pool.full_at_ms > max(_CHECK_EVERY_MS, _CHECK_SHARE * pool.walked_ms)


def begin_check(pool: Pool, *, tick: int, now_ms: float) -> None:
    """Walk through the queue although the pool has a horizon."""
    pool.walk = Walk(horizon=None, tick=tick, now_ms=now_ms)


def ask_slice(pool: Pool) -> tuple[Walk, WalkAsk] | None:
    """Return the next slice to ask for, unless there is none, or no room for what it finds."""
    walk, queue = pool.walk, pool.scope.queue
    if walk is None or queue is None or len(pool.ready) > bounds.READY_MAX // _READY_SHARE:
        return None
    return walk, WalkAsk(queue, pool.consumer_group, walk.after)


def learn_slice(pool: Pool, walk: Walk, part: Slice, *, tick: int, took_ms: float) -> None:
    """Apply a slice of a walk of this pool. At its end the pool has a horizon."""
    pool.learnt_tick = tick
    if not part.is_whole or not _has_room(pool, part.held_ids):
        # The walk goes on without them, and another one follows.
        walk.is_lossy = True
        part = part._replace(held_ids=(), held_whys=())
    pool.add_found(part, tick)
    if not walk.advance(part, took_ms=took_ms) or pool.walk is not walk:
        return
    pool.walk = None
    pool.full_at_ms, pool.walked_ms = walk.began_at_ms, walk.took_ms
    if not walk.is_check:
        pool.horizon = None if walk.is_lossy else walk.horizon
        pool.resolved_tick = max(pool.resolved_tick, walk.tick)
    elif walk.is_lossy:
        pool.doubt()


def _has_room(pool: Pool, held_ids: Sequence[UUID]) -> bool:
    more = sum(one not in pool.held and one not in pool.ready for one in held_ids)
    return len(pool.held) + more <= bounds.HELD_MAX
