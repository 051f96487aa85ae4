"""GET /api/v1/why and /api/v1/why/{queue}: what is wrong, and why a queue does not move."""

from __future__ import annotations

from queenmq.wire.shape import Answer


class Finding(Answer):
    """One reason, what to do about it, and where it holds."""

    code: str
    message: str
    action: str
    partitions: list[str]


class PartitionsByState(Answer):
    """Partitions by what a group has to wait for."""

    all: int
    behind: int
    ready: int
    leased: int
    waiting: int
    blocked: int


class StuckPartition(Answer):
    """A partition in which a group is behind."""

    partition: str
    partition_id: str
    state: str
    backlog: int
    next_transaction_id: str | None
    oldest_message: str | None
    lease_id: str | None
    lease_expires_at: str | None
    leased_messages: int | None
    retry_count: int
    retry_at: str | None
    last_error: str | None
    expired_leases: int
    blocked_transaction_id: str | None
    last_consumed_at: str | None


class WaitingOperations(Answer):
    """Accepted pushes of the queue that are not stored yet."""

    pending: int
    processing: int
    failed: int


class BrokerState(Answer):
    """Facts of the process that answers."""

    waiting_pops: int
    buffered_pushes: int
    maintenance_mode: bool
    pop_maintenance_mode: bool


class Diagnosis(Answer):
    """The reasons why a queue, or one partition, does not move for a group. Act on the first."""

    queue: str
    partition: str | None
    consumer_group: str
    summary: str
    findings: list[Finding]
    backlog: int
    oldest_message: str | None
    partition_counts: PartitionsByState
    partitions: list[StuckPartition]
    operations: WaitingOperations
    broker: BrokerState
    groups: list[str]
    timestamp: str


class Trouble(Answer):
    """One thing that is wrong now: why, what to do about it, and where."""

    code: str
    #: `error`, `warning` or `info`.
    severity: str
    message: str
    action: str
    queue: str | None = None
    consumer_group: str | None = None


class OverallDiagnosis(Answer):
    """Current problems on all queues."""

    summary: str
    is_well: bool
    #: False when the database could not be asked.
    is_complete: bool
    troubles: list[Trouble]
    timestamp: str
