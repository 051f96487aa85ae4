"""Handles the results of lease calls and finishes their pops. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from queenmq.engine.outcomes import PopOutcome
from queenmq.engine.pop.board.actions import Action, Announce, Fetch, Forget, HandBack
from queenmq.engine.pop.board.decision import Assignment
from queenmq.engine.pop.board.learning import learn_from_call
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.board.state import PAUSED, BoardState
from queenmq.engine.pop.intention import Intention, PopAnswer
from queenmq.engine.pop.machine import PopEvent, PopState
from queenmq.engine.requests import PartitionKey, PopGrant
from queenmq.errors import QueenError, StorageFault, StorageUnavailable

#: Failed calls in a row after which a pop gets the error.
_BROKEN_MAX = 2
_GRANTED, _LEASED = PopOutcome.GRANTED, PopOutcome.LEASED
_ABANDONED = PopState.ABANDONED


class LeaseResults:
    """Ends calls: learns from them, answers their pops or puts them back."""

    def __init__(self, state: BoardState) -> None:
        self._state = state

    def leased(
        self, assignments: list[Assignment], grants: Iterable[PopGrant], now_ms: float
    ) -> list[Action]:
        """Handle the result of a lease call."""
        self.end(assignments)
        answers: dict[int, list[PopGrant]] = {}
        for grant in grants:
            answers.setdefault(grant.request, []).append(grant)
        actions: list[Action] = []
        for number, assignment in enumerate(assignments, 1):
            actions += self._conclude(assignment, answers.get(number, []), now_ms)
        return actions

    def lease_failed(
        self, assignments: list[Assignment], error: QueenError, now_ms: float
    ) -> list[Action]:
        """Handle a failed lease call. None of its leases remain."""
        self.end(assignments)
        actions: list[Action] = []
        for assignment in assignments:
            actions += self._break(assignment.intention, assignment.pool, error, now_ms)
        return actions

    def end(self, assignments: Iterable[Assignment]) -> None:
        """Free the partitions and wake every pool that they concern."""
        for intention, pool, partition_ids, _ in assignments:
            pool.claims.discard(intention.number)
            self._state.claiming.difference_update(partition_ids)
            self._state.dirty[pool] = None
        self._state.dirty.update(self._state.on_calls)
        self._state.on_calls.clear()

    def _conclude(
        self, assignment: Assignment, answers: list[PopGrant], now_ms: float
    ) -> Iterator[Action]:
        intention, pool, *_ = assignment
        yield from self.learn(assignment, answers, now_ms)
        intention.broken_calls = 0
        granted = [one for one in answers if one.outcome is _GRANTED]
        leased = [one for one in answers if one.outcome is _LEASED]
        if intention.state is _ABANDONED:
            event = PopEvent.GRANTED if granted or leased else PopEvent.REFUSED
            yield from self._abandon(intention, pool, event, [*granted, *leased], now_ms)
        elif leased:
            intention.move(PopEvent.LEASED, now_ms)
            pool.reads += 1
            yield Fetch(intention, pool, granted, leased)
        elif granted:
            yield from self._state.finish(intention, PopEvent.GRANTED, PopAnswer(granted), now_ms)
            if intention.request.is_auto_ack:
                # No lease was taken, so the rest of the partition is available at once.
                for one in granted:
                    if one.has_more:
                        self._state.free(one.partition_id, _key_of(one), pool.consumer_group)
        else:
            outcome = answers[-1].outcome if answers else PopOutcome.BUSY
            yield from self._refuse(intention, pool, outcome, now_ms)

    def learn(
        self, assignment: Assignment, answers: list[PopGrant], now_ms: float
    ) -> Iterator[Action]:
        pool = assignment.pool
        lesson = learn_from_call(assignment, answers, tick=self._state.tick, now_ms=now_ms)
        if lesson.due_at_ms is not None:
            self._state.note_due(pool, lesson.due_at_ms)
        if lesson.wants_look_up:
            self._state.want_look_up(pool)
        if not lesson.is_known:
            yield Forget(pool.scope.partition_key)

    def _refuse(
        self, intention: Intention, pool: Pool, outcome: str, now_ms: float
    ) -> list[Action]:
        """Put the pop back among the waiting ones, unless its time is up."""
        intention.move(PopEvent.REFUSED, now_ms)
        intention.last_outcome = outcome
        if intention.is_expired or self._state.is_closing:
            answer = PopAnswer((), outcome, is_timeout=True)
            return self._state.finish(intention, PopEvent.DRY, answer, now_ms)
        if self._state.holds_back(pool.consumer_group) and not intention.may_wait:
            return self._state.finish(intention, PopEvent.DRY, PAUSED, now_ms)
        pool.add(intention)
        self._state.dirty[pool] = None
        return []

    def _break(
        self, intention: Intention, pool: Pool, error: QueenError, now_ms: float
    ) -> list[Action]:
        """Retry once alone. Then a long poll waits, because the database may recover."""
        # The failed partitions have left all lists. Answer no pop empty before a look-up.
        pool.doubt()
        pool.require_look_up(self._state.tick)
        self._state.dirty[pool] = None
        intention.broken_calls += 1
        is_hopeless = isinstance(error, StorageFault) or (
            intention.broken_calls >= _BROKEN_MAX
            and (not intention.may_wait or not isinstance(error, StorageUnavailable))
        )
        if intention.state is PopState.ABANDONED:
            intention.move(PopEvent.BROKEN, now_ms)
        elif is_hopeless or intention.is_expired or self._state.is_closing:
            return self._state.finish(intention, PopEvent.ERROR, error, now_ms)
        else:
            intention.move(PopEvent.BROKEN, now_ms)
            if self._state.holds_back(pool.consumer_group) and not intention.may_wait:
                return self._state.finish(intention, PopEvent.DRY, PAUSED, now_ms)
            pool.add(intention)
        return []

    # Separate calls read large batches.

    def fetched(self, fetch: Fetch, read: list[PopGrant], now_ms: float) -> list[Action]:
        """Handle a large batch. Leases whose messages were deleted meanwhile are empty."""
        intention, pool, granted, _ = fetch
        pool.reads -= 1
        granted = [*granted, *(one for one in read if one.message_count)]
        if intention.state is PopState.ABANDONED:
            return self._abandon(intention, pool, PopEvent.GRANTED, granted, now_ms)
        if granted:
            return self._state.finish(intention, PopEvent.GRANTED, PopAnswer(granted), now_ms)
        return self._refuse(intention, pool, "again", now_ms)

    def fetch_failed(self, fetch: Fetch, error: QueenError, now_ms: float) -> list[Action]:
        """Handle a failed read of a large batch. Its leases were handed back if possible."""
        fetch.pool.reads -= 1
        return self._break(fetch.intention, fetch.pool, error, now_ms)

    def _abandon(
        self,
        intention: Intention,
        pool: Pool,
        event: PopEvent,
        granted: list[PopGrant],
        now_ms: float,
    ) -> list[Action]:
        """Finish a pop whose caller left during the call."""
        intention.move(event, now_ms)
        is_leased = granted and not intention.request.is_auto_ack
        return [HandBack(pool, granted)] if is_leased else []

    def handed_back(self, pool: Pool, grants: Sequence[PopGrant]) -> list[Action]:
        """Free partitions for the pool that they were leased for and for others."""
        for one in grants:
            self._state.add_ready(pool, one.partition_id)
            if one.queue_name:
                self._state.free(one.partition_id, _key_of(one), pool.consumer_group)
        # Other brokers know of the leases and would wait until they expire.
        queues = dict.fromkeys(one.queue_name or pool.scope.queue or "*" for one in grants)
        return [Announce(queue) for queue in queues]


def _key_of(grant: PopGrant) -> PartitionKey:
    return PartitionKey(grant.queue_name or "", grant.partition_name or "")
