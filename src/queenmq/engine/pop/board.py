"""The state of all pops of a broker between two database calls. Pure: no I/O.

A pool with news is dirty; one planning turn gives its longest waiters the partitions it knows of. A
pool that has waiters but nothing to try is settled (its waiters are answered or go on waiting), or
dry (it needs a look-up), or on calls (all it has is being tried, which ends in news).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from queenmq.engine.pop.decision import Assignment, Decision, Plan, Room, decide
from queenmq.engine.pop.machine import PopEvent
from queenmq.engine.pop.ready_index import Pool, PoolIndex
from queenmq.engine.requests import PartitionKey, PopGrant, PopRequest

#: A pop whose candidates are locked by others this often is treated as if they had nothing.
TRIES_MAX = 5
#: Pools kept for callers that may come back; more are dropped when nobody waits in them.
POOLS_MAX = 5_000

#: Outcomes of a candidate that say why its messages must wait.
_WAITS = {"held": "l", "retry": "w", "window": "w", "delayed": "w", "blocked": "b"}
#: Outcomes of a candidate that gave messages.
_HAD = {"granted", "leased"}


class PopBoard:
    """What waits, what is known, and what is on its way."""

    def __init__(self, *, room: Room) -> None:
        self._room = room
        self.pools = PoolIndex()
        #: Pools with news: a waiter or a partition was added, or a call for them has ended.
        self.dirty: dict[Pool, None] = {}
        #: Pools that need a look-up.
        self.dry: dict[Pool, None] = {}
        #: Pools of which a due time has become known.
        self.due: dict[Pool, None] = {}
        #: Look-ups begun so far.
        self.tick = 0
        #: Partitions in a call; none is in two calls.
        self.claiming: set[UUID] = set()
        #: Plans that would have given a partition away twice; stays 0.
        self.double_assignments = 0
        self._on_calls: dict[Pool, None] = {}

    def pool_of(self, request: PopRequest) -> Pool:
        """The pool of a request, made if it is not there."""
        if len(self.pools) >= POOLS_MAX:
            self.pools.remove_idle()
        return self.pools.get_or_add(request.scope, request.consumer_group)

    # News.

    def add_ready(self, pool: Pool, partition_id: UUID) -> bool:
        """The partition has work; whether somebody waits for it."""
        pool.mark_ready(partition_id)
        if pool.scope.queue is None:
            # Several queues, highest priority first: only a look-up knows where this one stands.
            pool.hold_ready(self.tick)
        if pool.waiting_count:
            self.dirty[pool] = None
            return True
        return False

    def add_freed(
        self, partition_id: UUID, key: PartitionKey, consumer_group: str, filters: tuple[str, str]
    ) -> Iterator[Pool]:
        """The partition can be popped again by this group; yields the pools with waiters for it."""
        namespace, task = filters
        for pool in self.pools.touched_by(key, namespace=namespace, task=task):
            if pool.consumer_group == consumer_group and self.add_ready(pool, partition_id):
                yield pool

    def doubt(self) -> None:
        """The database was away and may be another one now: no horizon counts any more."""
        for pool in self.pools:
            pool.doubt()

    # One turn.

    def plan(self, now_ms: float) -> Plan:
        """Decide for the pools with news, and mark what goes into the call."""
        plan = decide(self.dirty, self.claiming, room=self._room)
        self.dirty = dict.fromkeys(plan.cut_off)
        fresh: set[tuple[UUID, str]] = set()
        plan.assignments = [one for one in plan.assignments if self._is_single(one, fresh)]
        for one in plan.assignments:
            self._start(one, now_ms)
        for pool, _ in plan.skipped:
            if pool.ready or pool.claims:
                self._on_calls[pool] = None
        return plan

    def _is_single(self, assignment: Assignment, fresh: set[tuple[UUID, str]]) -> bool:
        """The last check of what must never happen: two pops that try the same at once."""
        group = assignment.pool.consumer_group
        pairs = {(partition_id, group) for partition_id in assignment.partition_ids}
        if pairs & fresh or not self.claiming.isdisjoint(assignment.partition_ids):
            self.double_assignments += 1
            self.dirty[assignment.pool] = None
            return False
        fresh |= pairs
        return True

    def _start(self, assignment: Assignment, now_ms: float) -> None:
        intention, pool, partition_ids, _ = assignment
        intention.move(PopEvent.ASSIGNED, now_ms)
        pool.remove(intention)
        pool.claims.add(intention.number)
        for partition_id in partition_ids:
            del pool.ready[partition_id]
        self.claiming.update(partition_ids)

    def end(self, assignments: Iterable[Assignment]) -> None:
        """Their call is over: the partitions are free and everybody concerned has news."""
        for intention, pool, partition_ids, _ in assignments:
            pool.claims.discard(intention.number)
            self.claiming.difference_update(partition_ids)
            self.dirty[pool] = None
        self.dirty.update(self._on_calls)
        self._on_calls.clear()

    # What the call said.

    def learn(self, assignment: Assignment, answers: Iterable[PopGrant], now_ms: float) -> bool:
        """Remember what became of the candidates; False: a remembered partition may be gone."""
        intention, pool, partition_ids, seen_tick = assignment
        answered = {one.partition_id: one for one in answers}
        if any(one.outcome in _HAD for one in answered.values()):
            pool.cuts = 0
        is_known = True
        for partition_id in partition_ids:
            one = answered.get(partition_id)
            if one is None:
                is_known = self._try_again(assignment, partition_id)
            elif one.outcome in ("again", "spare"):
                pool.mark_ready(partition_id)
            elif one.outcome in _WAITS:
                pool.hold(partition_id, _WAITS[one.outcome], self.tick)
                if one.due_ms is not None:
                    due_at_ms = now_ms + one.due_ms
                    pool.due_at_ms = min(due_at_ms, pool.due_at_ms or due_at_ms)
                    self.due[pool] = None
            elif one.outcome != "none" and not intention.request.is_auto_ack:
                pool.hold(partition_id, "l", self.tick)
            elif one.has_more:
                pool.mark_ready(partition_id)
            elif pool.resolved_tick != seen_tick and partition_id not in pool.ready:
                # A look-up ended meanwhile; it may have seen more than this call.
                pool.hold(partition_id, "w", self.tick)
        if len(pool.held) >= pool.prune_at and pool.horizon is not None:
            self.dry[pool] = None
        return is_known

    def _try_again(self, assignment: Assignment, partition_id: UUID) -> bool:
        """No answer: another session had the row locked just then, or the partition is gone."""
        intention, pool, _, _ = assignment
        intention.tries += 1
        if intention.tries >= TRIES_MAX:
            intention.tries = 0
            pool.hold(partition_id, "w", self.tick)
        elif pool.is_specific:
            pool.doubt()
            pool.unsettle(self.tick)
            return False
        else:
            pool.mark_ready(partition_id)
        return True


def count_skipped(plan: Plan) -> dict[Decision, int]:
    """How many pops the plan has left waiting, by reason."""
    counts: dict[Decision, int] = {}
    for pool, decision in plan.skipped:
        counts[decision] = counts.get(decision, 0) + pool.waiting_count
    return counts
