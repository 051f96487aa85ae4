"""The values of the engine: requests, and the store's answers. No behaviour.

Requests keep their items in columns (one list per field), because that is how they go to the
database and how many requests are joined into one call.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID, uuid5

from queenmq.engine.outcomes import HoldReason, ItemOutcome, PopOutcome

_SPOOLED = ItemOutcome.SPOOLED
#: The consumer group of callers that name none.
QUEUE_MODE = "__QUEUE_MODE__"
#: The partition of messages that name none.
DEFAULT_PARTITION = "Default"


class PartitionKey(NamedTuple):
    """A partition by its names."""

    queue: str
    partition: str


@dataclass(frozen=True, slots=True, eq=False)
class PartitionRef:
    """A partition that exists, as the broker remembers it."""

    key: PartitionKey
    partition_id: UUID
    #: The id as it goes on the wire.
    id_text: str
    queue_id: UUID
    namespace: str
    task: str
    is_encrypted: bool
    #: Characters 15 to 25 of the ids of its messages.
    id_digits: str = ""


class RequestKey(NamedTuple):
    """Recognises a push request that is sent again."""

    #: Digest of the caller's key and of the caller.
    key: UUID
    #: Digest of the request's body.
    digest: UUID
    #: The record of the spool that it was kept in.
    origin: UUID | None = None


@dataclass(slots=True)
class PushItems:
    """Items to push, one list element per item. A column without any value is None."""

    keys: list[PartitionKey]
    payloads: list[str]
    transaction_ids: list[str | None] | None = None
    trace_ids: list[UUID | None] | None = None
    producer_subs: list[str | None] | None = None
    #: True where the payload is encrypted. None, not False, where it is not: the database then
    #: refuses it for an encrypted queue.
    encrypted: list[bool | None] | None = None
    request_key: RequestKey | None = None

    @property
    def is_repeatable(self) -> bool:
        """Return whether every item has a transaction id, so that a repeat is noticed."""
        return self.transaction_ids is not None and None not in self.transaction_ids


class PushCall(NamedTuple):
    """The items of one or more push requests, and how to store them."""

    items: PushItems
    refs: Sequence[PartitionRef]
    #: Items of each request.
    request_sizes: Sequence[int]
    #: Partitions whose items are queued as operations, whether or not others wait there.
    queued_ids: Collection[UUID] = ()
    #: It was accepted before, so nothing is refused for lack of room in its queue.
    is_accepted: bool = False
    #: Skip the duplicate check. NotUnique is raised if an id is stored already.
    are_ids_new: bool = False
    #: The key of each request. None if no request has one. KeyKnown if one was used before.
    request_keys: Sequence[RequestKey | None] | None = None


class Pushed(NamedTuple):
    """The result of one call: an id and an outcome for each item, in order."""

    ids: Sequence[str | None]
    outcomes: Sequence[ItemOutcome]
    positions: Sequence[int | None] | None


class KnownPush(NamedTuple):
    """A push request that was made before, and its answer; see push_keys."""

    key: UUID
    digest: UUID
    origin: UUID | None
    message_ids: Sequence[str | None] | None
    outcomes: Sequence[ItemOutcome] | None
    positions: Sequence[int | None] | None


class PushOutcome(NamedTuple):
    """The result of a push: an id and an outcome for each item, in order.

    A queued item has the id of its operation instead of a message id, and a spooled one has its
    transaction id.
    """

    refs: Sequence[PartitionRef]
    message_ids: Sequence[str | None]
    outcomes: Sequence[ItemOutcome]
    #: Places in line, where an item waits as an operation.
    positions: Sequence[int | None] | None = None
    #: The request was made before, and this is its answer.
    is_repeat: bool = False

    @property
    def queued_ids(self) -> set[str]:
        """Return the operations that wait, if any."""
        if self.positions is None:
            return set()
        pairs = zip(self.message_ids, self.positions, strict=True)
        return {one for one, position in pairs if one is not None and position is not None}

    @property
    def is_delayed(self) -> bool:
        """Return whether some of it waits, because of load or an outage."""
        return self.positions is not None or _SPOOLED in self.outcomes


class ClaimedOperation(NamedTuple):
    """A queued push that this broker has claimed."""

    id: UUID
    partition_id: UUID
    queue_name: str
    partition_name: str
    retry_count: int
    max_retries: int
    was_stuck: bool
    #: How long it had waited when it was claimed.
    waited_s: float = 0.0

    @property
    def key(self) -> PartitionKey:
        return PartitionKey(self.queue_name, self.partition_name)


class RemovedMessages(NamedTuple):
    """The messages that one call of retention removed, by rule, and where the next continues."""

    #: The partition after which to continue. None if the whole queue is done.
    next_after: str | None
    retention: int
    completed: int
    evicted: int

    @property
    def total(self) -> int:
        return self.retention + self.completed + self.evicted


class WaitingOperations(NamedTuple):
    """The number of operations that wait, the age of the oldest, and the number that failed."""

    operations: int
    oldest_s: float
    failed: int = 0


class Scope(NamedTuple):
    """The scope of a pop: a partition, a queue, or queues by namespace and task (None: any)."""

    queue: str | None = None
    partition: str | None = None
    namespace: str | None = None
    task: str | None = None

    @property
    def partition_key(self) -> PartitionKey:
        """Return the one partition of a scope that names one."""
        assert self.queue is not None and self.partition is not None
        return PartitionKey(self.queue, self.partition)

    def covers(self, key: PartitionKey | str, namespace: str, task: str) -> bool:
        """Return whether a pop with this scope could get messages of a partition, or of any
        partition of a queue with this name, namespace and task.
        """
        is_near = self.queue is not None or (
            self.namespace in (None, namespace) and self.task in (None, task)
        )
        return is_near and (isinstance(key, str) or self.partition in (None, key.partition))


class Subscription(NamedTuple):
    """The start of a group that is new to a queue. No time means: from now on."""

    start_time: datetime | None


@dataclass(frozen=True, slots=True)
class PopRequest:
    """One pop as the caller asked for it. Without a wait it is answered at once."""

    scope: Scope
    consumer_group: str
    batch: int
    partitions: int = 1
    is_auto_ack: bool = False
    wait_ms: int | None = None
    subscription: Subscription | None = None
    lease_seconds: int | None = None


class PopCandidate(NamedTuple):
    """A partition to try for the request with this number; numbers start at 1."""

    request: int
    partition_id: UUID
    consumer_group: str
    batch: int
    is_auto_ack: bool
    lease_id: UUID
    #: How long the lease lasts. None means the lease time of the queue.
    lease_seconds: int | None = None


class PopGrant(NamedTuple):
    """The store's answer about one candidate."""

    request: int
    partition_id: UUID
    outcome: PopOutcome
    lease_id: str | None
    has_more: bool | None
    #: If it waits, the time until it is due. If it is leased, when the lease ends, in Unix
    #: milliseconds.
    due_ms: float | None
    #: The range of messages: after_seq < seq <= end_seq; and how often it was tried before.
    after_seq: int | None
    end_seq: int | None
    attempts: int | None
    partition_name: str | None
    queue_name: str | None
    message_count: int | None
    is_encrypted: bool | None
    #: The inside of a JSON array of messages.
    messages: str | None


