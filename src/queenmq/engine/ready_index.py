"""What waits where, and which partitions probably have work. Pure: no clock, no I/O.

A pool joins the pops of one consumer group that look in the same place (a Scope) with the
partitions of that place that are believed to have something for them. Belief comes from pushes,
acks and look-ups; it may be wrong in both directions, so the lease checks again and a timer looks
again.

Partitions leave a pool at the front and come back at the end: the least recently served one is
next.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Container, Iterator
from typing import Any
from uuid import UUID

from queenmq.engine.operation import PartitionKey, PopRequest, Scope
from queenmq.engine.pop_machine import FINAL, PopEvent, PopState, step

#: Partitions a pool remembers; beyond it, look-ups find the rest.
READY_MAX = 10_000

_numbers = itertools.count(1)


class Intention:
    """One pop on its way: what was asked, its state, and its place in the row of waiters."""

    __slots__ = (
        "answer",
        "is_expired",
        "last_outcome",
        "number",
        "request",
        "state",
        "tick",
        "timer",
        "tries",
    )

    def __init__(self, request: PopRequest, *, tick: int, answer: Any) -> None:
        self.request = request
        self.number = next(_numbers)
        #: A look-up that started after this tick has seen everything pushed before the pop came.
        self.tick = tick
        #: Whoever waits for the answer; opaque here.
        self.answer = answer
        self.timer: Any = None
        self.state = PopState.PENDING
        self.is_expired = False
        self.tries = 0
        self.last_outcome = ""

    def __lt__(self, other: Intention) -> bool:
        return self.number < other.number

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def may_wait(self) -> bool:
        return self.request.wait_ms is not None and not self.is_expired

    def move(self, event: PopEvent) -> None:
        self.state = step(self.state, event)


class Pool:
    """The waiting pops of one (scope, consumer group) and the partitions to try for them."""

    __slots__ = (
        "_waiting",
        "auto_claims",
        "claims",
        "consumer_group",
        "due_ms",
        "poll_ms",
        "ready",
        "resolved_tick",
        "scope",
        "timer",
        "waiting_count",
    )

    def __init__(self, scope: Scope, consumer_group: str) -> None:
        self.scope = scope
        self.consumer_group = consumer_group
        self.ready: dict[UUID, None] = {}
        #: The start of the last look-up that has ended.
        self.resolved_tick = -1
        #: Pops of this pool that are in a call.
        self.claims = 0
        #: Those among them that move cursors without leasing: more may be there when they end.
        self.auto_claims = 0
        self.poll_ms: float = 0
        self.due_ms: float | None = None
        self.timer: Any = None
        self.waiting_count = 0
        self._waiting: list[Intention] = []

    @property
    def key(self) -> tuple[Scope, str]:
        return self.scope, self.consumer_group

    @property
    def is_specific(self) -> bool:
        return self.scope.partition is not None

    def add(self, intention: Intention) -> None:
        """The pop waits here, at the place its arrival gives it."""
        heapq.heappush(self._waiting, intention)
        self.waiting_count += 1

    def first(self) -> Intention | None:
        """The pop that has waited longest."""
        while self._waiting:
            if self._waiting[0].state is PopState.PENDING:
                return self._waiting[0]
            heapq.heappop(self._waiting)
        return None

    def pop_first(self) -> Intention:
        """Take that pop out of the row."""
        self.waiting_count -= 1
        return heapq.heappop(self._waiting)

    def left(self) -> None:
        """A waiting pop has been answered in place; its entry is dropped when it comes to the
        front.
        """
        self.waiting_count -= 1
        if len(self._waiting) > 64 and self.waiting_count < len(self._waiting) // 2:
            self._waiting = [one for one in self._waiting if one.state is PopState.PENDING]
            heapq.heapify(self._waiting)

    def pending(self) -> list[Intention]:
        """All waiting pops, longest first."""
        return sorted(one for one in self._waiting if one.state is PopState.PENDING)

    def mark_ready(self, partition_id: UUID) -> None:
        """The partition may have work; one that is already in the row keeps its place."""
        if len(self.ready) < READY_MAX:
            self.ready[partition_id] = None

    def take_ready(self, count: int, busy: Container[tuple[UUID, str]]) -> list[UUID]:
        """Take up to count partitions to try, passing over those that are being tried already."""
        chosen: list[UUID] = []
        for partition_id in self.ready:
            if (partition_id, self.consumer_group) not in busy:
                chosen.append(partition_id)
                if len(chosen) == count:
                    break
        for partition_id in chosen:
            del self.ready[partition_id]
        return chosen

    def is_settled_for(self, intention: Intention) -> bool:
        """Whether everything pushed before this pop came has been looked at."""
        return self.resolved_tick > intention.tick and not self.ready and not self.auto_claims


class PoolIndex:
    """All pools of a broker, found by what a push or an ack knows."""

    def __init__(self) -> None:
        self._pools: dict[tuple[Scope, str], Pool] = {}
        self._by_queue: dict[str, dict[Pool, None]] = {}
        self._by_partition: dict[PartitionKey, dict[Pool, None]] = {}
        self._by_filter: dict[Pool, None] = {}

    def __iter__(self) -> Iterator[Pool]:
        return iter(list(self._pools.values()))

    def __len__(self) -> int:
        return len(self._pools)

    def get_or_add(self, scope: Scope, consumer_group: str) -> Pool:
        """The pool of a scope and group."""
        pool = self._pools.get((scope, consumer_group))
        if pool is None:
            pool = self._pools[scope, consumer_group] = Pool(scope, consumer_group)
            self._home(pool)[pool] = None
        return pool

    def remove(self, pool: Pool) -> None:
        """Forget a pool in which nobody waits."""
        del self._pools[pool.key]
        home = self._home(pool)
        del home[pool]
        scope = pool.scope
        if not home and scope.queue is not None:
            if scope.partition is None:
                del self._by_queue[scope.queue]
            else:
                del self._by_partition[scope.partition_key]

    def remove_idle(self) -> None:
        """Forget the pools that nobody uses right now."""
        for pool in self:
            if not pool.waiting_count and not pool.claims and pool.timer is None:
                self.remove(pool)

    def _home(self, pool: Pool) -> dict[Pool, None]:
        scope = pool.scope
        if scope.queue is None:
            return self._by_filter
        if scope.partition is None:
            return self._by_queue.setdefault(scope.queue, {})
        return self._by_partition.setdefault(scope.partition_key, {})

    def touched_by(self, key: PartitionKey, *, namespace: str, task: str) -> Iterator[Pool]:
        """The pools in which this partition may be served; those that ask for it by name first."""
        yield from self._by_partition.get(key, ())
        yield from self._by_queue.get(key.queue, ())
        for pool in self._by_filter:
            scope = pool.scope
            if scope.namespace in (None, namespace) and scope.task in (None, task):
                yield pool

    def of_queue(self, queue: str) -> Iterator[Pool]:
        """The pools that look at this queue or at one of its partitions by name, or by a filter."""
        yield from self._by_queue.get(queue, ())
        for key, pools in self._by_partition.items():
            if key.queue == queue:
                yield from pools
        yield from self._by_filter
