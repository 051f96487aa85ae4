"""Single messages: list, show, remove, push again."""

from __future__ import annotations

from typing import Any

from queenmq.wire.shape import Answer, Pagination, Request


class GroupCounts(Answer):
    """The number of named groups that have passed a message."""

    consumed_by: int
    total_groups: int


class MessageHead(Answer):
    """A message in short."""

    id: str
    transaction_id: str
    partition_id: str
    queue_path: str
    queue: str
    partition: str
    status: str
    created_at: str


class MessageSummary(Answer):
    """A message without its payload."""

    id: str
    transaction_id: str
    partition_id: str
    queue_path: str
    queue: str
    partition: str
    namespace: str | None
    task: str | None
    status: str
    queue_status: str | None
    bus_status: GroupCounts
    trace_id: str | None
    producer_sub: str | None
    queue_priority: int
    created_at: str
    lease_expires_at: str | None
    #: Null where the id of a message does not carry it.
    seq: int | None


class Mode(Answer, omit_defaults=True):
    """The kinds of groups that read messages."""

    has_queue_mode: bool
    bus_groups_count: int
    type: str
    consumed_by_groups: list[str] | None = None


class MessageList(Answer):
    """A page of messages, newest first."""

    messages: list[MessageSummary]
    mode: Mode
    pagination: Pagination
    is_cut: bool


class MessageQueueConfig(Answer):
    """Options of a message's queue that decide about its delivery."""

    lease_time: int
    retry_limit: int
    retry_delay: int
    ttl: int
    priority: int


class MessageGroup(Answer):
    """A group that has a cursor in a message's partition."""

    name: str
    consumed: bool
    lease_expires_at: str | None


class MessageDetail(MessageSummary):
    """A message with its payload."""

    payload: Any
    is_encrypted: bool
    error_message: str | None
    retry_count: int
    queue_config: MessageQueueConfig
    mode: Mode
    consumer_groups: list[MessageGroup]
    #: Why `payload` is null although the message has one.
    decryption_error: str | None = None


class MessageDeleted(Answer):
    """A message that is gone."""

    success: bool
    partition_id: str
    transaction_id: str
    message: str


class DeadLetterRequest(Request):
    """The reason for dead-lettering a message."""

    error: str | None = None


class MessageDeadLettered(MessageDeleted):
    """A message that became a dead letter of these groups."""

    consumer_groups: list[str]


class MessageRetried(MessageDeleted):
    """A dead letter that was pushed again, or waits behind operations."""

    new_message_id: str | None
    new_transaction_id: str | None
    operation_id: str | None
