"""Wires the metrics of a broker: series, scrape, minutes and their history."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from queenmq.engine.lifecycle import Health
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.maintenance import Maintenance
from queenmq.errors import QueenError
from queenmq.metrics.registry import Registry
from queenmq.server.metering.process import ProcessMetrics, Sources
from queenmq.server.metering.publisher import Publisher
from queenmq.server.metering.recorder import Recorder
from queenmq.server.metering.requests import RequestMeter
from queenmq.server.metering.scrape import Scrape
from queenmq.server.metering.traffic import Traffic
from queenmq.server.orders import BrokerOrders
from queenmq.server.tracing.otlp import Spans
from queenmq.server.tracing.traced_traffic import TracedTraffic
from queenmq.server.wiring.acking import Acking
from queenmq.server.wiring.ground import Ground
from queenmq.server.wiring.popping import Popping
from queenmq.server.wiring.pushing import Pushing
from queenmq.services.history import History
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.observation.history import HistoryStore
from queenmq.storage.stores.observation.metrics import MetricsStore

#: What a stop waits for the last minute of the history.
_LAST_S = 2.0


def make_metering(
    ground: Ground,
    load: LoadManager,
    *,
    pushing: Pushing,
    popping: Popping,
    acking: Acking,
    maintenance: Maintenance,
) -> tuple[Metering, Spans | None]:
    """Build the metrics of a broker, and the spans if a collector is named."""
    registry = ground.registry
    traffic, spans = _make_traffic(ground.settings, registry)
    registry.follow(traffic.stored.of("spool"), lambda: pushing.accepted.messages)
    registry.follow(traffic.stored.of("operation"), lambda: pushing.operations.messages)
    registry.follow(traffic.stored.of("stream"), lambda: acking.cycles.messages)
    sources = Sources(
        pool_use=ground.database.pool_use,
        spool_stats=pushing.spool_files.stats,
        faults=ground.database.faults,
        is_down=ground.membership.is_down,
        is_maintenance=lambda: maintenance.is_push,
    )
    metering = Metering(
        ground.orders,
        registry,
        ground.database,
        load,
        traffic,
        sources,
        parked=popping.pop.count_by_queue,
    )
    return metering, spans


def _make_traffic(settings: Settings, registry: Registry) -> tuple[Traffic, Spans | None]:
    if not settings.otlp_endpoint:
        return Traffic(registry), None
    spans = Spans(settings.otlp_endpoint, ratio=settings.otlp_sample_ratio)
    return TracedTraffic(registry, spans), spans


class Metering:
    """All of it, for one process."""

    name = "metering"

    def __init__(
        self,
        orders: BrokerOrders,
        registry: Registry,
        database: Database,
        load: LoadManager,
        traffic: Traffic,
        sources: Sources,
        *,
        parked: Callable[[], Mapping[str, int]],
    ) -> None:
        settings = orders.settings
        self._registry = registry
        self.traffic = traffic
        self.meter = RequestMeter(registry)
        self.process = ProcessMetrics(registry, sources)
        self.store = HistoryStore(database)
        self._recorder = Recorder(
            traffic.minutes,
            self.process,
            self.meter,
            place=orders.place,
            port=settings.port,
            parked=parked,
        )
        load.on_lag.append(self._recorder.note_lag)
        self.history = History(
            self.store,
            self._recorder,
            minutes_keep_s=settings.history_minutes_hours * 3_600,
            hours_keep_s=settings.history_hours_days * 86_400,
        )
        self.scrape = Scrape(
            registry,
            MetricsStore(database),
            self.store,
            series_max=settings.metrics_queues_max,
            publish=self._publish,
            is_down=sources.is_down,
        )
        self._publisher = Publisher(self._sample)
        self._is_down = sources.is_down

    def count_messages(self) -> int:
        """Count the messages that all workers have stored."""
        return int(self._registry.sum("queen_messages_stored"))

    async def start(self) -> None:
        """Begin to measure."""
        await self._publisher.start()

    def health(self) -> Health:
        return self._publisher.health()

    async def stop(self) -> None:
        """Measure no more, and write what the last minute has if the database takes it."""
        is_stopped = self._publisher.health() is Health.STOPPED
        await self._publisher.stop()
        if is_stopped or self._is_down():
            return
        with contextlib.suppress(QueenError, TimeoutError):
            async with asyncio.timeout(_LAST_S):
                await self.history.finish()

    def _publish(self) -> None:
        self.meter.publish()
        self.process.publish()

    def _sample(self) -> None:
        self._publish()
        self._recorder.sample()
