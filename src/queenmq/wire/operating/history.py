"""The history of brokers by minute or hour, by queue and by worker. What is not recorded is 0."""

from __future__ import annotations

from queenmq.wire.operating.health import SharedState
from queenmq.wire.operating.status import Worker
from queenmq.wire.shape import Answer, Number, TimeRange


class QueueOpsPoint(Answer, kw_only=True):
    """The work on one queue in one step."""

    bucket: str
    queue_name: str
    push_requests: int
    push_messages: int
    push_bytes: int
    duplicates: int
    pop_messages: int
    pop_empty: int
    ack_requests: int
    ack_success: int
    ack_failed: int
    retried: int
    dlq_count: int
    transactions: int
    #: Not recorded: partitions are made outside of what a broker counts.
    partitions_created: int = 0
    #: Idle ones that were removed.
    partitions_deleted: int = 0
    partition_count: int = 0
    avg_lag_ms: Number
    max_lag_ms: Number
    push_per_second: Number
    pop_per_second: Number
    ack_per_second: Number
    empty_per_second: Number
    parked_count: int


class QueueOps(Answer):
    """The work by step and queue."""

    time_range: TimeRange
    bucket_minutes: int
    series: list[QueueOpsPoint]
    queues: list[str]


class QueueLagPoint(Answer, kw_only=True):
    """The wait of messages delivered from one queue in one step."""

    queue_name: str
    pop_count: int
    avg_lag_ms: Number
    max_lag_ms: Number
    bucket_time: str


class GroupLagPoint(Answer, kw_only=True):
    """The lag of a group on one queue in one step."""

    bucket: str
    queue_name: str
    consumer_group: str
    kind: str
    #: Messages before the group: on average, and the most at the end of any minute.
    lag: int
    max_lag: int
    #: The highest age of the oldest of them, in seconds.
    max_time_lag: Number


class GroupLag(Answer):
    """The lag of groups by step, group by group."""

    time_range: TimeRange
    bucket_minutes: int
    series: list[GroupLagPoint]


class ParkedPoint(Answer):
    """Pops that waited at one worker for one queue when a minute ended."""

    bucket: str
    queue_name: str
    hostname: str
    worker_id: int
    parked_count: int


class Replica(Answer):
    """A worker."""

    hostname: str
    worker_id: int


class ParkedPops(Answer):
    """Waiting pops by minute, queue and worker."""

    time_range: TimeRange
    series: list[ParkedPoint]
    replicas: list[Replica]


class Gauge(Answer):
    """The values of a gauge in one step."""

    avg: Number
    min: Number
    max: Number
    last: Number


class CpuGauges(Answer, rename=None):
    """Processor time in hundredths of a percent of one core."""

    user_us: Gauge
    system_us: Gauge


class MemoryGauges(Answer, rename=None):
    """Memory in bytes."""

    rss_bytes: Gauge
    virtual_bytes: Gauge


class PoolGauges(Answer, rename=None):
    """Connections to the database."""

    pool_size: Gauge
    pool_idle: Gauge
    pool_active: Gauge


class CallQueue(Answer, rename=None):
    """Calls that wait for a connection."""

    queue_size: Gauge


class CallQueues(Answer, rename=None):
    """One queue has all calls. The other belongs to a runtime that Queen does not have."""

    db: CallQueue
    system: CallQueue


class WaitingGauges(Answer, rename=None):
    """Pops that wait."""

    poll_intention: Gauge


class WorkerGauges(Answer, rename=None):
    """All gauges of a worker."""

    cpu: CpuGauges
    memory: MemoryGauges
    database: PoolGauges
    threadpool: CallQueues
    registries: WaitingGauges
    shared_state: SharedState


class GaugePoint(Answer):
    """The gauges of a worker in one step."""

    timestamp: str
    sample_count: int
    metrics: WorkerGauges


class ReplicaGauges(Answer):
    """A worker and its gauges."""

    hostname: str
    port: int
    worker_id: int
    time_series: list[GaugePoint]


class SystemMetrics(Answer):
    """The gauges of each worker, step by step."""

    time_range: TimeRange
    replicas: list[ReplicaGauges]
    replica_count: int
    bucket_minutes: int
    point_count: int


class WorkerPoint(Answer, kw_only=True):
    """All workers in one step."""

    timestamp: str
    push_messages: int
    pop_messages: int
    ack_messages: int
    push_requests: int
    pop_requests: int
    ack_requests: int
    jobs_done: int
    push_per_second: Number
    pop_per_second: Number
    ack_per_second: Number
    avg_event_loop_lag_ms: Number
    max_event_loop_lag_ms: Number
    avg_free_slots: Number
    min_free_slots: Number
    db_connections: Number
    avg_job_queue_size: Number
    max_job_queue_size: Number
    backoff_size: int
    avg_lag_ms: Number
    max_lag_ms: Number
    lag_count: int
    db_errors: int
    ack_success: int
    ack_failed: int
    dlq_count: int


class QueueShare(Answer, kw_only=True):
    """The deliveries from one queue in a span."""

    queue_name: str
    pop_count: int
    avg_lag_ms: Number
    max_lag_ms: Number


class WorkerTotals(Answer, kw_only=True):
    """The work of all workers in a span. `pending_messages` is of now."""

    total_push_messages: int
    total_pop_messages: int
    total_ack_messages: int
    total_push_requests: int
    total_pop_requests: int
    total_ack_requests: int
    total_ack_success: int
    total_ack_failed: int
    total_dlq: int
    total_db_errors: int
    pending_messages: int


class WorkerMetrics(Answer):
    """All workers, step by step and added up, and the queues that they served."""

    time_range: TimeRange
    bucket_minutes: int
    point_count: int
    time_series: list[WorkerPoint]
    workers: list[Worker]
    queues: list[QueueShare]
    summary: WorkerTotals
