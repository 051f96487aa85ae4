"""Owns the query parameters of `queen.admin` and `queen.pipeline`, as keyword arguments.

Names are those of the wire. `from` is a keyword of Python, so it is `from_` here.
"""

from __future__ import annotations

from typing import TypedDict


class PageQuery(TypedDict, total=False):
    """Selects a part of a list.

    limit: At most this many elements.
    offset: How many elements to skip.
    """

    limit: int | None
    offset: int | None


class JobRunQuery(PageQuery, total=False):
    """Selects runs by job.

    job: Only runs of this job.
    """

    job: str | None


class SpanQuery(TypedDict, total=False):
    """Selects a span of time, in ISO 8601.

    from_: Its start.
    to: Its end, by default now.
    """

    from_: str | None
    to: str | None


class QueueQuery(PageQuery, total=False):
    """Selects queues.

    search: A part of their names, ignoring case.
    """

    search: str | None


class PartitionQuery(PageQuery, total=False):
    """Selects partitions.

    queue: Only partitions of this queue.
    """

    queue: str | None


class QueuePartitionQuery(PageQuery, total=False):
    """Selects and sorts partitions of a queue.

    search: A part of their names.
    sort: `name`, `depth` (most messages first) or `newest` (last pushed to first).
    blocked: Only partitions in which a group is blocked.
    """

    search: str | None
    sort: str | None
    blocked: bool | None


class GroupPartitionQuery(PageQuery, total=False):
    """Selects and orders partitions of a group.

    search: A part of their names.
    sort: `lag` (most first), `name` or `recent` (last consumed from first).
    leased: Only partitions under a lease.
    """

    search: str | None
    sort: str | None
    leased: bool | None


class SeekQuery(TypedDict, total=False):
    """The target of a seek.

    toEnd: After the newest message.
    timestamp: After the last message of this time, in ISO 8601.
    partition: Only this partition.
    seq: The next message to deliver; needs `partition`.
    """

    toEnd: bool | None
    timestamp: str | None
    partition: str | None
    seq: int | None


class ScopeQuery(PageQuery, total=False):
    """Selects queues by namespace and task.

    namespace: Only queues of this namespace.
    task: Only queues of this task.
    """

    namespace: str | None
    task: str | None


class StatusQuery(SpanQuery, total=False):
    """Selects queues to count, and a span of time.

    queue: Only this queue.
    namespace: Only queues of this namespace.
    task: Only queues of this task.
    """

    queue: str | None
    namespace: str | None
    task: str | None


class AnalyticsQuery(StatusQuery, total=False):
    """Selects queues to count, a span of time and a step.

    interval: `minute`, `hour` or `day`.
    """

    interval: str | None


class ParkedQuery(SpanQuery, total=False):
    """Selects waiting pops by queue and time.

    queue: Only pops of this queue.
    """

    queue: str | None


class QueueHistoryQuery(ParkedQuery, total=False):
    """Selects the history of queues.

    queue: Only this queue.
    limit: At most this many queues, the busiest first.
    """

    limit: int | None


class GroupHistoryQuery(QueueHistoryQuery, total=False):
    """Selects a group and a time range.

    queue: Only groups of this queue.
    consumerGroup: Only this group.
    limit: Most groups of the answer, those with the most before them first.
    """

    consumerGroup: str | None


class WorkerQuery(SpanQuery, total=False):
    """Selects workers and a span of time.

    hostname: Only workers of this host.
    workerId: Only workers of this number.
    """

    hostname: str | None
    workerId: int | None


class MessageQuery(PageQuery, SpanQuery, total=False):
    """Selects messages.

    queue: Only messages of this queue.
    partition: Only messages of this partition; needs `queue`.
    ns: Only messages of queues of this namespace.
    task: Only messages of queues of this task.
    status: `pending`, `processing`, `completed` or `dead_letter`.
    transactionId: Only messages with this transaction id.
    text: Only messages whose payload contains this text.
    """

    queue: str | None
    partition: str | None
    ns: str | None
    task: str | None
    status: str | None
    transactionId: str | None
    text: str | None


class DeadLetterFilter(PageQuery, SpanQuery, total=False):
    """Selects dead letters.

    queue: Only dead letters of this queue.
    consumerGroup: Only dead letters of this group.
    partition: Only dead letters of this partition.
    error: Only dead letters whose error begins with this.
    """

    queue: str | None
    consumerGroup: str | None
    partition: str | None
    error: str | None


class DeadLetterErrorQuery(TypedDict, total=False):
    """Selects dead letters to count.

    queue: Only dead letters of this queue.
    consumerGroup: Only dead letters of this group.
    """

    queue: str | None
    consumerGroup: str | None


class OperationQuery(PageQuery, total=False):
    """Selects operations.

    status: `pending`, `processing`, `completed`, `failed` or `discarded`.
    queue: Only operations of this queue.
    """

    status: str | None
    queue: str | None


class PipelineQuery(PageQuery, SpanQuery, total=False):
    """Selects rows of a table.

    run: The id of a run, by default the newest.
    queue: Only rows of this queue.
    consumerGroup: Only rows of this group.
    """

    run: str | None
    queue: str | None
    consumerGroup: str | None


class TokenQuery(PageQuery, total=False):
    """Selects tokens.

    sessions: Whether to list browser sessions as well.
    """

    sessions: bool | None


class AuditQuery(SpanQuery, PageQuery, total=False):
    """Selects administrative actions.

    who: Only those of this subject.
    action: Only those of this name, such as `queue.delete`.
    """

    who: str | None
    action: str | None
