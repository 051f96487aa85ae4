"""One turn of the board: news becomes calls, look-ups and answers. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from queenmq.engine.pop.board.actions import Action, Lease, StartLookUp, WakeAt
from queenmq.engine.pop.board.decision import Assignment, Plan, Room, decide
from queenmq.engine.pop.board.look_ups import LookUps
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.board.state import BoardState
from queenmq.engine.pop.intention import PopAnswer
from queenmq.engine.pop.machine import PopEvent

_ASSIGNED = PopEvent.ASSIGNED


class Turns:
    """Plans calls, and resolves the pools that have nothing to try."""

    def __init__(self, state: BoardState, look_ups: LookUps, room: Room) -> None:
        self._state = state
        self._look_ups = look_ups
        self._room = room
        #: Plans that would have assigned a partition twice. It stays 0.
        self.double_assignments = 0

    def turn(self, now_ms: float, *, free_slots: int) -> list[Action]:
        """Handle all pools with news, with as many calls as there are free slots."""
        if self._state.is_paused:
            return []
        if self._state.paused_groups:
            self._state.drop_paused()
        actions: list[Action] = []
        while self._state.dirty and free_slots:
            plan = self.plan(now_ms)
            for pool, _ in plan.skipped:
                actions += self._resolve_pool(pool, now_ms)
            if not plan.assignments:
                break
            actions.append(Lease(plan.assignments))
            free_slots -= 1
        if self._state.dirty:
            actions += self._resolve_idle_pools(now_ms)
        actions += [StartLookUp(look_up) for look_up in self._look_ups.begin(now_ms)]
        actions += self._wake_up_call(now_ms)
        return actions

    def plan(self, now_ms: float) -> Plan:
        """Plan for the pools with news, and mark the partitions of the call."""
        plan = decide(self._state.dirty, self._state.claiming, room=self._room)
        self._state.dirty = dict.fromkeys(plan.cut_off)
        fresh: set[tuple[UUID, str]] = set()
        doubles = self.double_assignments
        plan.assignments = [one for one in plan.assignments if self._is_single(one, fresh)]
        for one in plan.assignments:
            self._start(one, now_ms)
        for pool, _ in plan.skipped:
            if pool.ready or pool.claims:
                self._state.on_calls[pool] = None
        self._state.metrics.note_plan(plan)
        self._state.metrics.note_doubles(self.double_assignments - doubles)
        return plan

    def _is_single(self, assignment: Assignment, fresh: set[tuple[UUID, str]]) -> bool:
        """Return whether no other pop tries one of these partitions: the last check."""
        group = assignment.pool.consumer_group
        pairs = {(partition_id, group) for partition_id in assignment.partition_ids}
        if pairs & fresh or not self._state.claiming.isdisjoint(assignment.partition_ids):
            self.double_assignments += 1
            self._state.dirty[assignment.pool] = None
            return False
        fresh |= pairs
        return True

    def _start(self, assignment: Assignment, now_ms: float) -> None:
        intention, pool, partition_ids, _ = assignment
        intention.move(_ASSIGNED, now_ms)
        pool.remove(intention)
        pool.claims.add(intention.number)
        for partition_id in partition_ids:
            del pool.ready[partition_id]
        self._state.claiming.update(partition_ids)

    def _resolve_pool(self, pool: Pool, now_ms: float) -> list[Action]:
        """Look up, answer or park the waiting pops of a pool that has nothing to try."""
        is_covered = pool.is_looked_up() or self._look_ups.cover(pool)
        # One look-up does not end a walk.
        if not pool.ready and (pool.is_walking or not is_covered):
            self._state.want_look_up(pool)
        actions: list[Action] = []
        for intention in pool.find_answerable() if pool.impatient else ():
            pool.remove(intention)
            reason = intention.last_outcome if pool.is_found else "partition_not_found"
            actions += self._state.finish(intention, PopEvent.DRY, PopAnswer((), reason), now_ms)
        if pool.waiting_count and not self._state.is_closing:
            self._state.schedule.add(pool, now_ms, is_busy=bool(pool.ready or pool.claims))
        return actions

    def _resolve_idle_pools(self, now_ms: float) -> list[Action]:
        """Resolve pools that have nothing to try. They need no slot."""
        actions: list[Action] = []
        for pool in [one for one in self._state.dirty if not one.ready]:
            del self._state.dirty[pool]
            if pool.waiting_count:
                actions += self._resolve_pool(pool, now_ms)
        return actions

    def _wake_up_call(self, now_ms: float) -> Iterator[Action]:
        for pool in self._state.due:
            self._state.schedule.add(pool, now_ms, is_busy=True)
        self._state.due.clear()
        times = (self._state.schedule.next_at_ms(), self._look_ups.next_at_ms())
        at_ms = min((one for one in times if one is not None), default=None)
        if at_ms is not None and not self._state.is_closing:
            yield WakeAt(at_ms)
