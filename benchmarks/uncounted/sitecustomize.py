"""Makes a broker that counts nothing. Python imports this by its name when it starts."""

from __future__ import annotations

from typing import Any

from queenmq.engine.calls.meter import CallMeter
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.metrics.series import Counter, Histogram
from queenmq.server.metering.requests import RequestMeter
from queenmq.server.metering.traffic import Traffic


def _do_nothing(*_: Any, **__: Any) -> None:
    pass


_make = Histogram.__init__


def _make_histogram(self: Histogram, *parts: Any) -> None:
    _make(self, *parts)
    self.observe = self.observe_all = _do_nothing


Histogram.__init__ = _make_histogram  # type: ignore[method-assign, assignment]
Counter.inc = Counter.set = _do_nothing  # type: ignore[method-assign]
for _meter in (RequestMeter, Traffic, CallMeter, PopMetrics):
    for _name in [name for name in vars(_meter) if name.startswith("note")]:
        setattr(_meter, _name, _do_nothing)
