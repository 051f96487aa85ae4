"""What the pop service knows and plans: pools with news, dry pools, pairs in calls. Pure: no I/O.

One planning turn: every pool with news gives its longest waiters the partitions it believes in; the
pairs become one lease-and-fetch call. A pool that has waiters but nothing to try is either settled
(its waiters are answered or stay parked), or dry (it needs a look-up), or held (all it has is in
calls).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from queenmq.engine.operation import PartitionKey, PopGrant, PopRequest
from queenmq.engine.pop_machine import PopEvent
from queenmq.engine.ready_index import Intention, Pool, PoolIndex

#: A pop whose candidates are locked by others this often is treated as if they had nothing.
TRIES_MAX = 5
#: Pools kept for callers that may come back; more are dropped when nobody waits in them.
POOLS_MAX = 5_000


class Claim(NamedTuple):
    """A pop and the partitions to try for it."""

    intention: Intention
    pool: Pool
    partition_ids: list[UUID]


class PopBoard:
    """The state of all pops of a broker between two database calls."""

    def __init__(self, *, candidates_max: int) -> None:
        self._candidates_max = candidates_max
        self.pools = PoolIndex()
        #: Pools with news: a waiter or a partition was added, or a call for them has ended.
        self.dirty: dict[Pool, None] = {}
        #: Pools that need a look-up.
        self.dry: dict[Pool, None] = {}
        #: Pools whose partitions are all in calls; they have news when a call ends.
        self._held: dict[Pool, None] = {}
        #: (partition, group) pairs in a call; none is in two calls.
        self._claiming: set[tuple[UUID, str]] = set()

    def pool_of(self, request: PopRequest) -> Pool:
        """The pool of a request, made if it is not there."""
        if len(self.pools) >= POOLS_MAX:
            self.pools.remove_idle()
        return self.pools.get_or_add(request.scope, request.consumer_group)

    def add_ready(self, pool: Pool, partition_id: UUID) -> bool:
        """Believe that the partition has work; whether somebody waits for it."""
        if pool.scope.queue is None:
            # Several queues, highest priority first: only a look-up knows where this one stands.
            pool.ready.clear()
            pool.resolved_tick = -1
        else:
            pool.mark_ready(partition_id)
        if pool.waiting_count:
            self.dirty[pool] = None
            return True
        return False

    def add_freed(
        self, partition_id: UUID, key: PartitionKey, consumer_group: str, filters: tuple[str, str]
    ) -> Iterator[Pool]:
        """The partition can be popped again by this group; yields the pools with waiters for it."""
        namespace, task = filters
        for pool in self.pools.touched_by(key, namespace=namespace, task=task):
            if pool.consumer_group == consumer_group and self.add_ready(pool, partition_id):
                yield pool

    def plan(self) -> Iterator[Claim | Pool]:
        """One call full of claims; in between, each pool that has nothing left to try."""
        specific = [pool for pool in self.dirty if pool.is_specific]
        others = [pool for pool in self.dirty if not pool.is_specific]
        room = self._candidates_max
        # Those who ask by name come first, but may not shut the others out.
        first_room = max(1, room // 2) if others else room
        room -= yield from self._serve(specific, first_room)
        yield from self._serve(others, room)

    def _serve(self, pools: list[Pool], room: int) -> Generator[Claim | Pool, None, int]:
        used = 0
        for pool in pools:
            while used < room and (intention := pool.first()) is not None:
                wanted = min(intention.request.partitions, room - used)
                partition_ids = pool.take_ready(wanted, self._claiming)
                if not partition_ids:
                    break
                pool.pop_first()
                used += len(partition_ids)
                yield self._start(intention, pool, partition_ids)
            del self.dirty[pool]
            if used >= room:
                # To the end of the row, so that a busy pool lets the others go first next time.
                self.dirty[pool] = None
                break
            if not pool.ready and not pool.auto_claims:
                yield pool
            elif pool.waiting_count:
                self._held[pool] = None
        return used

    def _start(self, intention: Intention, pool: Pool, partition_ids: list[UUID]) -> Claim:
        intention.move(PopEvent.ASSIGNED)
        pool.claims += 1
        pool.auto_claims += intention.request.is_auto_ack
        for partition_id in partition_ids:
            self._claiming.add((partition_id, pool.consumer_group))
        return Claim(intention, pool, partition_ids)

    def end(self, claims: Iterable[Claim]) -> None:
        """Their call is over: the pairs are free and everybody concerned has news."""
        for intention, pool, partition_ids in claims:
            pool.claims -= 1
            pool.auto_claims -= intention.request.is_auto_ack
            for partition_id in partition_ids:
                self._claiming.discard((partition_id, pool.consumer_group))
            self.dirty[pool] = None
        self.dirty.update(self._held)
        self._held.clear()

    def keep_ready(self, claim: Claim, answers: Iterable[PopGrant]) -> bool:
        """Keep what is worth another try; False when a remembered partition may be gone."""
        intention, pool, partition_ids = claim
        answered = {one.partition_id: one for one in answers}
        is_known = True
        for partition_id in partition_ids:
            one = answered.get(partition_id)
            if one is None:
                is_known = self._try_again(pool, intention, partition_id)
            elif one.outcome in ("again", "spare"):
                pool.mark_ready(partition_id)
            elif one.outcome != "granted" and one.due_ms is not None:
                pool.due_ms = min(one.due_ms, pool.due_ms or one.due_ms)
        return is_known

    def _try_again(self, pool: Pool, intention: Intention, partition_id: UUID) -> bool:
        """No answer: another session had the row locked just then, or the partition is gone."""
        intention.tries += 1
        if intention.tries >= TRIES_MAX:
            intention.tries = 0
        elif pool.is_specific:
            pool.resolved_tick = -1
            return False
        else:
            pool.mark_ready(partition_id)
        return True
