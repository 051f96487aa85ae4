"""Makes the database calls of pops: lease and fetch for many on parallel slots, hand leases back.

A failed call leaves no leases behind. If it may have been committed without an answer, its leases
are released by their ids before the failure is reported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.ack.leases import LeaseService
from queenmq.engine.calls.gathering import Gathering
from queenmq.engine.calls.in_flight import EndedCall
from queenmq.engine.calls.pace import CallPace
from queenmq.engine.outcomes import PopOutcome
from queenmq.engine.pop.board.actions import Action, Fetch, HandBack, Lease
from queenmq.engine.pop.board.board import PopBoard
from queenmq.engine.pop.board.decision import Assignment
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.ports import MessageStore
from queenmq.engine.requests import Fetched, LeaseRelease, PopCandidate, PopGrant
from queenmq.errors import QueenError, StorageFault, StorageUnavailable, found_defect
from queenmq.ids import new_lease_id

logger = logging.getLogger(__name__)

#: The work for a message, as a share of the work for its pop.
_ROW_SHARE = 0.1
#: How much the newest call counts in the average.
_NEWEST = 0.1
_NO_LEASE = UUID(int=0)
#: After a failed call, its pops wait this long for the release of possible leases.
_RELEASE_S = 1.0
#: Time between two calls for a pop that fails again and again.
_PACE_S = 0.2


class PopCalls:
    """Runs calls and reports to the board. `carry_out` takes the actions that follow."""

    def __init__(
        self,
        store: MessageStore,
        leases: LeaseService,
        board: PopBoard,
        metrics: PopMetrics,
        *,
        slots: int,
        apart_count: int,
        pace: CallPace | None,
        carry_out: Callable[[Iterable[Action]], None],
    ) -> None:
        self._store = store
        self._leases = leases
        self._board = board
        self._metrics = metrics
        self._apart_count = apart_count
        self._carry_out = carry_out
        self._pace = pace
        self._slots = slots
        #: Numbers of slots without a call; the lowest is taken first.
        self._free_slots = list(range(pace.most if pace else slots))[::-1]
        self._gathering = (
            None if pace is None else Gathering(pace.is_near, row_share=_ROW_SHARE, alternates=True)
        )
        #: Messages that a pop of the last calls got.
        self._rows_each = 1.0
        self._busy_count = 0
        self._flying = 0
        self._reads = asyncio.Semaphore(slots)
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def free_slots(self) -> int:
        """Return how many calls can start now."""
        return max(0, (self._pace.limit if self._pace else self._slots) - self._busy_count)

    def hold_until(self, now: float) -> float | None:
        """Return until when the next call gathers more pops, or None if it leaves now."""
        if self._gathering is None or not self.free_slots:
            return None
        ready = self._board.ready_count
        if not ready:
            return None
        return self._gathering.hold_until(
            now, under_way=self._flying, requests=ready, rows=ready * self._rows_each
        )

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run in the background, until drained."""
        task = asyncio.create_task(work, name="pop-call")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def drain(self) -> None:
        """Wait for everything in flight."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    # Lease and fetch.

    def lease(self, action: Lease) -> None:
        """Make the call on a free slot."""
        self._busy_count += 1
        self._flying += len(action.assignments)
        self.spawn(self._lease(self._free_slots.pop(), action.assignments))

    async def _lease(self, slot: int, assignments: list[Assignment]) -> None:
        candidates = candidates_of(assignments)
        started = now_ms()
        error = None
        grants: list[PopGrant] = []
        try:
            grants = await self._store.pop_messages_batch(candidates, apart_count=self._apart_count)
        except Exception as caught:
            error = public_error(caught)
        now = now_ms()
        self._metrics.note_call(
            len(assignments), slot=slot, took_ms=now - started, is_broken=error is not None
        )
        rows = sum(grant.message_count or 0 for grant in grants)
        self._metrics.note_rows(rows)
        self._rows_each += _NEWEST * (rows / len(assignments) - self._rows_each)
        self._free_slots.append(slot)
        self._note_end(len(assignments), len(candidates), now - started)
        if error is None:
            self._carry_out(self._board.leased(assignments, grants, now))
            return
        await self._release_unanswered(candidates, error)
        if assignments[0].intention.broken_calls:
            # It was alone and has failed before, so do not retry in a hurry.
            await asyncio.sleep(_PACE_S)
        self._carry_out(self._board.lease_failed(assignments, error, now_ms()))

    def _note_end(self, requests: int, candidates: int, took_ms: float) -> None:
        if self._pace is not None:
            outstanding = self._flying + self._board.ready_count
            self._pace.note(EndedCall(took_ms, requests, candidates), outstanding=outstanding)
        self._busy_count -= 1
        self._flying -= requests

    async def _release_unanswered(self, candidates: list[PopCandidate], error: QueenError) -> None:
        """End the leases of a failed call that may have been committed anyway."""
        if not isinstance(error, StorageUnavailable) or isinstance(error, StorageFault):
            # The database answered that it did nothing.
            return
        self._board.lost()
        releases = [
            LeaseRelease(one.partition_id, one.consumer_group, one.lease_id)
            for one in candidates
            if not one.is_auto_ack
        ]
        if releases:
            await asyncio.wait([self.spawn(self._release(releases))], timeout=_RELEASE_S)

    # Separate calls read large batches.

    def fetch(self, action: Fetch) -> None:
        """Read a batch in a separate call."""
        self.spawn(self._fetch(action))

    async def _fetch(self, action: Fetch) -> None:
        _, pool, granted, leased = action
        try:
            async with self._reads:
                fetched = await self._store.pop_sm_fetch(pool.consumer_group, leased)
            read = [_with_messages(one, fetched.get(one.partition_id)) for one in leased]
            await self._pass_holes(pool, [one for one in read if not one.message_count])
        except Exception as caught:
            error = public_error(caught)
            await self._hand_back(pool, [*granted, *leased])
            self._carry_out(self._board.fetch_failed(action, error, now_ms()))
        else:
            self._carry_out(self._board.fetched(action, read, now_ms()))

    async def _pass_holes(self, pool: Pool, holes: list[PopGrant]) -> None:
        """End leases whose messages were deleted before a consumer got them."""
        if holes:
            leases = zip(_releases(pool.consumer_group, holes), holes, strict=True)
            await self._leases.release(
                [one._replace(pass_seq=hole.end_seq) for one, hole in leases]
            )
            self._carry_out(self._board.handed_back(pool, holes))

    # Leases whose callers have left.

    def hand_back(self, action: HandBack) -> None:
        """End leases whose callers have left."""
        self.spawn(self._hand_back(action.pool, action.grants))

    async def _hand_back(self, pool: Pool, grants: Sequence[PopGrant]) -> None:
        if await self._release(_releases(pool.consumer_group, grants)):
            self._carry_out(self._board.handed_back(pool, grants))

    def return_taken(self, consumer_group: str, grants: Sequence[PopGrant]) -> None:
        """Move cursors back over messages that a pop acked but did not deliver."""
        self.spawn(self._return_taken(consumer_group, grants))

    async def _return_taken(self, consumer_group: str, grants: Sequence[PopGrant]) -> None:
        try:
            returned = await self._store.return_taken(consumer_group, grants)
        except QueenError as error:
            logger.error("acks were not undone: %s", error, extra={"event": "return_failed"})
            returned = set()
        for grant in grants:
            if grant.partition_id not in returned:
                # Other pops have passed them. The messages still exist, and a seek brings them
                # back.
                logger.error(
                    "messages were acked by a pop that could not deliver them: seek the group",
                    extra={
                        "event": "messages_passed",
                        "partition_id": str(grant.partition_id),
                        "consumer_group": consumer_group,
                        "after_seq": grant.after_seq,
                        "end_seq": grant.end_seq,
                    },
                )

    async def _release(self, releases: list[LeaseRelease]) -> bool:
        try:
            await self._leases.release(releases)
        except QueenError as error:
            facts = {"event": "release_failed"}
            logger.warning("Could not hand back leases: %s", error, extra=facts)
            return False
        return True


def public_error(error: Exception) -> QueenError:
    """Return the error as callers may see it. An unexpected one is a bug and is logged as such."""
    if isinstance(error, QueenError):
        return error
    logger.error("A pop call failed unexpectedly.", exc_info=error, extra={"event": "call_broke"})
    return found_defect("a pop call", error)


def candidates_of(assignments: Sequence[Assignment]) -> list[PopCandidate]:
    """Return the arguments of one call; requests are numbered from 1."""
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
                    request.lease_seconds,
                )
            )
    return candidates


def _releases(consumer_group: str, granted: Iterable[PopGrant]) -> list[LeaseRelease]:
    return [LeaseRelease(one.partition_id, consumer_group, UUID(one.lease_id)) for one in granted]


def _with_messages(grant: PopGrant, fetched: Fetched | None) -> PopGrant:
    """Return the grant with its messages. A partition that is gone has none."""
    if fetched is None:
        return grant._replace(message_count=0)
    return grant._replace(outcome=PopOutcome.GRANTED, **fetched._asdict())
