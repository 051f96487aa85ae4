"""A model of the database as the pop path sees it: partitions, cursors, leases, transaction ids.

Each call is seen and done at one moment of the test's choice and answered at another, so that
answers may be late and overtake each other. What the look-ups and the lease promise is modelled
after the SQL functions of the same names; everything else is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from queenmq.engine.requests import (
    News,
    PartitionKey,
    PartitionRef,
    PopCandidate,
    PopGrant,
    ResolveAsk,
    Resolved,
    Scope,
    Slice,
    WalkAsk,
)
from queenmq.storage.stores.outcomes import decode_holds, decode_pop

#: New messages from which on a look-up searches the whole scope.
FRESH_MAX = 10
#: The newest messages of a large queue that a look-up without a horizon reads.
RECENT_MAX = 3
LEASE_TIME = 3


@dataclass
class ModelCursor:
    """The state of a group in a partition."""

    seq: int = 0
    lease_id: UUID | None = None
    lease_end: int = 0
    expires_at: int = 0
    retry_at: int = 0
    is_blocked: bool = False


@dataclass(eq=False)
class ModelQueue:
    name: str
    namespace: str
    changed_xid: int


@dataclass(eq=False)
class ModelPartition:
    id: UUID
    queue: ModelQueue
    name: str
    #: Committed messages that are there: seq to xid.
    rows: dict[int, int] = field(default_factory=dict)
    last_seq: int = 0
    cursors: dict[str, ModelCursor] = field(default_factory=dict)

    @property
    def ref(self) -> PartitionRef:
        key = PartitionKey(self.queue.name, self.name)
        return PartitionRef(
            key, self.id, str(self.id), UUID(int=0), self.queue.namespace, "", False
        )

    def cursor(self, group: str) -> ModelCursor:
        return self.cursors.setdefault(group, ModelCursor())

    def undelivered(self, group: str) -> list[int]:
        """The messages that the group has not passed."""
        seq = self.cursor(group).seq
        return [one for one in self.rows if one > seq]


@dataclass(eq=False)
class Transaction:
    """Somebody's open transaction and what it has pushed."""

    xid: int
    pushes: list[tuple[ModelPartition, int]] = field(default_factory=list)
    namespaces: list[tuple[ModelQueue, str]] = field(default_factory=list)


