"""The database calls of pops: lease and fetch for many, on parallel slots; hand back what is not
wanted.

A call that fails has leased nothing that stays: what may have been committed without an answer is
released by its lease id. Each of its pops then tries once more in a call of its own, so that
whatever broke the call fails alone. A fault of the database is the pops' fault in no way: they are
told of it at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.ack.leases import LeaseService
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.pop.board import PopBoard
from queenmq.engine.pop.decision import Assignment
from queenmq.engine.pop.desk import LEFT, PopDesk, known
from queenmq.engine.pop.intention import Intention, PopAnswer
from queenmq.engine.pop.machine import PopEvent, PopState
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.pop.ready_index import Pool
from queenmq.engine.ports import MessageStore
from queenmq.engine.requests import Fetched, LeaseRelease, PartitionKey, PopCandidate, PopGrant
from queenmq.errors import QueenError, StorageFault, StorageUnavailable
from queenmq.ids import new_lease_id

logger = logging.getLogger(__name__)

_NO_LEASE = UUID(int=0)
#: After a failed call its pops wait this long for the release of what it may have leased.
_RELEASE_S = 1.0
#: Time between two calls for a pop that fails again and again.
_PACE_S = 0.2
#: Failed calls in a row after which a pop gets the error.
_BROKEN_MAX = 2

Freed = Callable[[UUID, PartitionKey, str], None]


class PopCalls:
    """Runs planned calls. At most one call per slot, and no partition in two of them."""

    def __init__(
        self,
        store: MessageStore,
        leases: LeaseService,
        catalogue: Catalogue,
        board: PopBoard,
        desk: PopDesk,
        metrics: PopMetrics,
        *,
        slots: int,
        apart_count: int,
        on_freed: Freed,
        on_returned: Callable[[str], None],
        on_end: Callable[[], None],
    ) -> None:
        self._store = store
        self._leases = leases
        self._catalogue = catalogue
        self._board = board
        self._desk = desk
        self._metrics = metrics
        self._apart_count = apart_count
        self._on_freed = on_freed
        self._on_returned = on_returned
        self._on_end = on_end
        self._free_slots = list(range(slots))
        self._reads = asyncio.Semaphore(slots)
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def has_free_slot(self) -> bool:
        return bool(self._free_slots)

    def start(self, assignments: list[Assignment]) -> None:
        """Make the call for these on a free slot."""
        self.spawn(self._call(self._free_slots.pop(), assignments))

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run on the side, until drained."""
        task = asyncio.create_task(work, name="pop-call")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def drain(self) -> None:
        """Wait for everything in flight."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    # Lease and fetch.

    async def _call(self, slot: int, assignments: list[Assignment]) -> None:
        candidates = candidates_of(assignments)
        started = now_ms()
        error = None
        grants: list[PopGrant] = []
        try:
            grants = await self._store.pop_messages_batch(candidates, apart_count=self._apart_count)
        except Exception as caught:
            error = known(caught)
        now = now_ms()
        self._metrics.called(
            len(assignments), slot=slot, took_ms=now - started, is_broken=error is not None
        )
        self._free_slots.append(slot)
        if error is not None:
            await self._release_unanswered(candidates, error)
            if assignments[0].intention.broken_calls:
                # It was alone and has failed before: no hurry to fail once more.
                await asyncio.sleep(_PACE_S)
        self._board.end(assignments)
        if error is not None:
            for assignment in assignments:
                self._break(assignment.intention, assignment.pool, error)
        else:
            self._conclude_all(assignments, grants, now)
        self._on_end()

    def _conclude_all(
        self, assignments: list[Assignment], grants: Iterable[PopGrant], now: float
    ) -> None:
        answers: dict[int, list[PopGrant]] = {}
        for grant in grants:
            answers.setdefault(grant.request, []).append(grant)
        for number, assignment in enumerate(assignments, 1):
            self._conclude(assignment, answers.get(number, []), now)

    def _conclude(self, assignment: Assignment, answers: list[PopGrant], now: float) -> None:
        intention, pool, *_ = assignment
        if not self._board.learn(assignment, answers, now):
            self._catalogue.forget([pool.scope.partition_key])
        intention.broken_calls = 0
        granted = [one for one in answers if one.outcome == "granted"]
        leased = [one for one in answers if one.outcome == "leased"]
        if intention.state is PopState.ABANDONED:
            event = PopEvent.GRANTED if granted or leased else PopEvent.REFUSED
            self._abandon(intention, pool, event, [*granted, *leased])
        elif leased:
            intention.move(PopEvent.LEASED, now)
            pool.reads += 1
            self.spawn(self._fetch(intention, pool, granted, leased))
        elif granted:
            self._desk.finish(intention, PopEvent.GRANTED, PopAnswer(granted))
            if intention.request.is_auto_ack:
                self._offer_rest(pool.consumer_group, granted)
        else:
            self._refuse(intention, pool, answers[-1].outcome if answers else "busy")

    def _offer_rest(self, consumer_group: str, granted: list[PopGrant]) -> None:
        """No lease was taken, so what is left in the partition can be had at once."""
        for one in granted:
            if one.has_more:
                self._on_freed(one.partition_id, _key_of(one), consumer_group)

    def _refuse(self, intention: Intention, pool: Pool, outcome: str) -> None:
        """Back into the row, unless the time is up."""
        intention.move(PopEvent.REFUSED, now_ms())
        intention.last_outcome = outcome
        if intention.is_expired or self._desk.is_closing:
            answer = PopAnswer((), outcome, is_timeout=True)
            self._desk.finish(intention, PopEvent.DRY, answer)
        else:
            pool.add(intention)
            self._board.dirty[pool] = None

    # Large batches are read apart.

    async def _fetch(
        self, intention: Intention, pool: Pool, granted: list[PopGrant], leased: list[PopGrant]
    ) -> None:
        try:
            async with self._reads:
                fetched = await self._store.pop_sm_fetch(pool.consumer_group, leased)
            read = [_with_messages(one, fetched.get(one.partition_id)) for one in leased]
            await self._pass_holes(pool, [one for one in read if not one.message_count])
        except Exception as caught:
            error = known(caught)
            pool.reads -= 1
            await self._return_leases(pool, [*granted, *leased])
            self._break(intention, pool, error)
        else:
            pool.reads -= 1
            granted += [one for one in read if one.message_count]
            self._conclude_read(intention, pool, granted)
        self._on_end()

    def _conclude_read(self, intention: Intention, pool: Pool, granted: list[PopGrant]) -> None:
        if intention.state is PopState.ABANDONED:
            self._abandon(intention, pool, PopEvent.GRANTED, granted)
        elif granted:
            self._desk.finish(intention, PopEvent.GRANTED, PopAnswer(granted))
        else:
            self._refuse(intention, pool, "again")

    async def _pass_holes(self, pool: Pool, holes: list[PopGrant]) -> None:
        """The messages of these leases were deleted before anybody got them."""
        if holes:
            leases = zip(_releases(pool.consumer_group, holes), holes, strict=True)
            await self._leases.release(
                [one._replace(pass_seq=hole.end_seq) for one, hole in leases]
            )
            self._free(pool, holes)

    # What goes wrong, and what nobody wants any more.

    async def _release_unanswered(self, candidates: list[PopCandidate], error: QueenError) -> None:
        """The call may have been committed all the same; end its leases before anything else."""
        if not isinstance(error, StorageUnavailable) or isinstance(error, StorageFault):
            # The database has said that it did nothing.
            return
        self._board.doubt()
        releases = [
            LeaseRelease(one.partition_id, one.consumer_group, one.lease_id)
            for one in candidates
            if not one.is_auto_ack
        ]
        if releases:
            await asyncio.wait([self.spawn(self._release(releases))], timeout=_RELEASE_S)

    def _break(self, intention: Intention, pool: Pool, error: QueenError) -> None:
        """The call failed. Once more alone; then who may wait goes on waiting: the database may
        come back in time.
        """
        # What was to be tried is in no list any more; nobody may be sent away before a look-up.
        pool.doubt()
        pool.unsettle(self._board.tick)
        self._board.dirty[pool] = None
        intention.broken_calls += 1
        is_hopeless = isinstance(error, StorageFault) or (
            intention.broken_calls >= _BROKEN_MAX
            and (not intention.may_wait or not isinstance(error, StorageUnavailable))
        )
        if intention.state is PopState.ABANDONED:
            self._desk.finish(intention, PopEvent.BROKEN, LEFT)
        elif is_hopeless or intention.is_expired or self._desk.is_closing:
            self._desk.finish(intention, PopEvent.ERROR, error)
        else:
            intention.move(PopEvent.BROKEN, now_ms())
            pool.add(intention)

    def _abandon(
        self, intention: Intention, pool: Pool, event: PopEvent, granted: list[PopGrant]
    ) -> None:
        """The caller has left during the call."""
        self._desk.finish(intention, event, LEFT)
        if granted and not intention.request.is_auto_ack:
            self.hand_back(pool, granted)

    def hand_back(self, pool: Pool, granted: Sequence[PopGrant]) -> None:
        """Nobody is there any more for what was leased."""
        self.spawn(self._return_leases(pool, granted))

    async def _return_leases(self, pool: Pool, granted: Sequence[PopGrant]) -> None:
        if await self._release(_releases(pool.consumer_group, granted)):
            self._free(pool, granted)
            self._on_end()

    def _free(self, pool: Pool, granted: Sequence[PopGrant]) -> None:
        """These can be had again: by the pool they were leased for, and whoever else looks."""
        for one in granted:
            self._board.add_ready(pool, one.partition_id)
            if one.queue_name:
                self._on_freed(one.partition_id, _key_of(one), pool.consumer_group)
        # Other brokers know of the leases and would wait for their end.
        for queue in {one.queue_name or pool.scope.queue or "*" for one in granted}:
            self._on_returned(queue)

    async def _release(self, releases: list[LeaseRelease]) -> bool:
        try:
            await self._leases.release(releases)
        except QueenError as error:
            facts = {"event": "release_failed"}
            logger.warning("leases were not handed back: %s", error, extra=facts)
            return False
        return True


def candidates_of(assignments: Sequence[Assignment]) -> list[PopCandidate]:
    """The arguments of one call; requests are numbered from 1."""
    candidates = []
    for number, (intention, _, partition_ids, _) in enumerate(assignments, 1):
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


def _releases(consumer_group: str, granted: Iterable[PopGrant]) -> list[LeaseRelease]:
    return [LeaseRelease(one.partition_id, consumer_group, UUID(one.lease_id)) for one in granted]


def _with_messages(grant: PopGrant, fetched: Fetched | None) -> PopGrant:
    """The grant as if it had been read at once; a partition that is gone has no messages."""
    if fetched is None:
        return grant._replace(message_count=0)
    return grant._replace(outcome="granted", **fetched._asdict())


def _key_of(grant: PopGrant) -> PartitionKey:
    return PartitionKey(grant.queue_name or "", grant.partition_name or "")
