"""GET /metrics and /metrics/prometheus."""

from __future__ import annotations

import resource
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.server.answers.responses import json_answer
from queenmq.server.metering.process import ProcessMetrics
from queenmq.server.metering.requests import RequestMeter
from queenmq.server.metering.scrape import Scrape
from queenmq.server.routing.spec import route

#: The text format that every scraper reads.
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class MetricsRoutes:
    """Routes of this broker's metrics. Other brokers answer for themselves."""

    def __init__(
        self,
        scrape: Scrape,
        process: ProcessMetrics,
        meter: RequestMeter,
        *,
        count_messages: Callable[[], int],
    ) -> None:
        self._scrape = scrape
        self._process = process
        self._meter = meter
        self._count_messages = count_messages

    @route("GET", "/metrics/prometheus", str, media="text/plain")
    async def text(self, _: Request) -> Response:
        """Return all series, for Prometheus."""
        return Response(await self._scrape.render(), headers={"content-type": _TEXT})

    @route("GET", "/metrics", wire.Metrics)
    async def overview(self, _: Request) -> Response:
        """Return the few numbers that clients and dashboards read."""
        uptime = self._process.uptime_s
        pool = self._process.pool
        used = resource.getrusage(resource.RUSAGE_SELF)
        return json_answer(
            wire.Metrics(
                uptime=uptime,
                requests=_rate(self._meter.total, uptime),
                messages=_rate(self._count_messages(), uptime),
                database=wire.PoolUse(pool.size, pool.idle, pool.waiting),
                memory=wire.Memory(int(self._process.resident_bytes)),
                cpu=wire.ProcessorTime(int(used.ru_utime * 1e6), int(used.ru_stime * 1e6)),
            )
        )


def _rate(total: int, uptime_s: float) -> wire.Rate:
    """Return a count since the start, and what that makes in a second."""
    return wire.Rate(total, round(total / uptime_s, 3) if uptime_s else 0.0)
