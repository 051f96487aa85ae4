"""Turns rows of the history into answers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from queenmq import wire
from queenmq.server.requests.times import Span, iso

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = Any


def time_range(span: Span) -> wire.TimeRange:
    """Return a span in the form of answers."""
    return wire.TimeRange(iso(span.start), iso(span.end))


def by_bucket(rows: Iterable[Row], minutes: int) -> dict[datetime, list[Row]]:
    """Group rows into steps of this many minutes."""
    step = timedelta(minutes=minutes)
    buckets: dict[datetime, list[Row]] = {}
    for row in rows:
        start = _EPOCH + (row["at"] - _EPOCH) // step * step
        buckets.setdefault(start, []).append(row)
    return buckets


def total(rows: Iterable[Row], column: str) -> int:
    """Return the sum of a column."""
    return sum(row[column] for row in rows)


def _mean(rows: Sequence[Row], column: str) -> float:
    return round(sum(row[column] for row in rows) / len(rows), 3) if rows else 0.0


def _most(rows: Sequence[Row], column: str) -> float:
    return round(max((row[column] for row in rows), default=0.0), 3)


def lag_of(rows: Sequence[Row]) -> dict[str, Any]:
    """Return how long delivered messages had waited."""
    count = total(rows, "lag_count")
    average = sum(row["lag_ms"] for row in rows) / count if count else 0.0
    return {"avg_lag_ms": round(average, 3), "max_lag_ms": _most(rows, "lag_ms_max")}


def per_second(count: float, minutes: int) -> float:
    """Return a count over this many minutes as a rate."""
    return round(count / (60 * minutes), 3)


def queue_point(row: Row, minutes: int) -> wire.QueueOpsPoint:
    """Return one queue in one step."""
    return wire.QueueOpsPoint(
        bucket=iso(row["at"]),
        queue_name=row["queue"],
        push_requests=row["push_requests"],
        push_messages=row["push_messages"],
        push_bytes=row["push_bytes"],
        duplicates=row["duplicates"],
        pop_messages=row["pop_messages"],
        pop_empty=row["pop_empty"],
        ack_requests=row["ack_requests"],
        ack_success=row["ack_success"],
        ack_failed=row["ack_failed"],
        retried=row["retried"],
        dlq_count=row["dead_lettered"],
        transactions=row["transactions"],
        partitions_deleted=row["partitions_deleted"],
        **lag_of([row]),
        push_per_second=per_second(row["push_messages"], minutes),
        pop_per_second=per_second(row["pop_messages"], minutes),
        ack_per_second=per_second(row["ack_success"], minutes),
        empty_per_second=per_second(row["pop_empty"], minutes),
        parked_count=row["parked"],
    )


def lag_point(row: Row) -> wire.QueueLagPoint:
    """Return the lag of one queue in one step."""
    return wire.QueueLagPoint(
        queue_name=row["queue"],
        pop_count=row["pop_messages"],
        **lag_of([row]),
        bucket_time=iso(row["at"]),
    )


def group_lag_point(row: Row) -> wire.GroupLagPoint:
    """Return how far one group was behind in one step."""
    return wire.GroupLagPoint(
        bucket=iso(row["at"]),
        queue_name=row["queue"],
        consumer_group=row["consumer_group"],
        kind=row["kind"],
        lag=row["lag"],
        max_lag=row["lag_max"],
        max_time_lag=round(row["lag_seconds"], 3),
    )


def worker_point(start: datetime, rows: Sequence[Row], minutes: int) -> wire.WorkerPoint:
    """Return all workers in one step."""
    free = [row["pool_size"] - row["pool_active"] for row in rows]
    acked = total(rows, "ack_success") + total(rows, "ack_failed")
    return wire.WorkerPoint(
        timestamp=iso(start),
        push_messages=total(rows, "push_messages"),
        pop_messages=total(rows, "pop_messages"),
        ack_messages=acked,
        push_requests=total(rows, "push_requests"),
        pop_requests=total(rows, "pop_requests"),
        ack_requests=total(rows, "ack_requests"),
        jobs_done=total(rows, "http_requests"),
        push_per_second=per_second(total(rows, "push_messages"), minutes),
        pop_per_second=per_second(total(rows, "pop_messages"), minutes),
        ack_per_second=per_second(acked, minutes),
        avg_event_loop_lag_ms=_mean(rows, "loop_lag_ms"),
        max_event_loop_lag_ms=_most(rows, "loop_lag_ms_max"),
        avg_free_slots=round(sum(free) / len(free), 3) if free else 0.0,
        min_free_slots=round(min(free, default=0.0), 3),
        db_connections=_mean(rows, "pool_size"),
        avg_job_queue_size=_mean(rows, "pool_waiting"),
        max_job_queue_size=_most(rows, "pool_waiting"),
        backoff_size=total(rows, "parked"),
        **lag_of(rows),
        lag_count=total(rows, "lag_count"),
        db_errors=total(rows, "db_errors"),
        ack_success=total(rows, "ack_success"),
        ack_failed=total(rows, "ack_failed"),
        dlq_count=total(rows, "dead_lettered"),
    )


def worker_summary(rows: Sequence[Row], pending: int) -> wire.WorkerTotals:
    """Return the totals of the whole span."""
    return wire.WorkerTotals(
        total_push_messages=total(rows, "push_messages"),
        total_pop_messages=total(rows, "pop_messages"),
        total_ack_messages=total(rows, "ack_success") + total(rows, "ack_failed"),
        total_push_requests=total(rows, "push_requests"),
        total_pop_requests=total(rows, "pop_requests"),
        total_ack_requests=total(rows, "ack_requests"),
        total_ack_success=total(rows, "ack_success"),
        total_ack_failed=total(rows, "ack_failed"),
        total_dlq=total(rows, "dead_lettered"),
        total_db_errors=total(rows, "db_errors"),
        pending_messages=pending,
    )


def workers_of(rows: Sequence[Row]) -> list[wire.Worker]:
    """Return the last state of each worker in a span."""
    newest: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        newest.setdefault((row["hostname"], row["worker_id"], row["pid"]), []).append(row)
    return [
        wire.Worker(
            hostname=hostname,
            worker_id=worker_id,
            pid=pid,
            avg_event_loop_lag_ms=_mean(mine, "loop_lag_ms"),
            max_event_loop_lag_ms=_most(mine, "loop_lag_ms_max"),
            free_slots=round(mine[-1]["pool_size"] - mine[-1]["pool_active"], 3),
            db_connections=mine[-1]["pool_size"],
            job_queue_size=mine[-1]["pool_waiting"],
            messages_processed=total(mine, "push_messages") + total(mine, "pop_messages"),
            last_seen=iso(mine[-1]["at"]),
        )
        for (hostname, worker_id, pid), mine in newest.items()
    ]


def replicas_of(rows: Sequence[Row], minutes: int) -> list[wire.ReplicaGauges]:
    """Return the gauges of each worker, step by step."""
    workers: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        workers.setdefault((row["hostname"], row["port"], row["worker_id"]), []).append(row)
    return [
        wire.ReplicaGauges(
            *worker,
            [
                wire.GaugePoint(iso(start), len(samples), _gauges(samples))
                for start, samples in by_bucket(mine, minutes).items()
            ],
        )
        for worker, mine in workers.items()
    ]


def _gauges(rows: Sequence[Row]) -> wire.WorkerGauges:
    def gauge(column: str, factor: int = 1) -> wire.Gauge:
        return _gauge([row[column] * factor for row in rows])

    return wire.WorkerGauges(
        # Hundredths of a percent.
        cpu=wire.CpuGauges(gauge("cpu_user", 100), gauge("cpu_system", 100)),
        memory=wire.MemoryGauges(gauge("rss_bytes"), gauge("virtual_bytes")),
        database=wire.PoolGauges(gauge("pool_size"), gauge("pool_idle"), gauge("pool_active")),
        # There is one queue for all calls, and no thread pool for the system alone.
        threadpool=wire.CallQueues(
            wire.CallQueue(gauge("pool_waiting")), wire.CallQueue(_gauge([0]))
        ),
        registries=wire.WaitingGauges(gauge("parked")),
        shared_state=wire.SharedState(),
    )


def _gauge(values: Sequence[float]) -> wire.Gauge:
    figures = (sum(values) / len(values), min(values), max(values), values[-1])
    return wire.Gauge(*(round(figure, 3) for figure in figures))


def status_columns(rows: Sequence[Row], minutes: int) -> dict[str, Any]:
    """Return the part of a /api/v1/status step that comes from the history of workers."""
    processed, popped = total(rows, "ack_success"), total(rows, "pop_messages")
    free = [row["pool_size"] - row["pool_active"] for row in rows]
    return {
        "processed": processed,
        "pop_messages": popped,
        "processed_per_second": per_second(processed, minutes),
        "pop_per_second": per_second(popped, minutes),
        **lag_of(rows),
        "avg_event_loop_lag_ms": _mean(rows, "loop_lag_ms"),
        "max_event_loop_lag_ms": _most(rows, "loop_lag_ms_max"),
        "min_free_slots": round(min(free, default=0.0), 3),
        "db_errors": total(rows, "db_errors"),
        "ack_failed": total(rows, "ack_failed"),
        "dlq_count": total(rows, "dead_lettered"),
        "queen_cpu_user_pct": _mean(rows, "cpu_user"),
        "queen_cpu_sys_pct": _mean(rows, "cpu_system"),
        "queen_rss_mb": round(_mean(rows, "rss_bytes") / 2**20, 3),
        "db_pool_active": _mean(rows, "pool_active"),
        "db_pool_idle": _mean(rows, "pool_idle"),
        "db_pool_size": _mean(rows, "pool_size"),
    }


def queue_columns(rows: Sequence[Row], minutes: int) -> dict[str, Any]:
    """Return the part of a /api/v1/status step that comes from the history of its queues."""
    processed, popped = total(rows, "ack_success"), total(rows, "pop_messages")
    return {
        "processed": processed,
        "pop_messages": popped,
        "processed_per_second": per_second(processed, minutes),
        "pop_per_second": per_second(popped, minutes),
        **lag_of(rows),
        "ack_failed": total(rows, "ack_failed"),
        "dlq_count": total(rows, "dead_lettered"),
    }


def requests_of(rows: Sequence[Row]) -> wire.KindCounts:
    """Return the requests of a span."""
    return wire.KindCounts(*(total(rows, f"{kind}_requests") for kind in ("push", "pop", "ack")))


def efficiency_of(rows: Sequence[Row]) -> wire.KindCounts:
    """Return messages per request of a span."""
    requests = requests_of(rows)
    acked = total(rows, "ack_success") + total(rows, "ack_failed")
    return wire.KindCounts(
        _share(total(rows, "push_messages"), requests.push),
        _share(total(rows, "pop_messages"), requests.pop),
        _share(acked, requests.ack),
    )


def _share(messages: int, requests: float) -> float:
    return round(messages / requests, 3) if requests else 0
