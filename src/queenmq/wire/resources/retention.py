"""The history of retention."""

from __future__ import annotations

from queenmq.wire.shape import Answer, TimeRange


class RetentionTotals(Answer):
    """Removed messages by rule, and the transactions that removed them."""

    retention_msgs: int
    completed_retention_msgs: int
    eviction_msgs: int
    total_msgs: int
    event_count: int
    partitions_removed: int = 0


class RetentionPoint(Answer):
    """The messages removed in one bucket of time."""

    bucket: str
    retention_msgs: int
    completed_retention_msgs: int
    eviction_msgs: int
    total_msgs: int
    event_count: int
    partitions_removed: int = 0


class RetentionHistory(Answer):
    """Removed messages by time and rule, oldest first."""

    time_range: TimeRange
    bucket_minutes: int
    series: list[RetentionPoint]
    totals: RetentionTotals
