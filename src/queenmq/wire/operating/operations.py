"""Operations: pushes that were accepted and are not stored yet."""

from __future__ import annotations

from typing import Any

import msgspec

from queenmq.wire.shape import Answer, Number, Pagination


class OperationCounts(
    Answer, rename={"item_count": "items", "oldest_age_seconds": "oldestAgeSeconds"}
):
    """Operations of one status."""

    operations: int
    item_count: int
    bytes: int
    oldest_age_seconds: Number | None


class AsideCounts(Answer):
    """The pushes that this broker has set aside."""

    records: int
    bytes: int


class OperationStats(Answer, kw_only=True):
    """The number and age of waiting operations, and their drain rate."""

    depth: int
    oldest_age_seconds: Number | None
    drain_rate: Number | None
    #: Recent average time from accepting an operation to storing it. None before the first.
    latency_seconds: Number | None = msgspec.field(default=None, name="latency_seconds")
    pressure: Number
    #: `healthy`, `degraded` or `critical`.
    system_health: str = "healthy"
    aside: AsideCounts
    by_status: dict[str, OperationCounts]


class Operation(Answer):
    """One operation. `result` has an element per item once it is completed."""

    id: str
    type: str
    queue: str
    partition: str
    seq: int
    priority: int
    item_count: int
    size: int
    reason: str | None
    status: str
    is_blocking: bool
    created_at: str
    processing_started_at: str | None
    processed_at: str | None
    claimed_by: str | None
    timeout_seconds: int
    retry_count: int
    max_retries: int
    error: str | None
    last_error_at: str | None
    result: Any
    #: From accepting it to its end, or until now.
    latency_seconds: Number | None = msgspec.field(default=None, name="latency_seconds")


class OperationList(Answer):
    """A page of operations, newest first."""

    operations: list[Operation]
    total: int
    pagination: Pagination


class OperationDecided(Answer):
    """An operation that is retried, or was dropped."""

    id: str
    status: str


class AsideRecord(Answer):
    """A push that this broker accepted and could not store."""

    id: str
    queues: list[str]
    partitions: list[str]
    item_count: int | None
    size: int
    reason: str
    set_aside_at: str | None
    is_readable: bool
    file: str | None


class AsideList(Answer):
    """A page of set-aside pushes, oldest first."""

    records: list[AsideRecord]
    total: int
    bytes: int
    pagination: Pagination


class OperationsRetried(Answer):
    """The number of pushes retried, the number that cannot be, and why the rest did not fit."""

    operations: int
    retried: int
    unreadable: int
    remaining: int
    error: str | None
