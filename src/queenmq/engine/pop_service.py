"""Pop: turns waiting requests and ready partitions into few database calls.

The board plans; this module makes the calls and keeps the timers. Pools that ran dry are looked up
together in one query. A pop that may not wait is answered empty once a look-up that began after its
arrival found nothing; one that may wait stays parked, which costs neither a connection nor a query,
until a push, an ack, a due time, a timer or its deadline. All state is touched by the event loop
only, so there is no lock to forget.
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
from queenmq.engine.pop_board import Claim, PopBoard
from queenmq.engine.pop_machine import PopEvent, PopState
from queenmq.engine.ports import MessageStore
from queenmq.engine.ready_index import Intention, Pool
from queenmq.errors import QueenError, StorageUnavailable
from queenmq.ids import new_lease_id

logger = logging.getLogger(__name__)

_NO_LEASE = UUID(int=0)
#: Partitions asked for in one look-up per pool.
_RESOLVE_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class PopAnswer:
    """Messages per partition, or none and the reason."""

    grants: Sequence[PopGrant]
    reason: str = ""
    is_timeout: bool = False


_LEFT = PopAnswer((), "caller_left")
_STOPPING = PopAnswer((), "shutting_down", is_timeout=True)


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
        self._waiting_max = waiting_max
        self._poll_min_ms = poll_min_ms
        self._poll_max_ms = poll_max_ms
        self._board = PopBoard(candidates_max=candidates_max)
        self._calls = 0
        self._tick = 0
        self._waiting = 0
        self._is_looking_up = False
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
        self._waiting += 1
        if self._is_closing:
            self._finish(intention, PopEvent.DRY, _STOPPING)
            return intention
        pool = self._board.pool_of(request)
        if request.wait_ms is not None:
            intention.timer = loop.call_later(request.wait_ms / 1000, self._expire, pool, intention)
        if pool.is_specific and (ref := self._catalogue.get(request.scope.partition_key)):
            # A remembered partition needs no look-up: the lease sees whatever is there.
            pool.mark_ready(ref.partition_id)
            pool.resolved_tick = self._tick + 1
        pool.add(intention)
        self._board.dirty[pool] = None
        self._pump_soon()
        return intention

    def leave(self, intention: Intention) -> None:
        """The caller has gone; whatever a call still brings for it is handed back."""
        if intention.is_final or intention.state is PopState.ABANDONED:
            return
        if intention.state is PopState.LEASING:
            intention.move(PopEvent.CALLER_LEFT)
        else:
            self._board.pool_of(intention.request).left()
            self._finish(intention, PopEvent.CALLER_LEFT, _LEFT)

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
        """Another broker or a SQL session has pushed to these queues; `*` stands for all."""
        pools = self._board.pools
        for queue in queues:
            for pool in pools if queue == "*" else pools.of_queue(queue):
                if pool.waiting_count:
                    self._board.dry[pool] = None
                    self._woken(pool)

    async def drain(self) -> None:
        """Answer all waiters without messages and wait for the calls in flight."""
        self._is_closing = True
        for pool in self._board.pools:
            for intention in pool.pending():
                pool.left()
                self._finish(intention, PopEvent.DRY, _STOPPING)
            if pool.timer is not None:
                pool.timer.cancel()
                pool.timer = None
        while self._tasks:
            await asyncio.wait(self._tasks)

    # One turn.

    def _woken(self, pool: Pool) -> None:
        pool.poll_ms = self._poll_min_ms
        self._pump_soon()

    def _pump_soon(self) -> None:
        # Not at once: requests that arrive in the same turn of the loop belong in the same call.
        if not self._is_pumping:
            self._is_pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pumping = False
        while self._calls < self._calls_max and self._board.dirty:
            claims: list[Claim] = []
            for step in self._board.plan():
                if isinstance(step, Claim):
                    claims.append(step)
                else:
                    self._settle(step)
            if not claims:
                break
            self._calls += 1
            self._spawn(self._claim(claims))
        if self._board.dry and not self._is_looking_up:
            pools, self._board.dry = list(self._board.dry), {}
            self._is_looking_up = True
            self._spawn(self._look_up(pools))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="pop-call")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _settle(self, pool: Pool) -> None:
        """Nothing is left to try: answer, look up or park those who wait."""
        for intention in pool.pending() if pool.waiting_count else ():
            if not pool.is_settled_for(intention):
                self._board.dry[pool] = None
                return
            if not intention.may_wait:
                pool.left()
                self._finish(intention, PopEvent.DRY, PopAnswer((), intention.last_outcome))
        self._park(pool)

    # The database calls.

    async def _claim(self, claims: list[Claim]) -> None:
        try:
            grants = await self._store.pop_messages_batch(candidates_of(claims))
        except Exception as error:
            self._board.end(claims)
            for claim in claims:
                self._break(claim, _known(error))
        else:
            self._board.end(claims)
            answers: dict[int, list[PopGrant]] = {}
            for grant in grants:
                answers.setdefault(grant.request, []).append(grant)
            for number, claim in enumerate(claims, 1):
                self._conclude(claim, answers.get(number, []))
        self._calls -= 1
        self._pump()

    def _conclude(self, claim: Claim, answers: list[PopGrant]) -> None:
        intention, pool, _ = claim
        if not self._board.keep_ready(claim, answers):
            self._catalogue.forget([pool.scope.partition_key])
        granted = [one for one in answers if one.outcome == "granted"]
        if intention.state is PopState.ABANDONED:
            event = PopEvent.GRANTED if granted else PopEvent.REFUSED
            self._finish(intention, event, _LEFT)
            self._hand_back(intention, granted)
        elif granted:
            self._finish(intention, PopEvent.GRANTED, PopAnswer(granted))
            if intention.request.is_auto_ack:
                self._offer_rest(pool.consumer_group, granted)
        else:
            self._return(pool, intention, answers[-1].outcome if answers else "busy")

    def _offer_rest(self, consumer_group: str, granted: list[PopGrant]) -> None:
        """No lease was taken, so what is left in the partition can be had at once."""
        for one in granted:
            if one.has_more:
                self.freed(one.partition_id, _key_of(one), consumer_group)

    def _return(self, pool: Pool, intention: Intention, outcome: str) -> None:
        intention.move(PopEvent.REFUSED)
        intention.last_outcome = outcome
        if intention.is_expired or self._is_closing:
            self._finish(intention, PopEvent.DRY, PopAnswer((), outcome, is_timeout=True))
        else:
            pool.add(intention)

    def _break(self, claim: Claim, error: QueenError) -> None:
        """The call failed. Who may wait goes on waiting: the database may come back in time."""
        intention, pool, _ = claim
        intention.move(PopEvent.ERROR)
        if intention.is_final:
            self._finish(intention, None, _LEFT)
        elif intention.may_wait and not self._is_closing:
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
        except Exception as error:
            for pool in pools:
                self._look_up_failed(pool, _known(error))
        else:
            for pool in pools:
                pool.resolved_tick = tick
                if not pool.ready:
                    pool.poll_ms = min(max(2 * pool.poll_ms, self._poll_min_ms), self._poll_max_ms)
                self._board.dirty[pool] = None
        self._is_looking_up = False
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
        results = await self._store.pop_sm_resolve(
            [pool.key for pool in pools], limit=_RESOLVE_LIMIT
        )
        for pool, result in zip(pools, results, strict=True):
            pool.due_ms = result.next_due_ms
            for partition_id in result.partition_ids:
                pool.mark_ready(partition_id)

    def _look_up_failed(self, pool: Pool, error: QueenError) -> None:
        for intention in pool.pending():
            if not intention.may_wait:
                pool.left()
                self._finish(intention, PopEvent.ERROR, error)
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
        if not intention.request.is_auto_ack and granted:
            self._spawn(self._release(intention.request.consumer_group, granted))

    async def _release(self, consumer_group: str, granted: list[PopGrant]) -> None:
        try:
            await self._store.pop_sm_release(
                [
                    LeaseRelease(one.partition_id, consumer_group, UUID(one.lease_id))
                    for one in granted
                ]
            )
        except QueenError as error:
            facts = {"event": "release_failed"}
            logger.warning("leases were not handed back: %s", error, extra=facts)
            return
        for one in granted:
            self.freed(one.partition_id, _key_of(one), consumer_group)

    def _expire(self, pool: Pool, intention: Intention) -> None:
        intention.is_expired = True
        if intention.state is PopState.PENDING:
            pool.left()
            answer = PopAnswer((), intention.last_outcome, is_timeout=True)
            self._finish(intention, PopEvent.DRY, answer)

    # The timer behind everything that should have woken a pool.

    def _park(self, pool: Pool) -> None:
        if not pool.waiting_count or pool.timer is not None or self._is_closing:
            return
        delay_ms = max(pool.poll_ms, self._poll_min_ms)
        if pool.due_ms is not None:
            delay_ms = min(delay_ms, max(pool.due_ms, 1))
        pool.timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._poll, pool)

    def _poll(self, pool: Pool) -> None:
        pool.timer = None
        if pool.waiting_count:
            self._board.dry[pool] = None
            self._pump_soon()


def _known(error: Exception) -> QueenError:
    """The error as callers may see it. One we did not foresee is a defect, and said loudly."""
    if isinstance(error, QueenError):
        return error
    logger.error("a pop call broke", exc_info=error, extra={"event": "call_broke"})
    return StorageUnavailable("internal error; the server log has the details")


def candidates_of(claims: Sequence[Claim]) -> list[PopCandidate]:
    """The arguments of one call; requests are numbered from 1."""
    candidates = []
    for number, (intention, _, partition_ids) in enumerate(claims, 1):
        request = intention.request
        lease_id = _NO_LEASE if request.is_auto_ack else new_lease_id(partition_ids[0])
        for partition_id in partition_ids:
            candidates.append(
                PopCandidate(
                    number,
                    partition_id,
                    request.consumer_group,
                    request.batch,
                    request.is_auto_ack,
                    lease_id,
                )
            )
    return candidates


def _key_of(grant: PopGrant) -> PartitionKey:
    return PartitionKey(grant.queue_name or "", grant.partition_name or "")
