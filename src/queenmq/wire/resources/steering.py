"""Partitions as operators see and steer them: cursors, leases, previews of a seek."""

from __future__ import annotations

from queenmq.wire.resources.groups import GroupPartition
from queenmq.wire.shape import Answer, Pagination


class PartitionCursor(Answer, kw_only=True):
    """A consumer group in one partition. `cursor_seq` is the last message that has passed."""

    consumer_group: str
    cursor_seq: int
    lag: int
    total_consumed: int
    last_consumed_at: str | None
    #: Of a live lease. Null without one.
    leased_until: str | None
    leased_at: str | None
    lease_end_seq: int | None
    #: Of the message that failed last.
    retry_count: int
    retry_seq: int | None
    retry_at: str | None
    retry_error: str | None
    expired_leases: int
    #: The message that has failed too often and has no dead-letter queue to go to.
    blocked_seq: int | None


class PartitionDetail(Answer, kw_only=True):
    """A partition with the cursors of its groups."""

    id: str
    queue: str
    name: str
    created_at: str
    first_seq: int
    last_seq: int
    newest_message: str | None
    groups: list[PartitionCursor]


class PartitionRow(Answer, kw_only=True):
    """A partition in a list of its queue. `lag` is that of the group that is furthest behind."""

    id: str
    name: str
    created_at: str
    first_seq: int
    last_seq: int
    newest_message: str | None
    groups: int
    leased: int
    blocked: int
    lag: int


class QueuePartitions(Answer):
    """A page of partitions of a queue. `total` counts up to a bound, `isCut` reports more."""

    partitions: list[PartitionRow]
    total: int
    is_cut: bool
    pagination: Pagination


class GroupPartitions(Answer):
    """A page of the partitions of a group on a queue."""

    partitions: list[GroupPartition]
    total: int
    pagination: Pagination


class SeekPreview(Answer):
    """The effect that a seek would have on a group. Nothing changes."""

    consumer_group: str
    queue_name: str
    partitions: int
    #: Messages that the group gets once more, and those that it never gets.
    messages_again: int
    messages_skipped: int


class LeaseEnded(Answer):
    """The result of ending a lease early."""

    success: bool
    consumer_group: str
    queue_name: str
    partition_name: str
    ended: bool
    would_have_ended_at: str | None


class GroupPaused(Answer):
    """The pause of a group. While it is paused, its pops get nothing, on all queues and brokers."""

    success: bool
    consumer_group: str
    is_paused: bool


class DeadLetterError(Answer):
    """Dead letters of one queue and group with the same error."""

    queue: str
    consumer_group: str
    error: str
    count: int
    first_failed_at: str
    last_failed_at: str


class DeadLetterErrors(Answer):
    """The most frequent errors. `isCut` means that only the newest dead letters were counted."""

    errors: list[DeadLetterError]
    is_cut: bool
