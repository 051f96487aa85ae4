"""The memory of the board, and the small steps that its parts share. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from queenmq.engine.pop.board.actions import Action, Answer
from queenmq.engine.pop.board.poll_schedule import PollSchedule
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.board.pool_index import PoolIndex
from queenmq.engine.pop.board.wanted import Wanted
from queenmq.engine.pop.intention import Intention, PopAnswer
from queenmq.engine.pop.machine import PopEvent
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.requests import PartitionKey, PartitionRef, PopRequest
from queenmq.errors import QueenError

#: Idle pools to keep for callers that may come back.
POOLS_MAX = 5_000


#: The answer to a pop that may not wait while pops are paused.
PAUSED = PopAnswer((), "paused")


class BoardState:
    """All pools, and what each of them needs."""

    def __init__(
        self,
        schedule: PollSchedule,
        metrics: PopMetrics,
        find_known: Callable[[PartitionKey], PartitionRef | None],
    ) -> None:
        self.schedule = schedule
        self.metrics = metrics
        self.find_known = find_known
        self.pools = PoolIndex()
        #: As many may be there before idle ones are looked for again.
        self._pools_wanted = 0
        #: Pools with news: a waiter or a partition was added, or a call for them has ended.
        self.dirty: dict[Pool, None] = {}
        #: Pools that need a look-up, and pools that need a separate one.
        self.dry = Wanted()
        self.dry_alone: list[Pool] = []
        #: Pools whose look-ups took too long. They have separate look-ups.
        self.dry_slow = Wanted()
        #: Pools of which a due time has become known.
        self.due: dict[Pool, None] = {}
        #: Pools whose partitions are all in calls: the end of any call is news for them.
        self.on_calls: dict[Pool, None] = {}
        #: Partitions in a call; none is in two calls.
        self.claiming: set[UUID] = set()
        #: Look-ups begun so far.
        self.tick = 0
        self.is_paused = False
        self.paused_groups: set[str] = set()
        self.is_closing = False

    def holds_back(self, consumer_group: str) -> bool:
        """Return whether pops of this group are paused, alone or with all others."""
        return self.is_paused or consumer_group in self.paused_groups

    def drop_paused(self) -> None:
        """Forget the news of paused groups. A resumed group gets a new look-up."""
        for pools in (self.dirty, self.dry, self.dry_slow):
            for pool in [one for one in pools if one.consumer_group in self.paused_groups]:
                del pools[pool]
        self.dry_alone = [
            one for one in self.dry_alone if one.consumer_group not in self.paused_groups
        ]

    def pool_of(self, request: PopRequest) -> Pool:
        """Find the pool of a request, or make it."""
        if len(self.pools) >= max(POOLS_MAX, self._pools_wanted):
            self.pools.remove_idle()
            # Pools in use stay. Going through them for every pop would cost more than the pops.
            self._pools_wanted = 2 * len(self.pools)
        return self.pools.get_or_add(request.scope, request.consumer_group)

    def finish(
        self, intention: Intention, event: PopEvent, result: PopAnswer | QueenError, now_ms: float
    ) -> list[Action]:
        """Finish the pop with an answer for its caller."""
        intention.move(event, now_ms)
        return [Answer(intention, result)]

    def offer(self, pool: Pool, partition_id: UUID) -> None:
        """Note that the partition has work, and wake the pool."""
        self.add_ready(pool, partition_id)
        self.wake(pool)

    def add_ready(self, pool: Pool, partition_id: UUID) -> None:
        """Note that the partition has work, which is news if a pop waits for it."""
        pool.mark_ready(partition_id)
        if pool.scope.queue is None:
            # Several queues, highest priority first: only a look-up knows the order.
            pool.hold_ready(self.tick)
        if pool.waiting_count:
            self.dirty[pool] = None

    def wake(self, pool: Pool) -> None:
        """Wake a pool, because something may have happened in its place."""
        pool.is_woken = True
        self.schedule.reset(pool)

    def want_look_up(self, pool: Pool) -> None:
        """Request a look-up of the pool: at once if urgent, after a delay if the last was slow."""
        if not pool.is_backing_off:
            (self.dry_slow if pool.slowness else self.dry).want(pool)

    def free(self, partition_id: UUID, key: PartitionKey, consumer_group: str) -> None:
        """Offer a partition to all pools of a group that could serve it."""
        ref = self.find_known(key)
        namespace, task = (ref.namespace, ref.task) if ref else ("", "")
        for pool in self.pools.touched_by(key, namespace=namespace, task=task):
            if pool.consumer_group == consumer_group:
                self.offer(pool, partition_id)

    def note_due(self, pool: Pool, due_at_ms: float) -> None:
        """Remember when the first message of the pool that waits for its time is due."""
        pool.due_at_ms = min(due_at_ms, pool.due_at_ms or due_at_ms)
        self.due[pool] = None

    def doubt(self) -> None:
        """Drop all horizons: the database was away and may be another one now."""
        for pool in self.pools:
            pool.doubt()
