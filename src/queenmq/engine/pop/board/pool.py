"""A pool: the waiting pops of one place and its known partitions. Pure: no clock, no I/O.

A pool joins the pops of one consumer group that look in the same place (a Scope) with what is known
of that place: the partitions to try, and those whose messages must wait. Pushes, acks and look-ups
add to this knowledge. The lease checks again in the database, so a wrong entry costs one try. As
long as a pool has a horizon, no entry is missing: every partition with messages for the group is
ready, held or in a call, or got its messages from a transaction at or above the horizon.

A queue of many partitions is not searched in one look-up but walked through, slice by slice: see
`walk.py`. Until the walk has ended, the pool has no horizon.

Partitions leave a pool at the front and come back at the end, so the least recently served one is
next.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple
from uuid import UUID

from queenmq.engine.outcomes import HoldReason
from queenmq.engine.pop.board.walk import Walk
from queenmq.engine.pop.intention import Intention
from queenmq.engine.requests import Resolved, Scope, Slice

#: Partitions of each kind that a pool remembers. With more, look-ups search the whole scope.
READY_MAX = 10_000
HELD_MAX = 5_000
#: Searches in a row that found more than they may return while no pop got any of it.
CUTS_MAX = 20
#: With this many held partitions a look-up pays off, because it drops finished ones.
PRUNE_MIN = 1_000


class Held(NamedTuple):
    """A partition whose messages must wait."""

    why: HoldReason
    #: The look-up that was the newest when this was learnt.
    tick: int


class Pool:
    """The waiting pops of one scope and group, and the known state of its partitions."""

    __slots__ = (
        "_is_in_order",
        "_waiting",
        "claims",
        "consumer_group",
        "cuts",
        "doubts",
        "due_at_ms",
        "full_at_ms",
        "held",
        "horizon",
        "impatient",
        "is_backing_off",
        "is_found",
        "is_urgent",
        "is_used",
        "is_woken",
        "learnt_tick",
        "misses",
        "newest_tick",
        "poll_at_ms",
        "poll_ms",
        "prune_at",
        "reads",
        "ready",
        "required_tick",
        "resolved_tick",
        "scope",
        "slowness",
        "walk",
        "walked_ms",
    )

    def __init__(self, scope: Scope, consumer_group: str) -> None:
        self.scope = scope
        self.consumer_group = consumer_group
        self.ready: dict[UUID, None] = {}
        self.held: dict[UUID, Held] = {}
        #: Where the next look-up may start. None if it must search the whole scope.
        self.horizon: str | None = None
        #: The walk through a large queue that is on its way.
        self.walk: Walk | None = None
        #: Searches that found more than they may return, since a pop last got something.
        self.cuts = 0
        #: How often the horizon was dropped.
        self.doubts = 0
        #: When the scope was last searched whole, and how long a walk through it took.
        self.full_at_ms = 0.0
        self.walked_ms = 0.0
        #: The start of the last look-up that has ended.
        self.resolved_tick = -1
        #: The last look-up that something was learnt from.
        self.learnt_tick = -1
        #: Whether the last look-up knew the partition that the scope names.
        self.is_found = True
        self.prune_at = PRUNE_MIN
        #: Numbers of the pops in calls. When a call ends, there may be more for the others.
        self.claims: set[int] = set()
        #: Pops whose large batch is being read.
        self.reads = 0
        #: Whether a pop has come since the last poll.
        self.is_used = False
        #: The timer behind all wake-ups: its interval, its next time, and the next due time known.
        self.poll_ms = 0.0
        self.poll_at_ms: float | None = None
        self.due_at_ms: float | None = None
        #: Something may have happened here, so the cheap pending check is not enough.
        self.is_woken = False
        #: A look-up is worth it at once: nothing is known yet, there is news, or there was more.
        self.is_urgent = True
        #: How often its look-ups had to be given more time, and whether the next one has to wait.
        self.slowness = 0
        self.is_backing_off = False
        #: Pending checks in a row that found nothing.
        self.misses = 0
        #: Waiting pops that want an answer as soon as everything has been looked up.
        self.impatient = 0
        self.newest_tick = -1
        #: Results of look-ups up to this tick are ignored.
        self.required_tick = -1
        self._waiting: dict[int, Intention] = {}
        self._is_in_order = True

    @property
    def key(self) -> tuple[Scope, str]:
        return self.scope, self.consumer_group

    @property
    def is_specific(self) -> bool:
        return self.scope.partition is not None

    # The waiting pops.

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def add(self, intention: Intention) -> None:
        """Add a waiting pop, in order of arrival."""
        if self._waiting and next(reversed(self._waiting)) > intention.number:
            self._is_in_order = False
        self._waiting[intention.number] = intention
        intention.behind = max(self.claims, default=0)
        self.newest_tick = max(self.newest_tick, intention.tick)
        self.impatient += intention.request.wait_ms is None

    def remove(self, intention: Intention) -> None:
        """Remove a pop that got partitions to try, or an answer."""
        del self._waiting[intention.number]
        self.impatient -= intention.request.wait_ms is None

    def waiting(self) -> Collection[Intention]:
        """Return all waiting pops, longest first. Copy the result before changing the pool."""
        if not self._is_in_order:
            self._waiting = dict(sorted(self._waiting.items()))
            self._is_in_order = True
        return self._waiting.values()

    def first_number(self) -> int:
        """Return the arrival number of the longest waiter among all pops of the broker."""
        return next(iter(self.waiting())).number

    def not_looked_up(self) -> list[Intention]:
        """Return the pops that came after the start of the last look-up."""
        if self.newest_tick < self.resolved_tick:
            return []
        self.waiting()
        newest_first = reversed(self._waiting.values())
        return list(takewhile(lambda one: one.tick >= self.resolved_tick, newest_first))

    # The known state of partitions.

    def mark_ready(self, partition_id: UUID) -> None:
        """Mark the partition as worth a try. One that is already ready keeps its place."""
        if len(self.ready) < READY_MAX or partition_id in self.ready:
            self.held.pop(partition_id, None)
            self.ready[partition_id] = None
        else:
            self.doubt()

    def hold(self, partition_id: UUID, why: HoldReason, tick: int) -> None:
        """Hold the partition, because its messages must wait."""
        if len(self.held) < HELD_MAX:
            self.held[partition_id] = Held(why, tick)
        else:
            self.held.clear()
            self.doubt()

    def doubt(self) -> None:
        """Search the whole scope with the next look-up, because something may be missing."""
        self.horizon = None
        self.doubts += 1
        self.is_urgent = True
        if self.walk is not None:
            self.walk.is_lossy = True
            if self.walk.is_check:
                self.walk = None

    def require_look_up(self, tick: int) -> None:
        """Answer no pop empty before a look-up that begins after this tick."""
        self.newest_tick = max(self.newest_tick, tick)
        self.resolved_tick = min(self.resolved_tick, tick)
        self.required_tick = tick

    def free_ready(self, busy: Container[UUID], taken: Container[UUID]) -> Iterator[UUID]:
        """Yield partitions to try, in order, without busy ones (in calls) and taken ones
        (assigned).
        """
        for partition_id in self.ready:
            if partition_id not in busy and partition_id not in taken:
                yield partition_id

    def hold_ready(self, tick: int) -> None:
        """Hold all ready partitions until a look-up gives their new order."""
        for partition_id in self.ready:
            self.hold(partition_id, HoldReason.TIME, tick)
        self.ready.clear()
        self.is_urgent = True
        self.require_look_up(tick)

    def learn(
        self,
        result: Resolved,
        known: Iterable[UUID],
        *,
        tick: int,
        doubts: int,
        is_cut: bool = False,
        now_ms: float = 0.0,
    ) -> None:
        """Apply the result of the look-up of this tick.

        `known` are the held partitions that it was told of. With `is_cut` there is more to try than
        it returned.
        """
        # A doubt that arose during the look-up may concern a partition it was not told of.
        is_sure = result.is_complete and doubts == self.doubts
        self.is_found = result.is_found
        self.learnt_tick = tick
        if self.is_walking:
            self._follow(result)
        elif self.may_walk and not result.is_complete:
            self.horizon = None
            # It sees also what a doubt that arose meanwhile concerns.
            self.walk = Walk(horizon=result.horizon, tick=tick, now_ms=now_ms)
        else:
            self.horizon = result.horizon if is_sure else None
            # With more to come, answer no pop empty, unless none of it is available.
            if is_cut and self.cuts < CUTS_MAX:
                self.cuts += 1
            else:
                self.resolved_tick = max(self.resolved_tick, tick)
        for partition_id in known:
            held = self.held.get(partition_id)
            # What was learnt while the look-up ran is newer than its answer.
            if held is not None and held.tick < tick:
                del self.held[partition_id]
        self.add_found(result, tick)
        self.prune_at = max(PRUNE_MIN, 2 * len(self.held))

    def add_found(self, found: Resolved | Slice, tick: int) -> None:
        """Remember partitions that a look-up of this tick has found."""
        for partition_id, why in zip(found.held_ids, found.held_whys, strict=True):
            if partition_id not in self.ready:
                self.hold(partition_id, why, tick)
        for partition_id in found.partition_ids:
            self.mark_ready(partition_id)

    # The walk through a large queue.

    @property
    def may_walk(self) -> bool:
        return self.scope.queue is not None and not self.is_specific

    @property
    def is_walking(self) -> bool:
        """Return whether a walk is to bring the horizon that the pool has not."""
        return self.walk is not None and not self.walk.is_check

    def _follow(self, result: Resolved) -> None:
        """Note what is new during a walk. What is too much to be listed is found by the next."""
        assert self.walk is not None
        self.walk.horizon = result.horizon
        self.walk.is_lossy |= not result.is_complete

    def is_look_up_urgent(self) -> bool:
        """Return whether the next look-up must not wait for others: it is likely to find something,
        or a caller waits for nothing but its answer and something has happened since the last one,
        or for the next slice of a walk.
        """
        return (
            self.is_urgent
            or (self.is_woken and self.impatient > 0)
            or (self.is_walking and self.waiting_count > 0 and not self.ready)
        )

    def cannot_wait(self) -> bool:
        """Return whether its look-up is urgent, or a caller waits for nothing but its answer."""
        return self.impatient > 0 or self.is_look_up_urgent()

    def is_calm(self) -> bool:
        """Return whether only news of its queue can bring it work, because all else is done."""
        return (
            self.horizon is not None
            and self.scope.queue is not None
            and not self.held
            and self.is_exhausted()
        )

    def is_exhausted(self) -> bool:
        """Return whether everything pushed before the newest pop has been looked up and tried."""
        return self.is_looked_up() and not self.ready and not self.claims

    def is_looked_up(self) -> bool:
        """Return whether a look-up that began after the newest pop came has ended."""
        return self.resolved_tick > self.newest_tick

    def find_answerable(self) -> list[Intention]:
        """Return the pops that can be answered empty now.

        A call that was in flight when the pop arrived, or returned, may leave something for it. So
        may a call for an earlier pop. All other calls only got what was left.
        """
        if self.ready or self.resolved_tick <= self.required_tick:
            return []
        oldest = min(self.claims, default=None)
        return [
            one
            for one in self.waiting()
            if not one.may_wait
            and one.tick < self.resolved_tick
            and (oldest is None or max(one.number, one.behind) < oldest)
        ]
