"""GET /metrics and /metrics/prometheus."""

from __future__ import annotations

import resource
from collections.abc import Callable

from prometheus_client import CollectorRegistry, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.server.answers.responses import json_answer
from queenmq.server.metrics import BrokerMetrics
from queenmq.server.routing.spec import route

#: The text format that every scraper reads.
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class MetricsRoutes:
    """What this process has done and uses; other workers and brokers answer for themselves."""

    def __init__(
        self,
        registry: CollectorRegistry,
        metrics: BrokerMetrics,
        *,
        count_messages: Callable[[], int],
    ) -> None:
        self._registry = registry
        self._metrics = metrics
        self._count_messages = count_messages
        #: Requests of all kinds; counted by the application.
        self.requests = 0

    @route("GET", "/metrics/prometheus", str, media="text/plain")
    async def text(self, _: Request) -> Response:
        """All series, for Prometheus."""
        return Response(generate_latest(self._registry), headers={"content-type": _TEXT})

    @route("GET", "/metrics", wire.Metrics)
    async def overview(self, _: Request) -> Response:
        """The few numbers that clients and dashboards read."""
        uptime = self._metrics.uptime_s
        pool = self._metrics.pool
        used = resource.getrusage(resource.RUSAGE_SELF)
        resident = self._registry.get_sample_value("queen_process_resident_memory_bytes")
        return json_answer(
            wire.Metrics(
                uptime=uptime,
                requests=_rate(self.requests, uptime),
                messages=_rate(self._count_messages(), uptime),
                database=wire.PoolUse(pool.size, pool.idle, pool.waiting),
                memory=wire.Memory(int(resident or 0)),
                cpu=wire.ProcessorTime(int(used.ru_utime * 1e6), int(used.ru_stime * 1e6)),
            )
        )


def _rate(total: int, uptime_s: float) -> wire.Rate:
    """Return a count since the start, and what that makes in a second."""
    return wire.Rate(total, round(total / uptime_s, 3) if uptime_s else 0.0)