class ResolveAsk(NamedTuple):
    """One question of a look-up: a scope, a group, a horizon, and partitions to check in any
    case.
    """

    scope: Scope
    consumer_group: str
    horizon: str | None
    known_ids: Sequence[UUID]


class Resolved(NamedTuple):
    """The answer of a look-up for one place. See pop_sm_resolve."""

    is_found: bool
    is_complete: bool
    partition_ids: Sequence[UUID]
    held_ids: Sequence[UUID]
    held_whys: Sequence[HoldReason]
    next_due_ms: float | None
    horizon: str


class News(NamedTuple):
    """The news of a queue since a horizon. See find_news."""

    is_changed: bool
    partition_names: Collection[str]
    horizon: str


class WalkAsk(NamedTuple):
    """A queue to walk through for a group: the partition to go on after."""

    queue: str
    consumer_group: str
    after: UUID


class Slice(NamedTuple):
    """The next partitions of a queue in id order; see walk_partitions.

    With `is_end` there is none after them. Without `is_whole`, not all that must wait are named.
    """

    is_end: bool
    is_whole: bool
    partition_ids: Sequence[UUID]
    held_ids: Sequence[UUID]
    held_whys: Sequence[HoldReason]
    next_due_ms: float | None
    last_id: UUID


class Fetched(NamedTuple):
    """The messages of a lease that a separate call read."""

    message_count: int
    #: The inside of a JSON array of messages.
    messages: str | None
    is_encrypted: bool | None
    partition_name: str
    queue_name: str


class AckItem(NamedTuple):
    """One message to ack. A lease id of None skips the lease check."""

    partition_id: UUID
    consumer_group: str
    transaction_id: str
    lease_id: UUID | None
    status: str
    error: str | None


class CompletedLease(NamedTuple):
    """Messages of one lease that were completed, in the order of their delivery."""

    partition_id: UUID
    consumer_group: str
    lease_id: UUID
    messages: int
    #: Their transaction ids, joined by line feeds; none of them contains one.
    names: str


class AckResult(NamedTuple):
    """The result of one ack. has_more: the partition may be popped again at once."""

    success: bool
    error: str | None
    queue_name: str | None
    partition_name: str | None
    lease_released: bool
    dlq: bool
    has_more: bool | None


class LeaseRelease(NamedTuple):
    """A lease to hand back. With `pass_seq`, everything up to it has been deleted."""

    partition_id: UUID
    consumer_group: str
    lease_id: UUID
    pass_seq: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionItems:
    """The content of a transaction, and the key that recognises it when it is sent again."""

    pushes: PushItems
    acks: Sequence[AckItem]
    required_leases: Sequence[UUID]
    #: Digest of everything above.
    digest: UUID
    #: Digest of the caller's key, else `digest`; None if a repeat may be intended.
    key: UUID | None
    is_key_derived: bool

    @property
    def seed(self) -> UUID | None:
        """Return the seed of generated ids: the same whenever the transaction is sent again."""
        return None if self.key is None else uuid5(self.key, str(self.digest))


class TransactionOutcome(NamedTuple):
    """A committed transaction: the outcome of its pushes, and the result of each ack."""

    pushed: PushOutcome
    is_dlq: Sequence[bool]
    #: The ack's partition, where it can be popped again at once; empty for a repeat.
    freed: Sequence[PartitionKey | None]
    #: It was committed before, and this is its answer.
    is_repeat: bool = False


class Renewal(NamedTuple):
    """The result of extending a lease: how many partitions, and until when at least."""

    renewed: int
    was_known: bool
    expires_at: datetime | None
