"""The decision engine: assigns partitions to pops. Pure, and changes nothing it is given.

Input are the pools with news: waiting pops and the partitions known to have work for them. Output
is a plan for one database call. The longest waiter goes first and gets the least recently served
partition. A partition that pops wait for by name is reserved for them. The plan never assigns a
(partition, group) pair twice, and never a partition that is in another call.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from queenmq.engine.outcomes import HoldReason
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.intention import Intention


class Decision(enum.Enum):
    """The decision about a waiting pop. A skipped pop keeps waiting."""

    #: Its scope holds nothing for the group.
    SKIP_NO_PARTITIONS = "no_partitions"
    #: The partition that it names has nothing for the group, or is being served right now.
    SKIP_PARTITION_UNAVAILABLE = "partition_unavailable"
    #: Whatever is there is leased.
    SKIP_LEASE_TAKEN = "lease_taken"
    #: Whatever is there waits for a delay, a window or a retry, or is blocked.
    SKIP_WINDOW_BUFFER = "window_buffer"
    #: It has partitions to try.
    VIABLE_ASSIGNED = "viable"


class Room(NamedTuple):
    """The capacity of one call. A single request always fits."""

    requests: int
    candidates: int
    messages: int


class Assignment(NamedTuple):
    """A pop and the partitions to try for it."""

    intention: Intention
    pool: Pool
    partition_ids: list[UUID]
    #: The newest look-up that the pool had learnt from.
    seen_tick: int


@dataclass(slots=True)
class Plan:
    """The pops of one call, the pools that found nothing for others, and those that did not fit."""

    assignments: list[Assignment] = field(default_factory=list)
    skipped: list[tuple[Pool, Decision]] = field(default_factory=list)
    cut_off: list[Pool] = field(default_factory=list)


def count_skipped(plan: Plan) -> dict[Decision, int]:
    """Return how many pops the plan has left waiting, by reason."""
    counts: dict[Decision, int] = {}
    for pool, decision in plan.skipped:
        counts[decision] = counts.get(decision, 0) + pool.waiting_count
    return counts


def decide(pools: Iterable[Pool], busy: Container[UUID], *, room: Room) -> Plan:
    """Plan one call for these pools. `busy` are the partitions in other calls."""
    # Sorted by longest waiter: a pool that does not fit now moves to the front in time.
    waited_for = sorted((one for one in pools if one.waiting_count), key=Pool.first_number)
    planner = _Planner(busy, room)
    for pool in waited_for:
        if pool.is_specific:
            planner.reserve(pool)
    for pool in waited_for:
        planner.serve(pool)
    return planner.plan


def reason_to_skip(pool: Pool) -> Decision:
    """Return why the pops of a pool got nothing, by the first obstacle."""
    if pool.ready or pool.claims:
        if pool.is_specific:
            return Decision.SKIP_PARTITION_UNAVAILABLE
        return Decision.SKIP_LEASE_TAKEN
    if pool.held:
        why = next(iter(pool.held.values())).why
        return Decision.SKIP_LEASE_TAKEN if why is HoldReason.LEASE else Decision.SKIP_WINDOW_BUFFER
    if pool.is_specific:
        return Decision.SKIP_PARTITION_UNAVAILABLE
    return Decision.SKIP_NO_PARTITIONS


class _Planner:
    """Fills one plan."""

    def __init__(self, busy: Container[UUID], room: Room) -> None:
        self.plan = Plan()
        self._busy = busy
        self._room = room
        self._candidates = 0
        self._messages = 0
        self._is_closed = False
        #: Per group: partitions given away, and those that only pops by name may have.
        self._taken: dict[str, set[UUID]] = {}
        self._reserved: dict[str, set[UUID]] = {}

    def reserve(self, pool: Pool) -> None:
        """Reserve the partition of these pops from pops that take any."""
        self._reserved.setdefault(pool.consumer_group, set()).update(pool.ready)

    def serve(self, pool: Pool) -> None:
        """Assign partitions to the waiters of a pool."""
        if self._serve(pool):
            self.plan.skipped.append((pool, reason_to_skip(pool)))

    def _serve(self, pool: Pool) -> bool:
        """Return whether the pool has pops left for which there is nothing to try."""
        taken = self._taken.setdefault(pool.consumer_group, set())
        reserved = () if pool.is_specific else self._reserved.get(pool.consumer_group, ())
        free = (
            partition_id
            for partition_id in pool.free_ready(self._busy, taken)
            if partition_id not in reserved
        )
        for intention in pool.waiting():
            wanted = min(intention.request.partitions, self._room.candidates - self._candidates)
            if wanted <= 0 or not self._has_room(intention):
                self.plan.cut_off.append(pool)
                return False
            partition_ids = list(islice(free, wanted))
            if not partition_ids:
                return True
            taken.update(partition_ids)
            self._add(Assignment(intention, pool, partition_ids, pool.learnt_tick))
        return False

    def _has_room(self, intention: Intention) -> bool:
        assignments = self.plan.assignments
        if not assignments:
            return True
        # A pop whose last call failed is tried alone, so that it cannot fail others.
        return (
            not self._is_closed
            and not intention.broken_calls
            and len(assignments) < self._room.requests
            and self._messages + intention.request.batch <= self._room.messages
        )

    def _add(self, assignment: Assignment) -> None:
        self.plan.assignments.append(assignment)
        self._candidates += len(assignment.partition_ids)
        self._messages += assignment.intention.request.batch
        self._is_closed = assignment.intention.broken_calls > 0
