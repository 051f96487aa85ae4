"""Counts and rates for dashboards."""

from __future__ import annotations

from queenmq.wire.resources.queues import Counters, QueueSummary
from queenmq.wire.shape import Answer, Number, Pagination, TimeRange


class LagSpread(Answer):
    """The lag of groups, over the partitions in which one is behind."""

    avg: Number
    median: Number
    min: Number
    max: Number


class Lag(Answer):
    """Lags in seconds and in messages."""

    time: LagSpread
    offset: LagSpread


class Throughput(Answer):
    """Messages per second."""

    ingested_per_second: Number
    processed_per_second: Number


class Overview(Answer):
    """Everything, added up. `stats_age` is its age in seconds."""

    queues: int
    partitions: int
    namespaces: int
    tasks: int
    messages: Counters
    lag: Lag
    throughput: Throughput
    timestamp: str
    stats_age: Number


class OverviewRefresh(Answer):
    """The duration of a refresh of the overview."""

    refreshed: bool
    duration_ms: Number


class StatsRefreshed(Answer):
    """The overview was computed again."""

    success: bool
    overview: OverviewRefresh


class ThroughputPoint(Answer, kw_only=True):
    """One step of the throughput. Values that the history lacks are 0."""

    timestamp: str
    ingested: int
    ingested_per_second: Number
    processed: int = 0
    pop_messages: int = 0
    processed_per_second: Number = 0
    pop_per_second: Number = 0
    avg_lag_ms: Number = 0
    max_lag_ms: Number = 0
    avg_event_loop_lag_ms: Number = 0
    max_event_loop_lag_ms: Number = 0
    min_free_slots: Number = 0
    db_errors: int = 0
    ack_failed: int = 0
    dlq_count: int = 0
    queen_cpu_user_pct: Number = 0
    queen_cpu_sys_pct: Number = 0
    queen_rss_mb: Number = 0
    db_pool_active: Number = 0
    db_pool_idle: Number = 0
    db_pool_size: Number = 0


class QueueConsumption(Answer):
    """A queue with its consumed messages."""

    id: str
    name: str
    namespace: str | None
    task: str | None
    partitions: int
    total_consumed: int


class KindCounts(Answer):
    """A number for each kind of request."""

    push: Number = 0
    pop: Number = 0
    ack: Number = 0


class StatusCounters(Counters):
    """Messages by state, over the queues of an answer, and messages per request."""

    requests: KindCounts
    batch_efficiency: KindCounts


class LeaseCounts(Answer):
    """Leases that are live now, and acks of the span."""

    active: int
    partitions_with_leases: int
    total_batch_size: int
    total_acked: int


class ErrorCount(Answer):
    """The number of dead letters with an error."""

    error: str | None
    count: int


class DeadLetterCounts(Answer):
    """Dead letters, and their most frequent errors."""

    total_messages: int
    affected_partitions: int
    top_errors: list[ErrorCount]


class Worker(Answer):
    """A worker as it was last, or the process that answers while the history has none."""

    hostname: str
    worker_id: int
    avg_event_loop_lag_ms: Number
    max_event_loop_lag_ms: Number
    free_slots: Number
    db_connections: Number
    job_queue_size: Number
    messages_processed: int
    pid: int | None = None
    last_seen: str | None = None


class ErrorCounts(Answer):
    """Errors of the span, and all dead letters."""

    db_errors: int
    ack_failed: int
    dlq_messages: int


class Status(Answer):
    """Throughput in steps, newest first, and the state of the queues of a scope."""

    time_range: TimeRange
    bucket_minutes: int
    point_count: int
    throughput: list[ThroughputPoint]
    is_cut: bool
    queues: list[QueueConsumption]
    messages: StatusCounters
    leases: LeaseCounts
    dead_letter_queue: DeadLetterCounts
    workers: list[Worker]
    errors: ErrorCounts
    stats_age: Number


class DataPoint(Answer):
    """Messages pushed in one interval."""

    timestamp: str
    messages: int


class Analytics(
    Answer, rename={"data_points": "dataPoints", "start": "from", "end": "to", "is_cut": "isCut"}
):
    """Messages pushed in each minute, hour or day, oldest first."""

    data_points: list[DataPoint]
    interval: str
    start: str
    end: str
    is_cut: bool


class QueueStatsList(Answer):
    """A page of queues, newest first."""

    queues: list[QueueSummary]
    pagination: Pagination


class QueueConfig(Answer):
    """The most important options of a queue."""

    lease_time: int
    retry_limit: int
    retry_delay: int
    ttl: int
    max_queue_size: int
    dead_letter_queue: bool


class QueueWithConfig(Answer):
    """A queue with its options."""

    id: str
    name: str
    namespace: str | None
    task: str | None
    priority: int
    created_at: str
    config: QueueConfig


class CursorCounts(Answer):
    """The consumption of all groups together."""

    total_consumed: int
    batches_consumed: int


class PartitionStatus(Answer):
    """A partition of a queue. Each count has two names."""

    id: str
    name: str
    created_at: str
    messages: Counters
    stats: Counters
    cursor: CursorCounts
    last_activity: str | None
    oldest_message: str | None
    newest_message: str | None


class QueueTotals(Answer, kw_only=True):
    """The counts of all partitions, nested and flat."""

    messages: Counters
    total: int
    pending: int
    processing: int
    completed: int
    failed: int
    dead_letter: int
    partitions: int


class QueueStatus(Answer):
    """One queue with a page of its partitions, and the counts of all."""

    queue: QueueWithConfig
    partitions: list[PartitionStatus]
    totals: QueueTotals
    pagination: Pagination


class Buffers(Answer):
    """The pushes on the disk of the broker that answers."""

    pending: int
    failed: int
    db_healthy: bool
    worker: str
