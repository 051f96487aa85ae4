"""Pure: what routes answer of a consumer group."""

from __future__ import annotations

from typing import Any

from queenmq import wire
from queenmq.server.requests.times import iso_or_none


def group_partition(row: Any) -> wire.GroupPartition:
    """Return a group in one partition."""
    return wire.GroupPartition(
        partition=row["partition_name"],
        last_consumed_at=iso_or_none(row["last_consumed_at"]),
        total_consumed=row["total_consumed"],
        offset_lag=row["offset_lag"],
        time_lag_seconds=row["time_lag_seconds"],
        lease_active=row["is_leased"],
    )
