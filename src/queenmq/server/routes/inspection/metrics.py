"""GET /metrics and /metrics/prometheus."""

from __future__ import annotations

import resource
from collections.abc import Callable

from prometheus_client import CollectorRegistry, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from queenmq.server.answers.responses import json_answer
from queenmq.server.metrics import BrokerMetrics

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

    async def text(self, _: Request) -> Response:
        """All series, for Prometheus."""
        return Response(generate_latest(self._registry), headers={"content-type": _TEXT})

    async def overview(self, _: Request) -> Response:
        """The few numbers that clients and dashboards read."""
        uptime = self._metrics.uptime_s
        pool = self._metrics.pool
        used = resource.getrusage(resource.RUSAGE_SELF)
        resident = self._registry.get_sample_value("queen_process_resident_memory_bytes")
        return json_answer(
            {
                "uptime": uptime,
                "requests": _rate(self.requests, uptime),
                "messages": _rate(self._count_messages(), uptime),
                "database": {
                    "poolSize": pool.size,
                    "idleConnections": pool.idle,
                    "waitingRequests": pool.waiting,
                },
                # Of a runtime that is not ours clients expect more; it has no like here.
                "memory": {
                    "rss": int(resident or 0),
                    "heapTotal": 0,
                    "heapUsed": 0,
                    "external": 0,
                    "arrayBuffers": 0,
                },
                "cpu": {
                    "user": int(used.ru_utime * 1e6),
                    "system": int(used.ru_stime * 1e6),
                },
            }
        )


def _rate(total: int, uptime_s: float) -> dict[str, float]:
    """A count since the start, and what that makes in a second."""
    return {"total": total, "rate": round(total / uptime_s, 3) if uptime_s else 0.0}
