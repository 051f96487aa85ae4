"""Pop: turns waiting requests and ready partitions into few database calls.

One turn of `_pump`: every pool with news gives its longest waiters the partitions it believes in;
all those pairs become one lease-and-fetch call. Pools that ran dry are looked up together in one
query. A pop that may not wait is answered empty once a look-up that began after its arrival found
nothing; one that may wait stays parked, which costs neither a connection nor a query, until a push,
an ack, a due time, a timer or its deadline. All state is touched by the event loop only, so there
is no lock to forget.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from queenmq.engine.catalogue import Catalogue
from queenmq.engine.operation import (
    LeaseRelease,
    PartitionKey,
    PartitionRef,
    PopCandidate,
    PopGrant,
    PopRequest,
)
from queenmq.engine.pop_machine import PopEvent, PopState
from queenmq.engine.ports import MessageStore
from queenmq.engine.ready_index import Intention, Pool, PoolIndex
from queenmq.errors import QueenError, StorageUnavailable
from queenmq.ids import random_uuid

logger = logging.getLogger(__name__)

#: Partitions asked for in one look-up per pool.
_RESOLVE_LIMIT = 1_000
#: A pop whose candidates are locked by others this often is treated as if they had nothing.
_TRIES_MAX = 5
#: Pools kept for callers that may come back; more are dropped when nobody waits in them.
_POOLS_MAX = 5_000


@dataclass(frozen=True, slots=True)
class PopAnswer:
    """Messages per partition, or none and the reason."""

    grants: Sequence[PopGrant]
    reason: str = ""
    is_timeout: bool = False


class PopService:
    """The pop path of a broker."""

    def __init__(
        self,
        store: MessageStore,
        catalogue: Catalogue,
        *,
        calls_max: int,
        candidates_max: int,
        waiting_max: int,
        poll_min_ms: int,
        poll_max_ms: int,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._calls_max = calls_max
        self._candidates_max = candidates_max
        self._waiting_max = waiting_max
        self._poll_min_ms = poll_min_ms
        self._poll_max_ms = poll_max_ms
        self._pools = PoolIndex()
        #: Pools with news: a waiter or a partition was added.
        self._dirty: dict[Pool, None] = {}
        #: Pools whose partitions are all in calls; they have news when a call ends.
        self._held: dict[Pool, None] = {}
        #: Pools that need a look-up.
        self._dry: dict[Pool, None] = {}
        #: (partition, group) pairs in a call; none is in two calls.
        self._claiming: set[tuple[UUID, str]] = set()
        self._calls = 0
        self._tick = 0
        self._waiting = 0
        self._is_resolving = False
        self._is_pumping = False
        self._is_closing = False
        self._tasks: set[asyncio.Task[None]] = set()

    # What the routes call.

    def submit(self, request: PopRequest) -> Intention:
        """Take a pop in. Its `answer` is a future of PopAnswer."""
        if self._waiting >= self._waiting_max:
            raise StorageUnavailable(f"{self._waiting_max} pops already wait; try again later")
        loop = asyncio.get_running_loop()
        intention = Intention(request, tick=self._tick, answer=loop.create_future())
        if len(self._pools) >= _POOLS_MAX:
            self._pools.remove_idle()
        pool = self._pools.get_or_add(request.scope, request.consumer_group)
        self._waiting += 1
        if self._is_closing:
            self._finish(intention, PopEvent.DRY, PopAnswer((), "shutting_down", is_timeout=True))
            return intention
        if request.wait_ms is not None:
            intention.timer = loop.call_later(request.wait_ms / 1000, self._expire, pool, intention)
        if pool.is_specific:
            self._aim(pool)
        pool.add(intention)
        self._touch(pool)
        return intention

    def leave(self, intention: Intention) -> None:
        """The caller has gone; whatever a call still brings for it is handed back."""
        if intention.is_final or intention.state is PopState.ABANDONED:
            return
        if intention.state is PopState.LEASING:
            intention.move(PopEvent.CALLER_LEFT)
        else:
            pool = self._pools.get_or_add(intention.request.scope, intention.request.consumer_group)
            pool.left()
            self._finish(intention, PopEvent.CALLER_LEFT, PopAnswer((), "caller_left"))

    # What tells of new work.

    def pushed(self, refs: Iterable[PartitionRef]) -> None:
        """These partitions have new messages."""
        for ref in refs:
            for pool in self._pools.touched_by(ref.key, namespace=ref.namespace, task=ref.task):
                self._add_ready(pool, ref.partition_id)

    def freed(self, partition_id: UUID, key: PartitionKey, consumer_group: str) -> None:
        """A lease has ended and the partition has more for its group."""
        ref = self._catalogue.get(key)
        namespace, task = (ref.namespace, ref.task) if ref else ("", "")
        for pool in self._pools.touched_by(key, namespace=namespace, task=task):
            if pool.consumer_group == consumer_group:
                self._add_ready(pool, partition_id)

    def pushed_elsewhere(self, queues: Iterable[str]) -> None:
        """Another broker or a SQL session has pushed to these queues; `*` stands for all."""
        for queue in queues:
            for pool in self._pools if queue == "*" else self._pools.of_queue(queue):
                if pool.waiting_count:
                    pool.poll_ms = self._poll_min_ms
                    self._need_look_up(pool)

    async def drain(self) -> None:
        """Answer all waiters without messages and wait for the calls in flight."""
        self._is_closing = True
        for pool in self._pools:
            for intention in pool.pending():
                pool.left()
                answer = PopAnswer((), "shutting_down", is_timeout=True)
                self._finish(intention, PopEvent.DRY, answer)
            self._stop_timer(pool)
        while self._tasks:
            await asyncio.wait(self._tasks)

    # One turn.

    def _touch(self, pool: Pool) -> None:
        self._dirty[pool] = None
        self._pump_soon()

    def _need_look_up(self, pool: Pool) -> None:
        self._dry[pool] = None
        self._pump_soon()

    def _add_ready(self, pool: Pool, partition_id: UUID) -> None:
        if pool.scope.queue is None:
            # Several queues, highest priority first: only a look-up knows where this one stands.
            pool.ready.clear()
            pool.resolved_tick = -1
        else:
            pool.mark_ready(partition_id)
        if pool.waiting_count:
            pool.poll_ms = self._poll_min_ms
            self._touch(pool)

    def _aim(self, pool: Pool) -> None:
        """A pool for one partition needs no look-up while that partition is remembered."""
        if ref := self._catalogue.get(pool.scope.partition_key):
            pool.mark_ready(ref.partition_id)
            pool.resolved_tick = self._tick + 1

    def _pump_soon(self) -> None:
        if not self._is_pumping:
            self._is_pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pumping = False
        while self._calls < self._calls_max and (claims := self._plan()):
            self._calls += 1
            self._spawn(self._claim(claims))
        if self._dry and not self._is_resolving:
            pools, self._dry = list(self._dry), {}
            self._is_resolving = True
            self._spawn(self._look_up(pools))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="pop-call")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _plan(self) -> list[tuple[Intention, Pool, list[UUID]]]:
        """Give waiters partitions, up to one call full. Pools that ask by name come first."""
        claims: list[tuple[Intention, Pool, list[UUID]]] = []
        room = self._candidates_max
        for pool in sorted(self._dirty, key=lambda pool: not pool.is_specific):
            while room > 0 and (intention := pool.first()) is not None:
                wanted = min(intention.request.partitions, room)
                partition_ids = pool.take_ready(wanted, self._claiming)
                if not partition_ids:
                    break
                pool.pop_first()
                room -= len(partition_ids)
                self._start(intention, pool, partition_ids)
                claims.append((intention, pool, partition_ids))
            del self._dirty[pool]
            if room <= 0:
                # To the end of the row, so that a busy pool does not shut the others out.
                self._dirty[pool] = None
                break
            self._settle(pool)
        return claims

    def _start(self, intention: Intention, pool: Pool, partition_ids: list[UUID]) -> None:
        intention.move(PopEvent.ASSIGNED)
        pool.auto_claims += intention.request.is_auto_ack
        for partition_id in partition_ids:
            self._claiming.add((partition_id, pool.consumer_group))

    def _settle(self, pool: Pool) -> None:
        """After planning: answer, park or look up for those that got nothing."""
        if pool.ready or pool.auto_claims:
            if pool.waiting_count:
                self._held[pool] = None
            return
        needs_look_up = False
        for intention in pool.pending() if pool.waiting_count else ():
            if not pool.is_settled_for(intention):
                needs_look_up = True
                break
            if not intention.may_wait:
                pool.left()
                self._finish(intention, PopEvent.DRY, PopAnswer((), intention.last_outcome))
        if needs_look_up:
            self._need_look_up(pool)
        elif pool.waiting_count and pool.timer is None:
            self._start_timer(pool)

    # The database calls.

    async def _claim(self, claims: list[tuple[Intention, Pool, list[UUID]]]) -> None:
        candidates = [
            PopCandidate(
                number, partition_id, one.request.consumer_group, one.request.batch,
                one.request.is_auto_ack, seed,
            )
            for number, (one, _, partition_ids) in enumerate(claims, 1)
            for seed in (random_uuid(),)
            for partition_id in partition_ids
        ]  # fmt: skip
        error: QueenError | None = None
        answers: dict[int, list[PopGrant]] = {}
        try:
            for grant in await self._store.pop_messages_batch(candidates):
                answers.setdefault(grant.request, []).append(grant)
        except QueenError as caught:
            error = caught
        self._calls -= 1
        for number, (intention, pool, partition_ids) in enumerate(claims, 1):
            pool.auto_claims -= intention.request.is_auto_ack
            for partition_id in partition_ids:
                self._claiming.discard((partition_id, pool.consumer_group))
            if error is not None:
                self._break(pool, intention, error)
            else:
                self._conclude(pool, intention, partition_ids, answers.get(number, []))
            self._dirty[pool] = None
        self._dirty.update(self._held)
        self._held.clear()
        self._pump()

    def _conclude(
        self, pool: Pool, intention: Intention, tried: list[UUID], answers: list[PopGrant]
    ) -> None:
        granted = [one for one in answers if one.outcome == "granted"]
        self._keep_ready(pool, intention, tried, answers)
        if intention.state is PopState.ABANDONED:
            event = PopEvent.GRANTED if granted else PopEvent.REFUSED
            self._finish(intention, event, PopAnswer((), "caller_left"))
            self._hand_back(intention, granted)
        elif granted:
            self._finish(intention, PopEvent.GRANTED, PopAnswer(granted))
        else:
            self._return(pool, intention, answers[-1].outcome if answers else "busy")

    def _keep_ready(
        self, pool: Pool, intention: Intention, tried: list[UUID], answers: list[PopGrant]
    ) -> None:
        """Which of the tried partitions are worth another try."""
        answered = {one.partition_id: one for one in answers}
        for partition_id in tried:
            one = answered.get(partition_id)
            if one is None:
                self._try_again(pool, intention, partition_id)
            elif one.outcome in ("again", "spare"):
                pool.mark_ready(partition_id)
            elif one.outcome == "granted":
                if intention.request.is_auto_ack and one.has_more:
                    key = PartitionKey(one.queue_name or "", one.partition_name or "")
                    self.freed(partition_id, key, pool.consumer_group)
            elif one.due_ms is not None:
                pool.due_ms = min(one.due_ms, pool.due_ms or one.due_ms)

    def _try_again(self, pool: Pool, intention: Intention, partition_id: UUID) -> None:
        """The partition's row was locked by another session just then, or the partition is gone."""
        intention.tries += 1
        if intention.tries >= _TRIES_MAX:
            intention.tries = 0
        elif pool.is_specific:
            self._catalogue.forget([pool.scope.partition_key])
            pool.resolved_tick = -1
        else:
            pool.mark_ready(partition_id)

    def _return(self, pool: Pool, intention: Intention, outcome: str) -> None:
        intention.move(PopEvent.REFUSED)
        intention.last_outcome = outcome
        if intention.is_expired:
            answer = PopAnswer((), outcome, is_timeout=True)
            self._finish(intention, PopEvent.DRY, answer)
        else:
            pool.add(intention)

    def _break(self, pool: Pool, intention: Intention, error: QueenError) -> None:
        """The call failed. Who may wait goes on waiting: the database may come back in time."""
        intention.move(PopEvent.ERROR)
        if intention.is_final:
            self._finish(intention, None, PopAnswer((), "caller_left"))
        elif intention.may_wait:
            pool.add(intention)
            self._park(pool)
        else:
            self._finish(intention, PopEvent.ERROR, error)

    async def _look_up(self, pools: list[Pool]) -> None:
        self._tick += 1
        tick = self._tick
        try:
            await self._look_up_partitions([pool for pool in pools if pool.is_specific])
            await self._look_up_scopes([pool for pool in pools if not pool.is_specific])
        except QueenError as error:
            for pool in pools:
                self._look_up_failed(pool, error)
        else:
            for pool in pools:
                pool.resolved_tick = tick
                if not pool.ready:
                    pool.poll_ms = min(max(2 * pool.poll_ms, self._poll_min_ms), self._poll_max_ms)
                self._dirty[pool] = None
        self._is_resolving = False
        self._pump()

    async def _look_up_partitions(self, pools: list[Pool]) -> None:
        found = await self._catalogue.find({pool.scope.partition_key for pool in pools})
        for pool in pools:
            pool.due_ms = None
            if ref := found.get(pool.scope.partition_key):
                pool.mark_ready(ref.partition_id)
            else:
                for intention in pool.pending():
                    intention.last_outcome = "partition_not_found"

    async def _look_up_scopes(self, pools: list[Pool]) -> None:
        if not pools:
            return
        pairs = [pool.key for pool in pools]
        results = await self._store.pop_sm_resolve(pairs, limit=_RESOLVE_LIMIT)
        for pool, result in zip(pools, results, strict=True):
            pool.due_ms = result.next_due_ms
            for partition_id in result.partition_ids:
                pool.mark_ready(partition_id)

    def _look_up_failed(self, pool: Pool, error: QueenError) -> None:
        for intention in pool.pending():
            if not intention.may_wait:
                pool.left()
                self._finish(intention, PopEvent.ERROR, error)
        if pool.waiting_count:
            self._park(pool)

    # Endings.

    def _finish(
        self, intention: Intention, event: PopEvent | None, result: PopAnswer | QueenError
    ) -> None:
        if event is not None:
            intention.move(event)
        self._waiting -= 1
        if intention.timer is not None:
            intention.timer.cancel()
        if intention.answer.done():
            return
        if isinstance(result, QueenError):
            intention.answer.set_exception(result)
        else:
            intention.answer.set_result(result)

    def _hand_back(self, intention: Intention, granted: list[PopGrant]) -> None:
        releases = [
            LeaseRelease(one.partition_id, intention.request.consumer_group, UUID(one.lease_id))
            for one in granted
            if one.lease_id
        ]
        if releases:
            self._spawn(self._release(releases, granted))

    async def _release(self, releases: list[LeaseRelease], granted: list[PopGrant]) -> None:
        try:
            await self._store.pop_sm_release(releases)
        except QueenError as error:
            logger.warning(
                "leases were not handed back: %s", error, extra={"event": "release_failed"}
            )
            return
        for release, one in zip(releases, granted, strict=True):
            key = PartitionKey(one.queue_name or "", one.partition_name or "")
            self.freed(release.partition_id, key, release.consumer_group)

    def _expire(self, pool: Pool, intention: Intention) -> None:
        intention.is_expired = True
        if intention.state is PopState.PENDING:
            pool.left()
            answer = PopAnswer((), intention.last_outcome, is_timeout=True)
            self._finish(intention, PopEvent.DRY, answer)

    # Timers behind everything that should have woken a pool.

    def _park(self, pool: Pool) -> None:
        if pool.timer is None:
            self._start_timer(pool)

    def _start_timer(self, pool: Pool) -> None:
        delay_ms = max(pool.poll_ms, self._poll_min_ms)
        if pool.due_ms is not None:
            delay_ms = min(delay_ms, max(pool.due_ms, 1))
        pool.timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._poll, pool)

    def _stop_timer(self, pool: Pool) -> None:
        if pool.timer is not None:
            pool.timer.cancel()
            pool.timer = None

    def _poll(self, pool: Pool) -> None:
        pool.timer = None
        if pool.waiting_count:
            self._need_look_up(pool)
