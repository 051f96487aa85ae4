"""Pop: every pop is an intention that waits in a pool until a plan gives it partitions to try.

This module takes news (pops, pushes, acks, wake-ups, timers) and turns the wheel: plan what can be
served and call the database for it, look up the pools that know too little, answer the pops that
may not wait, and set the timer behind everything else. A parked pop costs neither a connection nor
a query of its own. All state is touched by the event loop only, so there is no lock to forget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.ack.leases import LeaseService
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.pop.board import PopBoard
from queenmq.engine.pop.calls import PopCalls
from queenmq.engine.pop.decision import Room
from queenmq.engine.pop.desk import DISMISSED, LEFT, STOPPING, PopDesk, known
from queenmq.engine.pop.intention import Intention, PopAnswer
from queenmq.engine.pop.machine import PopEvent, PopState
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.pop.poll_schedule import PollSchedule
from queenmq.engine.pop.preflight import Preflight
from queenmq.engine.pop.ready_index import Pool
from queenmq.engine.ports import MessageStore
from queenmq.engine.requests import PartitionKey, PartitionRef, PopGrant, PopRequest
from queenmq.errors import QueenError, StorageFault, StorageRejected


@dataclass(frozen=True, slots=True)
class PopLimits:
    """The bounds of the pop path; the settings page explains each."""

    slots: int
    room: Room
    apart_count: int
    waiting_max: int
    preflight_pools_max: int
    #: Partitions to try that one look-up brings per pool.
    page: int
    preflight_budget_ms: int
    min_interval_ms: int
    max_interval_ms: int
    listening_interval_ms: int
    is_checking: bool


class PopService:
    """The pop path of a broker. `on_returned` is told of queues whose leases were handed back."""

    def __init__(
        self,
        store: MessageStore,
        leases: LeaseService,
        catalogue: Catalogue,
        metrics: PopMetrics,
        limits: PopLimits,
        *,
        on_returned: Callable[[str], None],
    ) -> None:
        self._catalogue = catalogue
        self._metrics = metrics
        self._board = PopBoard(room=limits.room)
        self._schedule = PollSchedule(
            min_interval_ms=limits.min_interval_ms,
            max_interval_ms=limits.max_interval_ms,
            listening_interval_ms=limits.listening_interval_ms,
        )
        self._desk = PopDesk(
            waiting_max=limits.waiting_max, times=metrics.times, on_count=metrics.waiting
        )
        self._calls = PopCalls(
            store,
            leases,
            catalogue,
            self._board,
            self._desk,
            metrics,
            slots=limits.slots,
            apart_count=limits.apart_count,
            on_freed=self.freed,
            on_returned=on_returned,
            on_end=self._pump,
        )
        self._preflight = Preflight(
            store,
            catalogue,
            self._board,
            self._schedule,
            metrics,
            pools_max=limits.preflight_pools_max,
            page=limits.page,
            budget_ms=limits.preflight_budget_ms,
            is_checking=limits.is_checking,
        )
        self._is_looking_up = False
        self._is_paused = False
        self._is_pumping = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0.0

    @property
    def depth(self) -> int:
        """How many pops could be tried now and wait for a slot. Parked ones wait for messages."""
        return sum(min(pool.waiting_count, len(pool.ready)) for pool in self._board.dirty)

    def count_waiting(self, key: PartitionKey | str, filters: tuple[str, str], group: str) -> int:
        """How many pops of a group wait here that could get something of a partition, or of any
        partition of a queue; filters are its namespace and task.
        """
        queue = key if isinstance(key, str) else key.queue
        namespace, task = filters
        count = 0
        for pool in self._board.pools.of_queue(queue):
            scope = pool.scope
            is_near = scope.queue is not None or (
                scope.namespace in (None, namespace) and scope.task in (None, task)
            )
            is_same = isinstance(key, str) or scope.partition in (None, key.partition)
            if pool.consumer_group == group and is_near and is_same:
                count += pool.waiting_count
        return count

    # What the routes call.

    def submit(self, request: PopRequest) -> Intention:
        """Take a pop in. Its `answer` is a future of PopAnswer."""
        intention = self._desk.admit(request, tick=self._board.tick)
        if self._desk.is_closing:
            self._desk.finish(intention, PopEvent.DRY, STOPPING)
            return intention
        pool = self._board.pool_of(request)
        self._desk.set_deadline(intention, self._expire)
        if pool.is_specific and (ref := self._catalogue.get(request.scope.partition_key)):
            # A remembered partition needs no look-up: the lease sees whatever is there.
            pool.mark_ready(ref.partition_id)
            pool.resolved_tick = self._board.tick + 1
            pool.is_found = True
        else:
            if pool.is_specific:
                # What an id told that is forgotten since, as of a deleted queue, counts no more.
                pool.unsettle(self._board.tick)
            if pool.poll_at_ms is None:
                # Also when every pop is served at once: nobody announces a lease that has run out.
                self._schedule.add(pool, now_ms(), is_busy=True)
        pool.is_used = True
        pool.add(intention)
        self._board.dirty[pool] = None
        self._pump_soon()
        return intention

    def leave(self, intention: Intention) -> None:
        """The caller has gone; whatever a call still brings for it is handed back."""
        if intention.is_waiting:
            self._board.pool_of(intention.request).remove(intention)
            self._desk.finish(intention, PopEvent.CALLER_LEFT, LEFT)
        elif not intention.is_final and intention.state is not PopState.ABANDONED:
            self._desk.abandon(intention)

    def hand_back(self, request: PopRequest, grants: Sequence[PopGrant]) -> None:
        """The caller has gone before it could get these; messages that were acked are lost."""
        if not request.is_auto_ack:
            self._calls.hand_back(self._board.pool_of(request), grants)

    def _expire(self, intention: Intention) -> None:
        intention.is_expired = True
        if intention.is_waiting:
            self._board.pool_of(intention.request).remove(intention)
            answer = PopAnswer((), intention.last_outcome, is_timeout=True)
            self._desk.finish(intention, PopEvent.DRY, answer)

    async def drain(self) -> None:
        """Answer all waiters without messages and wait for the calls in flight."""
        self._desk.is_closing = True
        for pool in self._board.pools:
            for intention in list(pool.waiting()):
                pool.remove(intention)
                self._desk.finish(intention, PopEvent.DRY, STOPPING)
        if self._timer is not None:
            self._timer.cancel()
        await self._calls.drain()

    def pause(self, is_paused: bool) -> None:
        """Hand out nothing to anybody, or go on; who waits meanwhile waits, up to its deadline."""
        self._is_paused = is_paused
        for pool in self._board.pools:
            if pool.waiting_count and not is_paused:
                self._board.dry[pool] = None
                self._board.dirty[pool] = None
        self._pump_soon()

    # What tells of new work.

    def pushed(self, refs: Iterable[PartitionRef]) -> None:
        """These partitions have new messages."""
        pools = self._board.pools
        for ref in refs:
            for pool in pools.touched_by(ref.key, namespace=ref.namespace, task=ref.task):
                if self._board.add_ready(pool, ref.partition_id):
                    self._woken(pool)

    def freed(self, partition_id: UUID, key: PartitionKey, consumer_group: str) -> None:
        """A lease has ended and the partition has more for its group."""
        ref = self._catalogue.get(key)
        filters = (ref.namespace, ref.task) if ref else ("", "")
        for pool in self._board.add_freed(partition_id, key, consumer_group, filters):
            self._woken(pool)

    def pushed_elsewhere(self, queues: Iterable[str]) -> None:
        """These queues have news by another broker or a SQL session; `*` stands for all."""
        pools = self._board.pools
        for queue in queues:
            for pool in pools if queue == "*" else pools.of_queue(queue):
                # Whoever is in a call may come back from it with nothing.
                if pool.waiting_count or pool.claims or pool.reads:
                    self._board.dry[pool] = None
                    self._woken(pool)

    def listening(self, is_listening: bool) -> None:
        """Notifications arrive from now on, or do not any more; some may have been lost."""
        self._schedule.is_listening = is_listening
        self.pushed_elsewhere(["*"])

    def dismiss(self, queue: str, consumer_group: str) -> None:
        """The start of a group on a queue is forgotten: who named one has to name it again.

        Left to wait, it would get the queue from its oldest message on.
        """
        for pool in self._board.pools.of_queue(queue):
            if pool.consumer_group == consumer_group:
                for intention in list(pool.waiting()):
                    if intention.request.subscription is not None:
                        pool.remove(intention)
                        self._desk.finish(intention, PopEvent.DRY, DISMISSED)

    def _woken(self, pool: Pool) -> None:
        pool.is_woken = True
        self._schedule.reset(pool)
        self._pump_soon()

    # One turn.

    def _pump_soon(self) -> None:
        # Not at once: requests that arrive in the same turn of the loop belong in the same call.
        if not self._is_pumping:
            self._is_pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pumping = False
        if self._is_paused:
            return
        while self._board.dirty and self._calls.has_free_slot:
            doubles = self._board.double_assignments
            plan = self._board.plan(now_ms())
            self._metrics.planned(plan)
            self._metrics.doubled(self._board.double_assignments - doubles)
            for pool, _ in plan.skipped:
                self._settle(pool)
            if not plan.assignments:
                break
            self._calls.start(plan.assignments)
        if self._board.dirty:
            self._settle_without_slot()
        if self._board.dry and not self._is_looking_up:
            self._is_looking_up = True
            self._calls.spawn(self._look_up(self._preflight.take()))
        self._set_timer()

    def _settle(self, pool: Pool) -> None:
        """There is nothing to try now: look up, answer or park those who wait."""
        if not (pool.ready or pool.is_looked_up() or self._preflight.covers(pool)):
            self._board.dry[pool] = None
        if pool.impatient:
            self._answer_impatient(pool)
        if pool.waiting_count and not self._desk.is_closing:
            self._schedule.add(pool, now_ms(), is_busy=bool(pool.ready or pool.claims))

    def _settle_without_slot(self) -> None:
        """Who has nothing to try needs no slot to be looked up or sent away."""
        for pool in [one for one in self._board.dirty if not one.ready]:
            del self._board.dirty[pool]
            if pool.waiting_count:
                self._settle(pool)

    def _answer_impatient(self, pool: Pool) -> None:
        for intention in pool.settled():
            pool.remove(intention)
            reason = intention.last_outcome if pool.is_found else "partition_not_found"
            self._desk.finish(intention, PopEvent.DRY, PopAnswer((), reason))

    async def _look_up(self, pools: list[Pool]) -> None:
        await self._try_look_up(pools)
        self._is_looking_up = False
        self._pump()

    async def _try_look_up(self, pools: list[Pool]) -> None:
        try:
            await self._preflight.run(pools)
        except Exception as caught:
            error = known(caught)
            self._board.doubt()
            is_shared = isinstance(error, StorageRejected) and len(pools) > 1
            for pool in pools:
                if is_shared:
                    # One place is at fault, and only who waits there may fail.
                    await self._try_look_up([pool])
                else:
                    self._look_up_failed(pool, error)

    def _look_up_failed(self, pool: Pool, error: QueenError) -> None:
        # Who may wait does: an outage may pass in time. A fault is no empty queue, and is told.
        is_fault = isinstance(error, StorageFault)
        for intention in [one for one in pool.waiting() if is_fault or not one.may_wait]:
            pool.remove(intention)
            self._desk.finish(intention, PopEvent.ERROR, error)
        if pool.waiting_count and not self._desk.is_closing:
            self._schedule.back_off(pool)
            self._schedule.add(pool, now_ms())

    # The timer behind everything that should have woken a pool.

    def _set_timer(self) -> None:
        for pool in self._board.due:
            self._schedule.add(pool, now_ms(), is_busy=True)
        self._board.due.clear()
        at_ms = self._schedule.next_at_ms()
        if at_ms is None or self._desk.is_closing:
            return
        if self._timer is not None:
            if self._timer_at_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = at_ms
        delay_s = max(0.0, at_ms - now_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._poll)

    def _poll(self) -> None:
        self._timer = None
        for pool in self._schedule.take_due(now_ms()):
            if pool.waiting_count or pool.claims or pool.is_used:
                pool.is_used = False
                self._board.dry[pool] = None
        self._pump()
