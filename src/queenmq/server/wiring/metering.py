"""Wires the metrics of a broker: series, scrape, minutes and their history."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping

from queenmq.engine.load.manager import LoadManager
from queenmq.errors import QueenError
from queenmq.metrics.cells import Memory
from queenmq.metrics.registry import Registry
from queenmq.server.metering.process import ProcessMetrics, Sources
from queenmq.server.metering.publisher import Publisher
from queenmq.server.metering.recorder import Recorder
from queenmq.server.metering.requests import RequestMeter
from queenmq.server.metering.scrape import Scrape
from queenmq.server.metering.traffic import Traffic
from queenmq.server.orders import BrokerOrders
from queenmq.services.history import History
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.observation.history import HistoryStore
from queenmq.storage.stores.observation.metrics import MetricsStore

#: What a stop waits for the last minute of the history.
_LAST_S = 2.0


def make_registry(orders: BrokerOrders) -> Registry:
    """Make the series of this worker, in the memory that it shares with the others."""
    return Registry(Memory(orders.metrics_fd), orders.place, is_alive=_is_alive)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Metering:
    """All of it, for one process."""

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

    def count_messages(self) -> int:
        """Count the messages that all workers have stored."""
        return int(self._registry.sum("queen_messages_stored"))

    def start(self) -> None:
        """Begin to measure."""
        self._publisher.start()

    async def stop(self, *, is_joined: bool) -> None:
        """Stop measuring, and write the last minute if the database accepts it."""
        self._publisher.stop()
        if not is_joined:
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
