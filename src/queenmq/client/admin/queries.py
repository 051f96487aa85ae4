"""Owns the query parameters of `queen.admin` and `queen.pipeline`, as keyword arguments.

Names are those of the wire. `from` is a word of Python, so it is `from_` here.
"""

from __future__ import annotations

from typing import TypedDict


class PageQuery(TypedDict, total=False):
    """Which part of a list.

    limit: Most elements of the answer.
    offset: How many to leave out first.
    """

    limit: int | None
    offset: int | None


class SpanQuery(TypedDict, total=False):
    """Which span of time, in ISO 8601.

    from_: Its start.
    to: Its end, by default now.
    """

    from_: str | None
    to: str | None


class QueueQuery(PageQuery, total=False):
    """Which queues.

    search: A part of their names, in any case.
    """

    search: str | None


class PartitionQuery(PageQuery, total=False):
    """Which partitions.

    queue: Only partitions of this queue.
    """

    queue: str | None


class QueuePartitionQuery(PageQuery, total=False):
    """Which partitions of a queue, and in which order.

    search: A part of their names.
    sort: `name`, `depth` (most messages first) or `newest` (last pushed to first).
    blocked: Only partitions in which a group is blocked.
    """

    search: str | None
    sort: str | None
    blocked: bool | None


class SeekQuery(TypedDict, total=False):
    """The target of a seek.

    toEnd: Behind the newest message.
    timestamp: Behind the last message of this time, in ISO 8601.
    partition: Only this partition.
    seq: The message that would come next; needs `partition`.
    """

    toEnd: bool | None
    timestamp: str | None
    partition: str | None
    seq: int | None


class ScopeQuery(PageQuery, total=False):
    """Queues of which namespace and task.

    namespace: Only queues of this namespace.
    task: Only queues of this task.
    """

    namespace: str | None
    task: str | None


class StatusQuery(SpanQuery, total=False):
    """Queues to count, and when.

    queue: Only this queue.
    namespace: Only queues of this namespace.
    task: Only queues of this task.
    """

    queue: str | None
    namespace: str | None
    task: str | None


class AnalyticsQuery(StatusQuery, total=False):
    """Queues to count, when, and how finely.

    interval: `minute`, `hour` or `day`.
    """

    interval: str | None


class ParkedQuery(SpanQuery, total=False):
    """Waiting pops of which queue, and when.

    queue: Only pops of this queue.
    """

    queue: str | None


class QueueHistoryQuery(ParkedQuery, total=False):
    """Whose history, and when.

    queue: Only this queue.
    limit: Most queues of the answer, the busiest first.
    """

    limit: int | None


class WorkerQuery(SpanQuery, total=False):
    """Which workers, and when.

    hostname: Only workers of this host.
    workerId: Only workers of this number.
    """

    hostname: str | None
    workerId: int | None


class MessageQuery(PageQuery, SpanQuery, total=False):
    """Which messages.

    queue: Only messages of this queue.
    partition: Only messages of this partition; needs `queue`.
    ns: Only messages of queues of this namespace.
    task: Only messages of queues of this task.
    status: `pending`, `processing`, `completed` or `dead_letter`.
    transactionId: Only messages of this name.
    text: Only messages whose payload holds this text.
    """

    queue: str | None
    partition: str | None
    ns: str | None
    task: str | None
    status: str | None
    transactionId: str | None
    text: str | None


class DeadLetterFilter(PageQuery, SpanQuery, total=False):
    """Which dead letters.

    queue: Only letters of this queue.
    consumerGroup: Only letters of this group.
    partition: Only letters of this partition.
    error: Only letters whose error begins with this.
    """

    queue: str | None
    consumerGroup: str | None
    partition: str | None
    error: str | None


class DeadLetterErrorQuery(TypedDict, total=False):
    """Whose dead letters.

    queue: Only letters of this queue.
    consumerGroup: Only letters of this group.
    """

    queue: str | None
    consumerGroup: str | None


class OperationQuery(PageQuery, total=False):
    """Which operations.

    status: `pending`, `processing`, `completed`, `failed` or `discarded`.
    queue: Only operations of this queue.
    """

    status: str | None
    queue: str | None


class PipelineQuery(PageQuery, SpanQuery, total=False):
    """Which rows of a table.

    run: The id of a run, by default the newest.
    queue: Only rows of this queue.
    consumerGroup: Only rows of this group.
    """

    run: str | None
    queue: str | None
    consumerGroup: str | None


class TokenQuery(PageQuery, total=False):
    """Which tokens.

    sessions: Whether logins of people are listed as well.
    """

    sessions: bool | None


class AuditQuery(SpanQuery, PageQuery, total=False):
    """Which administrative actions.

    who: Only those of this subject.
    action: Only those of this name, as `queue.delete`.
    """

    who: str | None
    action: str | None
