"""Series about the process, its database connections and its spool."""

from __future__ import annotations

import functools
import os
import resource
from collections.abc import Callable, Mapping
from typing import NamedTuple

from queenmq.clock import now_ms, unix_ms
from queenmq.metrics.registry import Registry
from queenmq.metrics.text import MetricFamily, gauge
from queenmq.storage.connection.database import PoolUse
from queenmq.storage.connection.fault_watch import FaultWatch
from queenmq.storage.spool import SpoolStats

_PAGE_BYTES = resource.getpagesize()


class Sources(NamedTuple):
    """The sources of the measures. All are called about once a second, and must be cheap."""

    pool_use: Callable[[], PoolUse]
    spool_stats: Callable[[], SpoolStats]
    faults: FaultWatch
    is_down: Callable[[], bool]
    is_maintenance: Callable[[], bool]


class ProcessMetrics:
    """Uptime, processor time, memory and database connections of one broker process."""

    def __init__(self, registry: Registry, sources: Sources) -> None:
        self._registry = registry
        self._sources = sources
        self._started_ms = now_ms()
        self._register_process(registry)
        self._register_pool(registry)
        self._register_spool(registry)
        self._faults = registry.counters(
            "queen_database_faults", "Calls that failed for a fault of the database.", "sqlstate"
        )
        self._known: set[str] = set()

    @property
    def uptime_s(self) -> float:
        return (now_ms() - self._started_ms) / 1000

    @property
    def resident_bytes(self) -> float:
        return _memory(1)

    @property
    def virtual_bytes(self) -> float:
        return _memory(0)

    @property
    def pool(self) -> PoolUse:
        return self._sources.pool_use()

    def publish(self) -> None:
        """Make a series of each fault that is new, and publish all that is measured by asking."""
        totals = self._sources.faults.totals
        for code in totals.keys() - self._known:
            self._known.add(code)
            read = functools.partial(self._count_faults, code)
            self._registry.follow(self._faults.of(code), read)
        self._registry.publish()

    def _count_faults(self, code: str) -> float:
        return self._sources.faults.totals.get(code, 0)

    def _register_process(self, registry: Registry) -> None:
        registry.gauges(
            "queen_worker_info", "The processes of this broker.", "hostname", merge="each"
        ).of(os.uname().nodename).set(1)
        registry.gauge(
            "queen_uptime_seconds",
            "Since the start of the oldest process.",
            read=lambda: self.uptime_s,
            merge="max",
        )
        registry.counter(
            "queen_cpu_user_microseconds",
            "Time in user mode.",
            read=lambda: resource.getrusage(resource.RUSAGE_SELF).ru_utime * 1e6,
        )
        registry.counter(
            "queen_cpu_system_microseconds",
            "Time in the system.",
            read=lambda: resource.getrusage(resource.RUSAGE_SELF).ru_stime * 1e6,
        )
        prefix = "queen_process_"
        registry.gauge(prefix + "resident_memory_bytes", "Memory in use.", read=lambda: _memory(1))
        registry.gauge(prefix + "virtual_memory_bytes", "Memory mapped.", read=lambda: _memory(0))
        registry.gauge(prefix + "open_fds", "Open descriptors.", read=_count_descriptors)
        registry.gauge(
            prefix + "max_fds",
            "Descriptors that one process may have.",
            read=lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            merge="max",
        )
        started = registry.gauge(
            prefix + "start_time_seconds", "Start of the youngest process.", merge="max"
        )
        started.set(unix_ms() / 1000)
        registry.counter(
            prefix + "cpu_seconds",
            "Processor time in all.",
            read=lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2]),
        )

    def _register_pool(self, registry: Registry) -> None:
        pool = self._sources.pool_use
        registry.gauge("queen_db_pool_size", "Connections there may be.", read=lambda: pool().size)
        registry.gauge(
            "queen_db_pool_idle", "Open connections without work.", read=lambda: pool().idle
        )
        registry.gauge("queen_db_pool_active", "Connections in use.", read=lambda: pool().in_use)
        registry.gauge(
            "queen_db_pool_waiting",
            "Calls that wait for a connection.",
            read=lambda: pool().waiting,
        )
        registry.gauge(
            "queen_database_fault",
            "1 while the database answers but has a fault.",
            read=lambda: bool(self._sources.faults.current),
            merge="max",
        )

    def _register_spool(self, registry: Registry) -> None:
        # All workers of a broker share the spool, so each knows the whole of it.
        prefix, stats = "queen_file_buffer_", self._sources.spool_stats
        for name, text, read in (
            ("pending", "Push requests kept on disk.", lambda: stats().pending_records),
            ("pending_bytes", "Their size.", lambda: stats().pending_bytes),
            ("failed", "Requests set aside for a person.", lambda: stats().aside_records),
            ("stuck", "1 while a fault keeps them there.", lambda: stats().is_stuck),
        ):
            registry.gauge(prefix + name, text, read=read, merge="max")
        registry.gauge(
            prefix + "db_unhealthy",
            "Workers that find the database down.",
            read=self._sources.is_down,
        )
        registry.derive(_derive_healthy)
        registry.gauge(
            "queen_maintenance_mode_enabled",
            "1 while pushes are buffered.",
            read=self._sources.is_maintenance,
            merge="max",
        )


def _derive_healthy(families: Mapping[str, MetricFamily]) -> MetricFamily:
    down = sum(one.value for one in families["queen_file_buffer_db_unhealthy"].samples)
    return gauge(
        "queen_file_buffer_db_healthy", "1 while the database works for all workers.", not down
    )


def _memory(column: int) -> float:
    """Return a column of the memory sizes that Linux tells; 0 elsewhere."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[column]) * _PAGE_BYTES
    except OSError:
        return 0.0


def _count_descriptors() -> float:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0.0
