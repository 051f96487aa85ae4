"""What the engine works on: requests, and what the store answers. Plain values, no behaviour.

Requests keep their items in columns (one list per field), because that is how they go to the
database and how many requests are joined into one call.
"""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(slots=True)
class PushItems:
    """Items to push, one list element per item. A column without any value is None."""

    keys: list[PartitionKey]
    payloads: list[str]
    transaction_ids: list[str | None] | None = None
    trace_ids: list[UUID | None] | None = None
    producer_subs: list[str | None] | None = None


class PushOutcome(NamedTuple):
    """What became of the items of a push, in order.

    outcomes has a letter per item: q queued, d duplicate, f refused because the queue is full.
    """

    refs: Sequence[PartitionRef]
    message_ids: Sequence[str | None]
    outcomes: str


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


class TransactionOutcome(NamedTuple):
    """A committed transaction: of each push the message id, of each ack what it led to."""

    refs: Sequence[PartitionRef]
    message_ids: Sequence[str]
    is_dlq: Sequence[bool]
    #: The ack's partition, where it can be popped again at once.
    freed: Sequence[PartitionKey | None]


class Renewal(NamedTuple):
    """The result of extending a lease: how many partitions, and until when at least."""

    renewed: int
    was_known: bool
    expires_at: datetime | None
