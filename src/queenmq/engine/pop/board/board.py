"""The single owner of all state of the pop path. Pure: no clock, no I/O, no event loop.

How pops work. A *pool* joins the waiting pops of one consumer group that look in the same place
with what is known of that place. The board holds all pools, and only the board changes them. Every
event is one call of a method below. It changes pools and returns *actions*: answers to give, calls
to make, times to wake up at. The shells around the board (`engine/pop/service.py`, `calls.py`,
`preflight.py`) carry out the actions and report the results as new events.

*Turns.* Most events only mark a pool as having news. `turn` then handles all marked pools at once,
so that requests that arrive together share a call. It plans: the longest waiters get the partitions
to try (decision.py), each partition in at most one call. A pool with waiters and nothing to try is
exhausted. Once everything has been looked up, its waiters with `wait=false` are answered. The
others wait.

*Ticks.* Every look-up has a number, its tick. A pop remembers the newest tick at its arrival. Only
a look-up with a higher tick began after the pop arrived, so only that one can prove that there is
nothing for it. The same rule decides between two facts: a fact learnt during a look-up is newer
than the look-up.

*Horizons.* A finished look-up leaves a horizon: a transaction number below which everything is
known. The next look-up starts there. As long as a pool has a horizon, every partition with messages
for the group is ready, held or in a call, or got its messages from a transaction at or above the
horizon.

*Doubt.* When that may no longer be true (a call failed, the database was away, a list was full),
the board drops the horizon, and the next look-up searches the whole place. A doubt that arises
during a look-up wins over its result.

*Hints.* Pushes, acks and notifications are hints: they name a partition to try or a pool to look
up. A lost hint costs time but no message, because pools are also polled (poll_schedule.py). A false
hint costs one try, because the lease itself checks again in the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from queenmq.engine.pop.board.actions import Action, Fetch, HandBack
from queenmq.engine.pop.board.decision import Assignment
from queenmq.engine.pop.board.lease_results import LeaseResults
from queenmq.engine.pop.board.limits import BoardLimits
from queenmq.engine.pop.board.look_up import LookUp
from queenmq.engine.pop.board.look_ups import LookUps
from queenmq.engine.pop.board.poll_schedule import PollSchedule
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.board.state import PAUSED, BoardState
from queenmq.engine.pop.board.turns import Turns
from queenmq.engine.pop.intention import Intention, PopAnswer
from queenmq.engine.pop.machine import PopEvent, PopState
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.requests import PartitionKey, PartitionRef, PopGrant, PopRequest
from queenmq.errors import QueenError

DISMISSED = PopAnswer((), "group_deleted", is_timeout=True)
STOPPING = PopAnswer((), "shutting_down", is_timeout=True)


class PopBoard:
    """Holds all waiting pops, all knowledge about partitions, and all calls in flight."""

    def __init__(
        self,
        limits: BoardLimits,
        schedule: PollSchedule,
        metrics: PopMetrics,
        *,
        find_known: Callable[[PartitionKey], PartitionRef | None],
    ) -> None:
        self._state = BoardState(schedule, metrics, find_known)
        self._look_ups = LookUps(self._state, limits)
        self._turns = Turns(self._state, self._look_ups, limits.room)
        self._results = LeaseResults(self._state)

    @property
    def tick(self) -> int:
        """Return the number of the newest look-up."""
        return self._state.tick

    @property
    def has_news(self) -> bool:
        """Return whether a turn has something to do."""
        state = self._state
        return bool(state.dirty or state.dry or state.dry_slow or state.dry_alone)

    @property
    def ready_count(self) -> int:
        """Return how many pops could be tried now. Parked pops do not count."""
        return sum(min(pool.waiting_count, len(pool.ready)) for pool in self._state.dirty)

    def count_waiting(self, key: PartitionKey | str, filters: tuple[str, str], group: str) -> int:
        """Count the pops of a group that could get messages of a partition, or of any partition of
        a queue. `filters` are the queue's namespace and task.
        """
        return sum(
            pool.waiting_count
            for pool in self._state.pools.of_queue(key if isinstance(key, str) else key.queue)
            if pool.consumer_group == group and pool.scope.covers(key, *filters)
        )

    def count_by_queue(self) -> dict[str, int]:
        """Count the waiting pops by queue. Pops by label are under the empty name."""
        counts: dict[str, int] = {}
        for pool in self._state.pools:
            if pool.waiting_count:
                queue = pool.scope.queue or ""
                counts[queue] = counts.get(queue, 0) + pool.waiting_count
        return counts

    # Pops come and go.

    def arrived(self, intention: Intention, now_ms: float) -> list[Action]:
        """Handle a pop that has arrived."""
        if self._state.is_closing:
            return self._state.finish(intention, PopEvent.DRY, STOPPING, now_ms)
        request = intention.request
        if self._state.holds_back(request.consumer_group) and not intention.may_wait:
            return self._state.finish(intention, PopEvent.DRY, PAUSED, now_ms)
        pool = self._state.pool_of(request)
        if pool.is_specific and (ref := self._state.find_known(request.scope.partition_key)):
            # A remembered partition needs no look-up: the lease sees whatever is there.
            pool.mark_ready(ref.partition_id)
            pool.resolved_tick = self._state.tick + 1
            pool.is_found = True
        else:
            if pool.is_specific:
                # Knowledge from an id that was forgotten since (a deleted queue) is void.
                pool.require_look_up(self._state.tick)
            if pool.poll_at_ms is None:
                # Also when every pop is served at once: no event announces a lease that has
                # expired.
                self._state.schedule.add(pool, now_ms, is_busy=True)
        pool.is_used = True
        pool.add(intention)
        self._state.dirty[pool] = None
        return []

    def left(self, intention: Intention, now_ms: float) -> list[Action]:
        """Handle a caller that left. Leases that a call still brings for it are handed back."""
        if intention.is_waiting:
            self._state.pool_of(intention.request).remove(intention)
            intention.move(PopEvent.CALLER_LEFT, now_ms)
        elif not intention.is_final and intention.state is not PopState.ABANDONED:
            intention.move(PopEvent.CALLER_LEFT, now_ms)
        return []

    def left_with(self, request: PopRequest, grants: Sequence[PopGrant]) -> list[Action]:
        """Handle a caller that left before it got these messages.

        Messages that were acked are lost.
        """
        return [] if request.is_auto_ack else [HandBack(self._state.pool_of(request), grants)]

    def expired(self, intention: Intention, now_ms: float) -> list[Action]:
        """Answer a pop whose time is up."""
        intention.is_expired = True
        if not intention.is_waiting:
            return []
        self._state.pool_of(intention.request).remove(intention)
        answer = PopAnswer((), intention.last_outcome, is_timeout=True)
        return self._state.finish(intention, PopEvent.DRY, answer, now_ms)

    def dismissed(self, queue: str, consumer_group: str, now_ms: float) -> list[Action]:
        """Forget the start of a group on a queue.

        Waiting pops that named a start are answered and have to name it again. If they kept
        waiting, they would get the queue from its oldest message on.
        """
        gone = [
            intention
            for pool in self._state.pools.of_queue(queue)
            if pool.consumer_group == consumer_group
            for intention in pool.waiting()
            if intention.request.subscription is not None
        ]
        return self._answer_all(gone, DISMISSED, now_ms)

    def closed(self, now_ms: float) -> list[Action]:
        """Answer every waiting pop, because the broker stops."""
        self._state.is_closing = True
        waiting = [intention for pool in self._state.pools for intention in pool.waiting()]
        return self._answer_all(waiting, STOPPING, now_ms)

    def paused(self, is_paused: bool, now_ms: float) -> list[Action]:
        """Pause all pops from now on, or serve them again.

        A pop with `wait=false` is answered at once. The others keep waiting until their deadlines.
        """
        self._state.is_paused = is_paused
        return self._hold_back_or_wake(list(self._state.pools), is_paused, now_ms)

    def group_paused(self, consumer_group: str, is_paused: bool, now_ms: float) -> list[Action]:
        """Pause the pops of one group from now on, or serve them again; see `paused`."""
        if is_paused:
            self._state.paused_groups.add(consumer_group)
        else:
            self._state.paused_groups.discard(consumer_group)
        pools = [one for one in self._state.pools if one.consumer_group == consumer_group]
        return self._hold_back_or_wake(pools, is_paused, now_ms)

    def _hold_back_or_wake(
        self, pools: Iterable[Pool], is_paused: bool, now_ms: float
    ) -> list[Action]:
        if is_paused:
            impatient = [one for pool in pools for one in pool.waiting() if not one.may_wait]
            return self._answer_all(impatient, PAUSED, now_ms)
        for pool in pools:
            if pool.waiting_count:
                pool.is_urgent = True
                self._state.want_look_up(pool)
                self._state.dirty[pool] = None
        return []

    # News of messages.

    def pushed(self, refs: Iterable[PartitionRef]) -> None:
        """Note that these partitions have new messages."""
        for ref in refs:
            filters = {"namespace": ref.namespace, "task": ref.task}
            for pool in self._state.pools.touched_by(ref.key, **filters):
                self._state.offer(pool, ref.partition_id)

    def freed(self, partition_id: UUID, key: PartitionKey, consumer_group: str) -> None:
        """Note that a lease has ended and the partition has more for its group."""
        self._state.free(partition_id, key, consumer_group)

    def pushed_elsewhere(self, queues: Iterable[str]) -> None:
        """Note that these queues have news by another broker or a SQL session; `*` stands for
        all.
        """
        for queue in queues:
            for pool in self._state.pools if queue == "*" else self._state.pools.of_queue(queue):
                self._state.wake(pool)
                pool.is_urgent = True
                # A pop in a call may come back from it with nothing.
                if pool.waiting_count or pool.claims or pool.reads:
                    self._state.want_look_up(pool)

    def listening(self, is_listening: bool) -> None:
        """Note that notifications now arrive, or no longer do. Some may have been lost."""
        self._state.schedule.is_listening = is_listening
        self.pushed_elsewhere(["*"])

    def due(self, now_ms: float) -> None:
        """Handle the timer that the board asked for."""
        for pool in self._state.schedule.take_due(now_ms):
            if pool.waiting_count or pool.claims or pool.is_used:
                pool.is_used = False
                self._state.want_look_up(pool)

    def turn(self, now_ms: float, *, free_slots: int) -> list[Action]:
        """Handle all pools with news, with as many calls as there are free slots."""
        return [] if self._state.is_paused else self._turns.turn(now_ms, free_slots=free_slots)

    # Results of actions.

    def lost(self) -> None:
        """Note that a call ended without an answer: the database was away and may be another one
        now.
        """
        self._state.doubt()

    def leased(
        self, assignments: list[Assignment], grants: Iterable[PopGrant], now_ms: float
    ) -> list[Action]:
        """Handle the result of a lease call."""
        return self._results.leased(assignments, grants, now_ms)

    def lease_failed(
        self, assignments: list[Assignment], error: QueenError, now_ms: float
    ) -> list[Action]:
        """Handle a failed lease call. None of its leases remain."""
        return self._results.lease_failed(assignments, error, now_ms)

    def fetched(self, fetch: Fetch, read: list[PopGrant], now_ms: float) -> list[Action]:
        """Handle a large batch. Leases whose messages were deleted meanwhile are empty."""
        return self._results.fetched(fetch, read, now_ms)

    def fetch_failed(self, fetch: Fetch, error: QueenError, now_ms: float) -> list[Action]:
        """Handle a failed read of a large batch. Its leases were handed back if possible."""
        return self._results.fetch_failed(fetch, error, now_ms)

    def handed_back(self, pool: Pool, grants: Sequence[PopGrant]) -> list[Action]:
        """Free partitions for the pool that they were leased for and for others."""
        return self._results.handed_back(pool, grants)

    def looked_up(self, look_up: LookUp, now_ms: float) -> None:
        """Note that all questions of a look-up are answered."""
        self._look_ups.end(look_up, now_ms)

    def look_up_failed(self, look_up: LookUp, error: QueenError, now_ms: float) -> list[Action]:
        """Handle a failed question of a look-up."""
        return self._look_ups.fail(look_up, error, now_ms)

    def _answer_all(
        self, intentions: list[Intention], answer: PopAnswer, now_ms: float
    ) -> list[Action]:
        actions: list[Action] = []
        for intention in intentions:
            self._state.pool_of(intention.request).remove(intention)
            actions += self._state.finish(intention, PopEvent.DRY, answer, now_ms)
        return actions
