"""Series about the process and its connections, beside those that the engine counts."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable

import prometheus_client
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from queenmq.clock import now_ms
from queenmq.storage.database import PoolUse

# A second series per counter, for its time of birth, is noise: all are born with the process.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class BrokerMetrics(Collector):
    """Uptime, processor time, memory and database connections of one broker process."""

    def __init__(self, registry: CollectorRegistry, *, pool_use: Callable[[], PoolUse]) -> None:
        self._started_ms = now_ms()
        self._pool_use = pool_use
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
        yield _gauge("queen_db_pool_size", "Connections that are open.", pool.size)
        yield _gauge("queen_db_pool_idle", "Open connections without work.", pool.idle)
        yield _gauge("queen_db_pool_active", "Open connections in use.", pool.size - pool.idle)
        yield _gauge("queen_db_pool_waiting", "Calls that wait for a connection.", pool.waiting)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