class ModelDatabase:
    """The committed state, and the transactions that have not ended."""

    def __init__(self) -> None:
        self.partitions: list[ModelPartition] = []
        self.open: list[Transaction] = []
        self.next_xid = 100
        self.now = 0
        self.lease_time = LEASE_TIME
        #: Queues with more partitions are walked through.
        self.whole_max = 99
        self._apart_count = 10**9

    # Transactions.

    @property
    def horizon(self) -> int:
        """The lowest transaction id that is not over for everybody who looks now."""
        return min([one.xid for one in self.open], default=self.next_xid)

    def begin(self) -> Transaction:
        transaction = Transaction(self.next_xid)
        self.next_xid += 1
        self.open.append(transaction)
        return transaction

    def commit(self, transaction: Transaction) -> None:
        self.open.remove(transaction)
        for partition, count in transaction.pushes:
            for _ in range(count):
                partition.last_seq += 1
                partition.rows[partition.last_seq] = transaction.xid
        for queue, namespace in transaction.namespaces:
            queue.namespace = namespace
            queue.changed_xid = transaction.xid

    def rollback(self, transaction: Transaction) -> None:
        self.open.remove(transaction)

    def holder(self, partition: ModelPartition) -> Transaction | None:
        """Return the holder of the partition's row lock, which serialises pushes."""
        holders = [one for one in self.open if partition in dict(one.pushes)]
        return holders[0] if holders else None

    # Look-ups.

    def in_scope(self, scope: Scope) -> list[ModelPartition]:
        return [
            one
            for one in self.partitions
            if scope.queue in (None, one.queue.name)
            and scope.partition in (None, one.name)
            and scope.namespace in (None, one.queue.namespace)
        ]

    def _to_check(self, ask: ResolveAsk) -> list[ModelPartition]:
        scope = self.in_scope(ask.scope)
        if ask.scope.partition is not None or ask.horizon is None:
            return scope
        since = int(ask.horizon)
        fresh = [one for one in scope for xid in one.rows.values() if xid >= since]
        if len(fresh) >= FRESH_MAX or any(one.queue.changed_xid >= since for one in scope):
            return scope
        return [one for one in scope if one in fresh or one.id in ask.known_ids]

    def _recent(self, ask: ResolveAsk) -> tuple[list[ModelPartition], bool]:
        """As recent_partitions: the newest messages' partitions, and whether that is all."""
        scope = self.in_scope(ask.scope)
        messages = [(xid, one.name, one) for one in scope for xid in one.rows.values()]
        newest = sorted(messages, reverse=True)[:RECENT_MAX]
        return list(dict.fromkeys(one for *_, one in newest)), len(newest) < RECENT_MAX

    def _pending(
        self, ask: ResolveAsk, places: list[ModelPartition] | None = None
    ) -> Iterator[tuple[ModelPartition, int, str]]:
        """What has messages, when it is due, and why not before."""
        for one in self._to_check(ask) if places is None else places:
            cursor = one.cursor(ask.consumer_group)
            if one.last_seq > cursor.seq:
                leased_until = cursor.expires_at if cursor.lease_id else 0
                due_at = 10**9 if cursor.is_blocked else max(leased_until, cursor.retry_at)
                why = "b" if cursor.is_blocked else "l" if leased_until > self.now else "w"
                yield one, due_at, why

    def resolve(self, ask: ResolveAsk, *, limit: int) -> Resolved:
        """As pop_sm_resolve for one pair."""
        places, is_all, scope = self._to_check(ask), True, self.in_scope(ask.scope)
        is_queue = ask.scope.queue is not None and ask.scope.partition is None
        if is_queue and len(scope) > self.whole_max and places == scope:
            places, is_all = self._recent(ask)
        pending = list(self._pending(ask, places))
        ready = [one.id for one, due_at, _ in pending if due_at <= self.now]
        held = [(one.id, why) for one, due_at, why in pending if due_at > self.now]
        return Resolved(
            is_found=ask.scope.partition is None or bool(self.in_scope(ask.scope)),
            is_complete=is_all and len(ready) <= limit and len(held) <= 5 * limit,
            partition_ids=ready[:limit],
            held_ids=[one for one, _ in held[: 5 * limit]],
            held_whys=decode_holds("".join(why for _, why in held[: 5 * limit])),
            next_due_ms=None,
            horizon=str(self.horizon),
        )

    def walk_on(self, ask: WalkAsk) -> Slice:
        """As walk_partitions for one pair, a partition at a time."""
        whole = ResolveAsk(Scope(ask.queue), ask.consumer_group, None, ())
        ahead = sorted(
            (one for one in self.in_scope(whole.scope) if one.id > ask.after),
            key=lambda one: one.id,
        )
        places = ahead[:1]
        pending = list(self._pending(whole, places))
        held = [(one.id, why) for one, due_at, why in pending if due_at > self.now]
        is_end = len(ahead) <= 1
        return Slice(
            is_end=is_end,
            is_whole=True,
            partition_ids=[one.id for one, due_at, _ in pending if due_at <= self.now],
            held_ids=[one for one, _ in held],
            held_whys=decode_holds("".join(why for _, why in held)),
            next_due_ms=None,
            last_id=places[-1].id if places else ask.after,
        )

    def find_news(self, queue: str, horizon: str) -> News:
        """As find_news for one queue."""
        since = int(horizon)
        mine = [one for one in self.partitions if one.queue.name == queue]
        new = [one.name for one in mine for xid in one.rows.values() if xid >= since]
        return News(
            is_changed=len(new) >= FRESH_MAX or any(one.queue.changed_xid >= since for one in mine),
            partition_names=set(new),
            horizon=str(self.horizon),
        )

    def has_pending(self, ask: ResolveAsk) -> bool:
        """As has_pending_messages for one pair."""
        return any(due_at <= self.now for _, due_at, _ in self._pending(ask))

    # Leases.

    def see(self, candidates: Sequence[PopCandidate]) -> dict[UUID, int]:
        """The snapshot of a lease: how far each partition goes. The cursors are read later."""
        wanted = {one.partition_id for one in candidates}
        return {one.id: one.last_seq for one in self.partitions if one.id in wanted}

    def take(
        self,
        candidates: Sequence[PopCandidate],
        seen: dict[UUID, int],
        locked: Collection[UUID] = (),
        *,
        apart_count: int = 10**9,
    ) -> list[PopGrant]:
        """As pop_messages_batch: one row per candidate whose cursor nobody has locked."""
        self._apart_count = apart_count
        by_id = {one.id: one for one in self.partitions}
        left: dict[int, int] = {}
        rows = []
        for candidate in candidates:
            partition_id = candidate.partition_id
            if partition_id in by_id and partition_id in seen and partition_id not in locked:
                left.setdefault(candidate.request, candidate.batch)
                row = self._take(candidate, by_id[partition_id], seen[partition_id], left)
                rows.append(row)
        return rows

    def _take(
        self, candidate: PopCandidate, one: ModelPartition, last_seq: int, left: dict[int, int]
    ) -> PopGrant:
        cursor = one.cursor(candidate.consumer_group)
        due_ms = None
        if cursor.lease_id is not None and cursor.expires_at > self.now:
            outcome, due_ms = "held", float(cursor.expires_at - self.now)
        elif cursor.is_blocked:
            outcome = "blocked"
        elif last_seq <= cursor.seq:
            outcome = "none"
        elif cursor.retry_at > self.now:
            outcome, due_ms = "retry", float(cursor.retry_at - self.now)
        elif not left[candidate.request]:
            outcome = "spare"
        else:
            return self._grant(candidate, one, last_seq, left)
        return _answer(candidate, outcome, has_more=last_seq > cursor.seq, due_ms=due_ms)

    def _grant(
        self, candidate: PopCandidate, one: ModelPartition, last_seq: int, left: dict[int, int]
    ) -> PopGrant:
        cursor = one.cursor(candidate.consumer_group)
        count = min(left[candidate.request], last_seq - cursor.seq)
        left[candidate.request] -= count
        start, end = cursor.seq, cursor.seq + count
        has_more = last_seq > end
        is_apart = count > self._apart_count and not candidate.is_auto_ack
        if not is_apart and not any(start < seq <= end for seq in one.rows):
            self.pass_hole(one, candidate.consumer_group, end)
            return _answer(candidate, "again", has_more=has_more)
        if candidate.is_auto_ack:
            cursor.seq, cursor.lease_id = end, None
        else:
            cursor.lease_id, cursor.lease_end = candidate.lease_id, end
            cursor.expires_at = self.now + self.lease_time
        if is_apart:
            return _answer(candidate, "leased", has_more=has_more, after_seq=start, end_seq=end)
        return _answer(
            candidate,
            "granted",
            has_more=has_more,
            queue_name=one.queue.name,
            partition_name=one.name,
            message_count=sum(start < seq <= end for seq in one.rows),
        )

    def pass_hole(self, one: ModelPartition, group: str, end: int) -> None:
        """Everything up to here is gone: the cursor moves to the next message that is there."""
        cursor = one.cursor(group)
        following = min([seq - 1 for seq in one.rows if seq > end], default=one.last_seq)
        cursor.seq = max(cursor.seq, following)
        cursor.lease_id = None

    def is_free(self, one: ModelPartition, group: str) -> bool:
        """Return whether a pop of the group could get the partition now."""
        cursor = one.cursor(group)
        is_leased = cursor.lease_id is not None and cursor.expires_at > self.now
        return not (is_leased or cursor.is_blocked or cursor.retry_at > self.now)

    def end_lease(self, one: ModelPartition, group: str, *, is_acked: bool) -> bool:
        """Ack or give back whatever is leased; whether more can be had."""
        cursor = one.cursor(group)
        if cursor.lease_id is not None and is_acked:
            cursor.seq = max(cursor.seq, cursor.lease_end)
        cursor.lease_id = None
        return one.last_seq > cursor.seq


def _answer(candidate: PopCandidate, outcome: str, **facts: Any) -> PopGrant:
    lease_id = None if candidate.is_auto_ack else str(candidate.lease_id)
    given = {"lease_id": lease_id, **facts}
    return PopGrant(
        candidate.request,
        candidate.partition_id,
        decode_pop(outcome),
        **{name: given.get(name) for name in PopGrant._fields[3:]},
    )
