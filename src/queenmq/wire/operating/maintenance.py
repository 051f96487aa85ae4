"""Maintenance mode for pushes and for pops."""

from __future__ import annotations

from queenmq.wire.shape import Answer, Number, Request


class SwitchRequest(Request):
    """On or off."""

    enabled: bool


class FailedFiles(
    Answer,
    rename={
        "total_bytes": "totalBytes",
        "total_mb": "totalMB",
        "failover_count": "failoverCount",
        "qos0_count": "qos0Count",
    },
):
    """Push requests that were set aside."""

    count: int
    total_bytes: int
    total_mb: Number
    failover_count: int
    qos0_count: int


class BufferState(Answer):
    """The content of this broker's spool."""

    pending_count: int
    failed_count: int
    db_healthy: bool
    failed_files: FailedFiles


class MaintenanceState(Answer):
    """Both switches, and what the spool of this broker holds."""

    maintenance_mode: bool
    pop_maintenance_mode: bool
    buffered_messages: int
    buffer_healthy: bool
    buffer_stats: BufferState


class MaintenanceSwitched(Answer):
    """The state of push maintenance."""

    maintenance_mode: bool
    buffered_messages: int
    buffer_healthy: bool
    message: str


class BrokerMemory(Answer):
    """This broker's view of shared facts, and how it learns of changes."""

    enabled: bool
    partitions_remembered: int
    maintenance_mode: bool
    pop_maintenance_mode: bool
    is_listening: bool
    database: str | None


class PopMaintenance(Answer):
    """The state of pop maintenance."""

    pop_maintenance_mode: bool
    message: str
