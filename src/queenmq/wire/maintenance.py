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
    """What the spool of this broker holds."""

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
    """Whether pushes are held back now."""

    maintenance_mode: bool
    buffered_messages: int
    buffer_healthy: bool
    message: str


class BrokerMemory(Answer):
    """What this broker remembers of what all brokers share, and how it hears of changes."""

    enabled: bool
    partitions_remembered: int
    maintenance_mode: bool
    pop_maintenance_mode: bool
    is_listening: bool
    database: str | None


class PopMaintenance(Answer):
    """Whether pops are paused."""

    pop_maintenance_mode: bool
    message: str
