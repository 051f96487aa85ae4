"""Turns rows of the database into families of series. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from queenmq.metrics.text import MetricFamily, Sample, gauge
from queenmq.storage.stores.observation.metrics import PostgresFacts

#: The label of all queues that are not told apart. A queue of that name has one more underscore.
OTHERS = "_other"
_LIKE_OTHERS = re.compile("_+other")
#: Totals of all brokers, by their names in the database.
CLUSTER = {
    "push_requests": "Push requests.",
    "push_messages": "Messages pushed.",
    "pop_requests": "Pop requests.",
    "pop_messages": "Messages delivered.",
    "ack_requests": "Ack requests.",
    "ack_messages": "Messages acked.",
    "transactions": "Transactions by queue that they push to.",
    "dlq": "Messages that acks have made dead letters.",
    "db_errors": "Requests that failed because of the database.",
    "leases_expired": "Leases that ran out, counted when their partition is taken over.",
}
_ACK_RESULTS = {"success": "ack_success", "failed": "ack_failed"}
_QUEUE_GAUGES = {
    "queen_queue_depth": ("depth", "Messages that not every group has passed."),
    "queen_queue_stored_messages": ("stored", "Messages that are kept."),
    "queen_queue_partitions": ("partitions", "Partitions."),
    "queen_queue_leased_partitions": ("leased", "Live leases, by partition and group."),
    "queen_queue_expired_leases": ("expired", "Leases that ran out and were not taken over yet."),
    "queen_queue_blocked_partitions": ("blocked", "Partitions that a poison message stops."),
    "queen_dlq_depth_by_queue": ("dead_letters", "Dead letters."),
}
_PER_MINUTE = {
    "push_requests": "Push requests in the last minute.",
    "push_messages": "Messages pushed in the last minute.",
    "pop_requests": "Pop requests in the last minute.",
    "pop_messages": "Messages delivered in the last minute.",
    "pop_empty": "Pops without messages in the last minute.",
    "ack_requests": "Ack requests in the last minute.",
    "ack_success": "Messages acked in the last minute.",
    "ack_failed": "Messages acked as failed in the last minute.",
    "transactions": "Transactions in the last minute.",
}
_TABLE_GAUGES = {
    "queen_postgres_table_live_rows": ("liveRows", "Live rows of a table."),
    "queen_postgres_table_dead_rows": ("deadRows", "Dead rows of a table."),
    "queen_postgres_table_bytes": ("tableBytes", "Size of a table without its indexes."),
    "queen_postgres_index_bytes": ("indexBytes", "Size of a table's indexes."),
    "queen_postgres_table_xid_age": ("xidAge", "Age of a table's oldest transaction id."),
}
_SERVER = {
    "queen_postgres_database_bytes": ("database_bytes", "Size of the database."),
    "queen_postgres_connections": ("connections", "Connections to the database."),
    "queen_postgres_max_connections": ("max_connections", "Connections the server allows."),
    "queen_postgres_vacuums_running": ("vacuums", "Vacuums at work."),
    "queen_postgres_idle_transaction_seconds": (
        "idle_transaction_seconds", "Age of the oldest transaction that does nothing.",
    ),
}  # fmt: skip
_SERVER_COUNTERS = {
    "queen_postgres_deadlocks": ("deadlocks", "Deadlocks."),
    "queen_postgres_commits": ("xact_commit", "Transactions committed."),
    "queen_postgres_rollbacks": ("xact_rollback", "Transactions rolled back."),
}

Row = Any


def cluster_families(totals: Mapping[str, int]) -> Iterable[MetricFamily]:
    """Return the counts of all brokers, up to their last minute."""
    scope = {"scope": "cluster"}
    for name, text in CLUSTER.items():
        yield MetricFamily(
            f"queen_cluster_{name}", text, "counter", [Sample("", scope, totals.get(name, 0))]
        )
    results = [
        Sample("", {**scope, "result": result}, totals.get(name, 0))
        for result, name in _ACK_RESULTS.items()
    ]
    yield MetricFamily("queen_cluster_ack", "Messages acked, by result.", "counter", results)


def queue_families(rows: Sequence[Row]) -> Iterable[MetricFamily]:
    """Return the series of the queues with the most to do, and of all others as one."""
    for name, (column, text) in _QUEUE_GAUGES.items():
        yield _by_queue(name, text, rows, column)
    dead = sum(row["dead_letters"] or 0 for row in rows)
    yield gauge("queen_dlq_depth", "Dead letters of all queues.", dead)


def group_families(rows: Sequence[Row]) -> Iterable[MetricFamily]:
    """Return the lag of groups."""
    for name, column, text in (
        ("queen_group_lag_messages", "messages", "Messages after the group's position."),
        ("queen_group_lag_seconds", "seconds", "Age of the oldest of them."),
    ):
        samples = [
            Sample("", {"queue": _name(row["queue"]), "group": _name(row["group"])}, row[column])
            for row in rows
        ]
        yield MetricFamily(name, text, "gauge", samples)
    oldest: dict[str, float] = {}
    for row in rows:
        queue = _name(row["queue"])
        oldest[queue] = max(oldest.get(queue, 0.0), row["seconds"])
    yield MetricFamily(
        "queen_queue_oldest_seconds",
        "Age of the oldest message that some group has not passed.",
        "gauge",
        [Sample("", {"queue": queue}, age) for queue, age in oldest.items()],
    )


def minute_families(rows: Sequence[Row]) -> Iterable[MetricFamily]:
    """Return the busiest queues of the last whole minute, of all brokers."""
    for column, text in _PER_MINUTE.items():
        yield _by_queue(f"queen_queue_{column}_per_minute", text, rows, column)
    yield _by_queue("queen_queue_parked_consumers", "Pops that wait.", rows, "parked")
    lags = []
    for row in rows:
        if row["lag_count"]:
            average = row["lag_ms"] / row["lag_count"]
            for stat, value in (("avg", average), ("max", row["lag_ms_max"])):
                lags.append(Sample("", {"queue": _name(row["queue"]), "stat": stat}, value))
    yield MetricFamily(
        "queen_queue_pop_lag_milliseconds",
        "From storing the first message of a batch to its delivery, in the last minute.",
        "gauge",
        lags,
    )


def _kind_of(holder: str) -> str:
    """Return what kind of thing holds a snapshot: its whole text would be a label without bound."""
    return holder.partition(" ")[0]


def server_counter_families(server: Row) -> Iterable[MetricFamily]:
    """Return the counters of PostgreSQL."""
    for name, (column, text) in _SERVER_COUNTERS.items():
        yield MetricFamily(name, text, "counter", [Sample("", {}, server[column])])


def postgres_families(facts: PostgresFacts) -> Iterable[MetricFamily]:
    """Return the state of PostgreSQL."""
    for name, (column, text) in _SERVER.items():
        yield gauge(name, text, facts.server[column])
    hit, read = facts.server["blks_hit"], facts.server["blks_read"]
    ratio = hit / (hit + read) if hit + read else 1.0
    yield gauge("queen_postgres_cache_hit_ratio", "Share of blocks found in memory.", ratio)
    for name, (column, text) in _TABLE_GAUGES.items():
        samples = [Sample("", {"table": row["table"]}, row[column]) for row in facts.tables]
        yield MetricFamily(name, text, "gauge", samples)
    yield _hot_ratio(facts.tables)
    oldest = [
        Sample("", {"holder": _kind_of(row["what"])}, row["xidAge"] or 0)
        for row in facts.holders[:1]
    ]
    yield MetricFamily(
        "queen_postgres_oldest_xmin_age",
        "Transactions since the oldest snapshot that keeps dead rows, and what holds it.",
        "gauge",
        oldest or [Sample("", {"holder": "none"}, 0)],
    )
    seconds = max((row["seconds"] or 0.0 for row in facts.holders), default=0.0)
    yield gauge(
        "queen_postgres_oldest_transaction_seconds", "Age of the oldest transaction.", seconds
    )
    for column, text in (("seconds", "time"), ("bytes", "bytes of WAL")):
        samples = [Sample("", {"standby": row["standby"]}, row[column]) for row in facts.standbys]
        name = f"queen_postgres_replication_lag_{column}"
        yield MetricFamily(name, f"How far a standby is behind, in {text}.", "gauge", samples)


def _hot_ratio(tables: Sequence[Row]) -> MetricFamily:
    samples = [
        Sample("", {"table": row["table"]}, row["hotUpdates"] / row["updates"])
        for row in tables
        if row["updates"]
    ]
    text = "Share of updates that touched no index."
    return MetricFamily("queen_postgres_hot_update_ratio", text, "gauge", samples)


def _by_queue(name: str, text: str, rows: Sequence[Row], column: str) -> MetricFamily:
    samples = [Sample("", {"queue": _name(row["queue"])}, row[column] or 0) for row in rows]
    return MetricFamily(name, text, "gauge", samples)


def _name(name: str | None) -> str:
    if name is None:
        return OTHERS
    return f"_{name}" if _LIKE_OTHERS.fullmatch(name) else name
