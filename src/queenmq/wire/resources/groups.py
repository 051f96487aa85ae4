"""Consumer groups: their lag, and where a seek moves them."""

from __future__ import annotations

from queenmq.wire.shape import Answer, Number, Request


class ConsumerGroup(Answer, omit_defaults=True, kw_only=True):
    """A consumer group, or a Spark stream, on one queue."""

    name: str
    topics: list[str]
    queue_name: str
    members: int
    partitions_with_lag: int | None
    total_lag: int
    max_time_lag: Number
    state: str
    subscription_mode: str | None
    subscription_timestamp: str | None
    subscription_created_at: str | None
    kind: str
    #: Of a stream: when it last published its position.
    updated_at: str | None = None
    #: Whether an operator has paused it: its pops get nothing.
    is_paused: bool = False


class LaggingPartition(Answer, rename=None, kw_only=True):
    """A partition in which a group is behind. With kind `spark`, a whole queue."""

    consumer_group: str
    queue_name: str
    partition_name: str | None
    partition_id: str | None
    worker_id: str | None = None
    offset_lag: int
    time_lag_seconds: Number
    lag_hours: float
    oldest_unconsumed_at: str | None
    last_consumed_at: str | None
    kind: str


class GroupPartition(Answer, kw_only=True):
    """A group in one partition."""

    partition: str
    worker_id: str | None = None
    last_consumed_at: str | None
    total_consumed: int
    offset_lag: int
    time_lag_seconds: Number
    lease_active: bool


class GroupStream(Answer):
    """A Spark stream that reads a queue under the name of a group."""

    query_id: str
    position: str | int
    offset_lag: int
    time_lag_seconds: Number
    updated_at: str


class GroupQueue(Answer, omit_defaults=True):
    """A group on one queue."""

    partitions: list[GroupPartition]
    streams: list[GroupStream] | None = None


class GroupDeleted(Answer, omit_defaults=True, kw_only=True):
    """A group that was deleted, on all queues or on one."""

    success: bool
    consumer_group: str
    queue_name: str | None = None
    deleted_partitions: int
    deleted_streams: int | None = None
    metadata_deleted: bool


class GroupStartRequest(Request):
    """The start of a group in partitions that are new to it."""

    subscription_timestamp: str


class GroupStartChanged(Answer):
    """The start that is stored now."""

    success: bool
    consumer_group: str
    new_timestamp: str
    rows_updated: int


class SeekRequest(Request):
    """The target of a seek: the end, a time or, in one partition, a message."""

    to_end: bool = False
    timestamp: str | None = None
    #: The message that comes next.
    seq: int | None = None


class GroupMoved(Answer):
    """A group that was moved on a queue."""

    success: bool
    consumer_group: str
    queue_name: str
    seek_to_end: bool
    target_timestamp: str | None
    partitions_updated: int


class GroupMovedInPartition(Answer, omit_defaults=True):
    """A group that was moved on a partition."""

    success: bool
    consumer_group: str
    queue_name: str
    partition_name: str
    updated: bool
    cursor_moved_to: str | None
    #: With `seq`: the number of the message that comes next now.
    next_seq: int | None = None
