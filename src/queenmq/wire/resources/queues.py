"""Queues, partitions, namespaces and tasks: set up, list, count, remove."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from queenmq.wire.shape import Answer, Natural, Pagination, Request


class QueueOptions(Answer):
    """Options of a queue. Options that a request leaves out get these defaults."""

    lease_time: Natural = 300
    retry_limit: Natural = 3
    retry_delay: Natural = 0
    priority: Annotated[int, Meta(ge=-2_147_483_648, le=2_147_483_647)] = 0
    max_size: Annotated[int, Meta(ge=0, le=2**53)] = 0
    ttl: Natural = 3600
    dead_letter_queue: bool = False
    dlq_after_max_retries: bool = False
    delayed_processing: Natural = 0
    window_buffer: Natural = 0
    retention_seconds: Natural = 0
    completed_retention_seconds: Natural = 0
    retention_enabled: bool = False
    encryption_enabled: bool = False
    max_wait_time_seconds: Natural = 0
    on_poison: Literal["dlq", "block", "skip"] = "dlq"
    on_failed_operation: Literal["stop", "continue"] = "stop"
    archive_before_delete: bool = False
    ack_history: bool = False
    partition_idle_seconds: Natural = 2_592_000


class ConfigureRequest(Request):
    """A queue to create, or all its options to replace."""

    queue: str
    namespace: str | None = None
    task: str | None = None
    options: QueueOptions | None = None


class QueueConfigured(Answer):
    """A queue as it is set up now. `ignored` has the names of the request that mean nothing."""

    configured: bool
    queue_id: str
    partition_id: str
    queue: str
    namespace: str
    task: str
    options: QueueOptions
    ignored: list[str] = field(default_factory=list)


class QueueDeleted(Answer):
    """A queue that was deleted. `existed` says whether there was one."""

    deleted: bool
    queue: str
    existed: bool


class PartitionDeleted(Answer):
    """A partition that is gone."""

    deleted: bool
    queue: str
    partition: str


class QueueCleared(Answer):
    """A queue, or one partition of it, whose messages were dropped."""

    success: bool
    queue: str
    partition: str | None
    messages_deleted: int


class Counters(Answer):
    """Messages by state."""

    total: int
    pending: int
    processing: int
    completed: int
    failed: int
    dead_letter: int


class MessageCounts(Answer):
    """Messages of a queue in short."""

    total: int
    pending: int
    processing: int


class QueueSummary(Answer):
    """A queue in a list."""

    id: str
    name: str
    namespace: str | None
    task: str | None
    created_at: str
    partitions: int
    messages: MessageCounts


class QueueList(Answer):
    """Queues, newest first."""

    queues: list[QueueSummary]


class Partition(Answer):
    """A partition of a queue with its counts."""

    id: str
    name: str
    created_at: str
    stats: Counters
    oldest_message: str | None
    newest_message: str | None


class PartitionTotal(Answer):
    """Messages of a partition in short."""

    total: int


class PartitionSummary(Answer):
    """A partition in a list over queues."""

    id: str
    name: str
    queue: str
    namespace: str | None
    task: str | None
    created_at: str
    messages: PartitionTotal
    newest_message: str | None


class PartitionList(Answer):
    """A page of partitions, by queue and name."""

    partitions: list[PartitionSummary]
    pagination: Pagination


class QueueDetail(Answer):
    """A queue with its options, its partitions and the sum of their counts."""

    id: str
    name: str
    namespace: str | None
    task: str | None
    created_at: str
    options: QueueOptions
    partitions: list[Partition]
    totals: Counters


class PendingCounts(Answer):
    """Messages of several queues in short."""

    total: int
    pending: int


class Namespace(Answer):
    """The queues of a namespace, added up."""

    namespace: str
    queues: int
    partitions: int
    messages: PendingCounts


class NamespaceList(Answer):
    """The namespaces that queues name."""

    namespaces: list[Namespace]


class Task(Answer):
    """The queues of a task, added up."""

    task: str
    queues: int
    partitions: int
    messages: PendingCounts


class TaskList(Answer):
    """The tasks that queues name."""

    tasks: list[Task]
