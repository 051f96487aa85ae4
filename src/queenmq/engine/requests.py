"""What the engine works on: requests, and what the store answers. Plain values, no behaviour.

Requests keep their items in columns (one list per field), because that is how they go to the
database and how many requests are joined into one call.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

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
    #: What ids of its messages have in places 15 to 25.
    id_digits: str = ""


@dataclass(slots=True)
class PushItems:
    """Items to push, one list element per item. A column without any value is None."""

    keys: list[PartitionKey]
    payloads: list[str]
    transaction_ids: list[str | None] | None = None
    trace_ids: list[UUID | None] | None = None
    producer_subs: list[str | None] | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether every item has an id, by which storing it twice is noticed."""
        return self.transaction_ids is not None and None not in self.transaction_ids


class PushCall(NamedTuple):
    """The items of one or more push requests, and how to store them."""

    items: PushItems
    refs: Sequence[PartitionRef]
    #: Items of each request.
    request_sizes: Sequence[int]
    #: Partitions whose items are queued as operations, whether or not others wait there.
    queued_ids: Collection[UUID] = ()
    #: It was accepted before, so nothing is refused for want of room in its queue.
    is_accepted: bool = False
    #: No transaction id is looked for; NotUnique if one is stored already.
    are_ids_new: bool = False


class Pushed(NamedTuple):
    """What became of the items of a call, in order; see push_messages for the letters."""

    ids: Sequence[str | None]
    outcomes: str
    positions: Sequence[int | None] | None


class PushOutcome(NamedTuple):
    """What became of the items of a push, in order.

    outcomes has a letter per item: q queued, d duplicate, f refused because the queue is full; b
    and s wait as an operation, whose id takes the place of the message id; p is kept on disk
    because of the database and m because of maintenance, and the transaction id takes its place.
    """

    refs: Sequence[PartitionRef]
    message_ids: Sequence[str | None]
    outcomes: str
    #: Places in line, where an item waits as an operation.
    positions: Sequence[int | None] | None = None

    @property
    def queued_ids(self) -> set[str]:
        """The operations that wait."""
        if self.positions is None:
            return set()
        pairs = zip(self.message_ids, self.positions, strict=True)
        return {one for one, position in pairs if one is not None and position is not None}

    @property
    def is_delayed(self) -> bool:
        """Whether some of it waits, because of load or an outage."""
        return self.positions is not None or "p" in self.outcomes


class ClaimedOperation(NamedTuple):
    """A queued push that this broker is to run."""

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
    """What one call of retention removed, by rule, and where the next one goes on."""

    #: The partition after which to look; None: all of the queue were looked at.
    next_after: str | None
    retention: int
    completed: int
    evicted: int

    @property
    def total(self) -> int:
        return self.retention + self.completed + self.evicted


class WaitingOperations(NamedTuple):
    """How many operations wait to be run, for how long the oldest does, and how many failed."""

    operations: int
    oldest_s: float
    failed: int = 0


class Scope(NamedTuple):
    """Where a pop looks: a partition, a queue, or queues by namespace and task (None: any)."""

    queue: str | None = None
    partition: str | None = None
    namespace: str | None = None
    task: str | None = None

    @property
    def partition_key(self) -> PartitionKey:
        """The one partition of a scope that names one."""
        assert self.queue is not None and self.partition is not None
        return PartitionKey(self.queue, self.partition)

    def covers(self, key: PartitionKey | str, namespace: str, task: str) -> bool:
        """Whether a pop here could get something of a partition, or of any partition of a queue,
        of the queue that the scope is about or one with this namespace and task.
        """
        is_near = self.queue is not None or (
            self.namespace in (None, namespace) and self.task in (None, task)
        )
        return is_near and (isinstance(key, str) or self.partition in (None, key.partition))


class Subscription(NamedTuple):
    """Where a group that is new to a queue starts; no time means: what is committed from now on."""

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


class PopCandidate(NamedTuple):
    """A partition to try for the request with this number; numbers start at 1."""

    request: int
    partition_id: UUID
    consumer_group: str
    batch: int
    is_auto_ack: bool
    lease_id: UUID


class PopGrant(NamedTuple):
    """What the store says of one candidate; see pop_messages_batch for the outcomes."""

    request: int
    partition_id: UUID
    outcome: str
    lease_id: str | None
    has_more: bool | None
    due_ms: float | None
    #: What is leased or taken: after_seq < seq <= end_seq; and how often that was tried before.
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
    """Where to look for whom, since when, and which partitions to look at in any case."""

    scope: Scope
    consumer_group: str
    horizon: str | None
    known_ids: Sequence[UUID]


class Resolved(NamedTuple):
    """What a look-up has found in one place; see pop_sm_resolve."""

    is_found: bool
    is_complete: bool
    partition_ids: Sequence[UUID]
    held_ids: Sequence[UUID]
    held_whys: str
    next_due_ms: float | None
    horizon: str


class News(NamedTuple):
    """What has happened in a queue since a horizon; see find_news."""

    is_changed: bool
    partition_names: Collection[str]
    horizon: str


class OnwardAsk(NamedTuple):
    """A queue to go on searching for a group, and the partition to go on after."""

    queue: str
    consumer_group: str
    after: UUID


class Page(NamedTuple):
    """The next partitions of a queue in id order; see search_onwards.

    One that is not filled says only that the end of the queue came first.
    """

    is_filled: bool
    partition_ids: Sequence[UUID]
    held_ids: Sequence[UUID]
    held_whys: str
    next_due_ms: float | None
    last_id: UUID


class Fetched(NamedTuple):
    """The messages of a lease that was read apart."""

    message_count: int
    #: The inside of a JSON array of messages.
    messages: str | None
    is_encrypted: bool | None
    partition_name: str
    queue_name: str


class AckItem(NamedTuple):
    """One message to settle. A lease id of None skips the lease check."""

    partition_id: UUID
    consumer_group: str
    transaction_id: str
    lease_id: UUID | None
    status: str
    error: str | None


class AckResult(NamedTuple):
    """What became of one ack. has_more: the partition may be popped again at once."""

    success: bool
    error: str | None
    queue_name: str | None
    partition_name: str | None
    lease_released: bool
    dlq: bool
    has_more: bool | None


class LeaseRelease(NamedTuple):
    """A lease to hand back; with pass_seq, because everything up to it has been deleted."""

    partition_id: UUID
    consumer_group: str
    lease_id: UUID
    pass_seq: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionItems:
    """What a transaction does, and what it is recognised by when it is sent again."""

    pushes: PushItems
    acks: Sequence[AckItem]
    required_leases: Sequence[UUID]
    #: Of everything above.
    digest: UUID
    #: Of the key that the caller gave, else the digest; None for one that may be meant twice.
    key: UUID | None
    is_key_derived: bool


class TransactionOutcome(NamedTuple):
    """A committed transaction: what became of its pushes, and of each ack what it led to."""

    pushed: PushOutcome
    is_dlq: Sequence[bool]
    #: The ack's partition, where it can be popped again at once; empty for a repeat.
    freed: Sequence[PartitionKey | None]
    #: It was committed before, and this is what it was answered then.
    is_repeat: bool = False


class Renewal(NamedTuple):
    """The result of extending a lease: how many partitions, and until when at least."""

    renewed: int
    was_known: bool
    expires_at: datetime | None
