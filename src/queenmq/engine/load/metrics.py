"""What the load manager tells about itself, read when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from queenmq.engine.load.manager import LoadManager


class LoadMetrics(Collector):
    """All series of the load manager of one broker process."""

    def __init__(self, registry: CollectorRegistry, manager: LoadManager) -> None:
        self._manager = manager
        pressure = Gauge(
            "queen_load_pressure", "0 is idle, 1 is all it should carry.", registry=registry
        )
        pressure.set_function(lambda: manager.pressure.value)
        lag = Gauge(
            "queen_event_loop_lag_seconds", "How late the last timer was.", registry=registry
        )
        lag.set_function(lambda: manager.lag_ms / 1000)
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Decisions, and the types whose threshold is reached."""
        engaged = GaugeMetricFamily(
            "queen_load_engaged", "Whether the type's threshold is reached.", labels=["type"]
        )
        decisions = CounterMetricFamily(
            "queen_load_decisions", "What became of operations.", labels=["type", "decision"]
        )
        for kind, counts in self._manager.counts.items():
            name = kind.name.lower()
            engaged.add_metric([name], float(kind in self._manager.pressure.engaged))
            for decision, count in counts.items():
                decisions.add_metric([name, decision.value], count)
        return [engaged, decisions]
