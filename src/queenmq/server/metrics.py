"""Series about the process and its connections, beside those that the engine counts."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Mapping

import prometheus_client
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from queenmq.clock import now_ms
from queenmq.storage.connection.database import PoolUse
from queenmq.storage.connection.fault_watch import FaultWatch
from queenmq.storage.spool import SpoolStats

# A second series per counter, for its time of birth, is noise: all are born with the process.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class BrokerMetrics(Collector):
    """Uptime, processor time, memory and database connections of one broker process."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        pool_use: Callable[[], PoolUse],
        spool_stats: Callable[[], SpoolStats],
        faults: FaultWatch,
        is_down: Callable[[], bool],
        is_maintenance: Callable[[], bool],
        stored: Callable[[], Mapping[str, int]],
    ) -> None:
        self._started_ms = now_ms()
        self._pool_use = pool_use
        self._spool_stats = spool_stats
        self._faults = faults
        self._is_down = is_down
        self._is_maintenance = is_maintenance
        self._stored = stored
        ProcessCollector(namespace="queen", registry=registry)
        registry.register(self)

    @property
    def uptime_s(self) -> float:
        return (now_ms() - self._started_ms) / 1000

    @property
    def pool(self) -> PoolUse:
        return self._pool_use()

    def collect(self) -> Iterable[Metric]:
        """Read when somebody asks."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        pool = self._pool_use()
        info = GaugeMetricFamily(
            "queen_worker_info", "The process that answered.", labels=["pid", "hostname"]
        )
        info.add_metric([str(os.getpid()), os.uname().nodename], 1)
        yield info
        yield _gauge("queen_uptime_seconds", "Since the start of the process.", self.uptime_s)
        yield _counter("queen_cpu_user_microseconds", "Time in user mode.", used.ru_utime * 1e6)
        yield _counter("queen_cpu_system_microseconds", "Time in the system.", used.ru_stime * 1e6)
        yield _gauge("queen_db_pool_size", "Connections there may be.", pool.size)
        yield _gauge("queen_db_pool_idle", "Open connections without work.", pool.idle)
        yield _gauge("queen_db_pool_active", "Connections in use.", pool.in_use)
        yield _gauge("queen_db_pool_waiting", "Calls that wait for a connection.", pool.waiting)
        yield from self._collect_faults()
        messages = CounterMetricFamily(
            "queen_messages_stored", "Messages stored, by the way they came.", labels=["path"]
        )
        for path, count in self._stored().items():
            messages.add_metric([path], count)
        yield messages
        yield from self._collect_spool()

    def _collect_faults(self) -> Iterable[Metric]:
        yield _gauge(
            "queen_database_fault",
            "1 while the database answers but cannot do its part.",
            bool(self._faults.current),
        )
        failed = CounterMetricFamily(
            "queen_database_faults", "Calls that failed for that.", labels=["sqlstate"]
        )
        for code, count in self._faults.totals.items():
            failed.add_metric([code], count)
        yield failed

    def _collect_spool(self) -> Iterable[Metric]:
        spool, prefix = self._spool_stats(), "queen_file_buffer_"
        yield _gauge(prefix + "pending", "Push requests kept on disk.", spool.pending_records)
        yield _gauge(prefix + "pending_bytes", "Their size.", spool.pending_bytes)
        yield _gauge(prefix + "failed", "Requests set aside for a person.", spool.aside_records)
        yield _gauge(prefix + "stuck", "1 while a fault keeps them there.", spool.is_stuck)
        healthy = _gauge(prefix + "db_healthy", "1 while the database works.", not self._is_down())
        yield healthy
        yield _gauge(
            "queen_maintenance_mode_enabled", "1 while pushes are buffered.", self._is_maintenance()
        )


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
