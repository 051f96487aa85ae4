"""Counts and rates as they stand in answers. What is not recorded is 0; docs/api.md says what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from queenmq.clock import utc_now
from queenmq.server.requests.times import iso_or_none

#: The counters of a partition and of a queue: the name in the answer, and the column.
COUNTERS = {
    "total": "total",
    "pending": "pending",
    "processing": "processing",
    "completed": "completed",
    "failed": "failed",
    "deadLetter": "dead_letter",
}
#: Measures per step that nothing records.
_UNRECORDED = (
    "processed", "popMessages", "processedPerSecond", "popPerSecond", "avgLagMs", "maxLagMs",
    "avgEventLoopLagMs", "maxEventLoopLagMs", "minFreeSlots", "dbErrors", "ackFailed", "dlqCount",
    "queenCpuUserPct", "queenCpuSysPct", "queenRssMb", "dbPoolActive", "dbPoolIdle", "dbPoolSize",
)  # fmt: skip


class ProcessFacts(NamedTuple):
    """What the process that answers knows of itself."""

    hostname: str
    pid: int
    loop_lag_ms: float
    pool_size: int
    pool_in_use: int
    waiting_calls: int
    messages_pushed: int


def point_of(start: datetime, count: int, *, seconds: int) -> dict[str, Any]:
    """One step of the throughput."""
    return {
        "timestamp": iso_or_none(start),
        "ingested": count,
        "ingestedPerSecond": round(count / seconds, 3),
        **dict.fromkeys(_UNRECORDED, 0),
    }


def counters_of(row: Any) -> dict[str, int]:
    """The counters of a partition, a queue or everything."""
    return {name: row[column] for name, column in COUNTERS.items()}


def overview_of(row: Any, *, processed_rate: float) -> dict[str, Any]:
    """Everything, added up."""
    lag = {
        kind: {name: row[f"{kind}_{name}"] for name in ("avg", "median", "min", "max")}
        for kind in ("time", "offset")
    }
    return {
        "queues": row["queues"],
        "partitions": row["partitions"],
        "namespaces": row["namespaces"],
        "tasks": row["tasks"],
        "messages": counters_of(row),
        "lag": lag,
        "throughput": {
            "ingestedPerSecond": round(row["ingested"] / 60, 3),
            "processedPerSecond": processed_rate,
        },
        "timestamp": iso_or_none(utc_now()),
    }


def _head(row: Any) -> dict[str, Any]:
    return {
        "id": str(row["id"]),
        "name": row["name"],
        "namespace": row["namespace"],
        "task": row["task"],
    }


def consumption_of(row: Any) -> dict[str, Any]:
    """A queue with what was consumed of it."""
    counts = {"partitions": row["partitions"], "totalConsumed": row["total_consumed"]}
    return {**_head(row), **counts}


def queue_of(row: Any) -> dict[str, Any]:
    """A queue in a list."""
    return {
        **_head(row),
        "createdAt": iso_or_none(row["created_at"]),
        "partitions": row["partitions"],
        "messages": {name: row[name] for name in ("total", "pending", "processing")},
    }


def sums_of(queues: Sequence[Any]) -> dict[str, Any]:
    """The counters of several queues, added up."""
    sums = {
        name: sum(row[column] for row in queues) for name, column in COUNTERS.items()
    }  # fmt: skip
    nothing = {"push": 0, "pop": 0, "ack": 0}
    return {**sums, "requests": nothing, "batchEfficiency": nothing}


def worker_of(process: ProcessFacts) -> dict[str, Any]:
    """The process that answers."""
    lag_ms = round(process.loop_lag_ms, 3)
    return {
        "hostname": process.hostname,
        "workerId": process.pid,
        "avgEventLoopLagMs": lag_ms,
        "maxEventLoopLagMs": lag_ms,
        "freeSlots": process.pool_size - process.pool_in_use,
        "dbConnections": process.pool_in_use,
        "jobQueueSize": process.waiting_calls,
        "messagesProcessed": process.messages_pushed,
    }


def options_of(row: Any) -> dict[str, Any]:
    """A queue with its options."""
    return {
        **_head(row),
        "priority": row["priority"],
        "createdAt": iso_or_none(row["created_at"]),
        "config": {
            "leaseTime": row["lease_time"],
            "retryLimit": row["retry_limit"],
            "retryDelay": row["retry_delay"],
            "ttl": row["ttl"],
            "maxQueueSize": row["max_size"],
            "deadLetterQueue": row["dead_letter_queue"],
        },
    }


def partition_of(row: Any) -> dict[str, Any]:
    """A partition of a queue."""
    counts = counters_of(row)
    return {
        "id": row["id"],
        "name": row["name"],
        "createdAt": iso_or_none(row["created_at"]),
        "messages": counts,
        "stats": counts,
        "cursor": {
            "totalConsumed": row["total_consumed"],
            "batchesConsumed": row["total_batches"],
        },
        "lastActivity": iso_or_none(row["last_activity"]),
        "oldestMessage": iso_or_none(row["oldest_at"]),
        "newestMessage": iso_or_none(row["newest_at"]),
    }
