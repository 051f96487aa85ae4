"""Turns counts and rates into answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from queenmq import wire
from queenmq.clock import utc_now
from queenmq.server.requests.times import iso, iso_or_none

#: The counters of a partition and of a queue, by field and by column.
COUNTERS = wire.Counters.__struct_fields__


class ProcessFacts(NamedTuple):
    """The facts of the process that answers."""

    hostname: str
    pid: int
    loop_lag_ms: float
    pool_size: int
    pool_in_use: int
    waiting_calls: int
    messages_pushed: int


def point_of(
    start: datetime, count: int, recorded: Mapping[str, Any], *, seconds: int
) -> wire.ThroughputPoint:
    """Return one step of the throughput, from pushed messages and from the history."""
    return wire.ThroughputPoint(
        timestamp=iso(start),
        ingested=count,
        ingested_per_second=round(count / seconds, 3),
        **recorded,
    )


def counters_of(row: Any) -> wire.Counters:
    """Return the counters of a partition, a queue or everything."""
    return wire.Counters(*(row[name] for name in COUNTERS))


def overview_of(row: Any, *, processed_rate: float) -> wire.Overview:
    """Return the totals."""
    time, offset = (
        wire.LagSpread(*(row[f"{kind}_{name}"] for name in ("avg", "median", "min", "max")))
        for kind in ("time", "offset")
    )
    return wire.Overview(
        queues=row["queues"],
        partitions=row["partitions"],
        namespaces=row["namespaces"],
        tasks=row["tasks"],
        messages=counters_of(row),
        lag=wire.Lag(time, offset),
        throughput=wire.Throughput(round(row["ingested"] / 60, 3), processed_rate),
        timestamp=iso(utc_now()),
        stats_age=0,
    )


def consumption_of(row: Any) -> wire.QueueConsumption:
    """Return a queue with its consumption."""
    return wire.QueueConsumption(
        id=str(row["id"]),
        name=row["name"],
        namespace=row["namespace"],
        task=row["task"],
        partitions=row["partitions"],
        total_consumed=row["total_consumed"],
    )


def summary_of(row: Any) -> wire.QueueSummary:
    """Return a queue of a list."""
    return wire.QueueSummary(
        id=str(row["id"]),
        name=row["name"],
        namespace=row["namespace"],
        task=row["task"],
        created_at=iso(row["created_at"]),
        partitions=row["partitions"],
        messages=wire.MessageCounts(row["total"], row["pending"], row["processing"]),
    )


def sums_of(
    queues: Sequence[Any], requests: wire.KindCounts, efficiency: wire.KindCounts
) -> wire.StatusCounters:
    """Return the sum of the counters of several queues, and how well requests were used."""
    sums = [sum(row[name] for row in queues) for name in COUNTERS]
    return wire.StatusCounters(*[*sums, requests, efficiency])


def worker_of(process: ProcessFacts) -> wire.Worker:
    """Return the process that answers."""
    lag_ms = round(process.loop_lag_ms, 3)
    return wire.Worker(
        hostname=process.hostname,
        worker_id=process.pid,
        avg_event_loop_lag_ms=lag_ms,
        max_event_loop_lag_ms=lag_ms,
        free_slots=process.pool_size - process.pool_in_use,
        db_connections=process.pool_in_use,
        job_queue_size=process.waiting_calls,
        messages_processed=process.messages_pushed,
        pid=process.pid,
    )


def options_of(row: Any) -> wire.QueueWithConfig:
    """Return a queue with its options."""
    return wire.QueueWithConfig(
        id=str(row["id"]),
        name=row["name"],
        namespace=row["namespace"],
        task=row["task"],
        priority=row["priority"],
        created_at=iso(row["created_at"]),
        config=wire.QueueConfig(
            lease_time=row["lease_time"],
            retry_limit=row["retry_limit"],
            retry_delay=row["retry_delay"],
            ttl=row["ttl"],
            max_queue_size=row["max_size"],
            dead_letter_queue=row["dead_letter_queue"],
        ),
    )


def partition_of(row: Any) -> wire.PartitionStatus:
    """Return a partition of a queue."""
    counts = counters_of(row)
    return wire.PartitionStatus(
        id=row["id"],
        name=row["name"],
        created_at=iso(row["created_at"]),
        messages=counts,
        stats=counts,
        cursor=wire.CursorCounts(row["total_consumed"], row["total_batches"]),
        last_activity=iso_or_none(row["last_activity"]),
        oldest_message=iso_or_none(row["oldest_at"]),
        newest_message=iso_or_none(row["newest_at"]),
    )
