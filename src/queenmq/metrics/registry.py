"""All series of a broker: made here, read by a scrape."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from queenmq.metrics.cells import Memory, Numbers, Reading
from queenmq.metrics.series import SEPARATOR, Counter, Family, Gauge, Histogram
from queenmq.metrics.text import MetricFamily, Sample

#: Seconds: of calls and answers.
SECONDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
#: Requests, rows or partitions.
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)


class Worker(NamedTuple):
    """A process whose numbers are read."""

    place: int
    pid: int
    is_alive: bool


#: Labels that tell the series of one worker from those of another.
WORKER_LABELS = ("worker_id", "pid")


class Registry:
    """The series of one worker, and of its whole broker when they are read."""

    def __init__(
        self,
        memory: Memory | None = None,
        place: int = 0,
        *,
        is_alive: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self._memory = memory or Memory()
        self._cells = self._memory.cells(place)
        self._is_alive = is_alive
        self.place = place
        self._families: dict[str, Family[Any]] = {}
        #: What is measured by asking, with the number it is written to and what to add to it.
        self._reads: list[tuple[Counter, Callable[[], float], float]] = []
        self._derived: list[Callable[[Mapping[str, MetricFamily]], MetricFamily]] = []

    # Making series.

    def counters(self, name: str, text: str, *labels: str) -> Family[Counter]:
        """Make a counter for each combination of label values. `_total` is added to its name."""
        return self._add(name, text, "counter", labels, Counter)

    def counter(self, name: str, text: str, *, read: Callable[[], float] | None = None) -> Counter:
        """Make a counter; `read` returns what this process has counted, where that is elsewhere."""
        counter = self.counters(name, text).of()
        if read is not None:
            self.follow(counter, read)
        return counter

    def gauges(self, name: str, text: str, *labels: str, merge: str = "sum") -> Family[Gauge]:
        """Make a gauge for each combination of label values."""
        return self._add(name, text, "gauge", labels, Gauge, merge=merge)

    def gauge(
        self,
        name: str,
        text: str,
        *,
        read: Callable[[], float] | None = None,
        merge: str = "sum",
    ) -> Gauge:
        """Make a gauge; `read` returns its value."""
        gauge = self.gauges(name, text, merge=merge).of()
        if read is not None:
            self.follow(gauge, read)
        return gauge

    def histograms(
        self, name: str, text: str, *labels: str, bounds: Sequence[float] = SECONDS
    ) -> Family[Histogram]:
        """Make a histogram for each combination of label values."""
        make = functools.partial(_make_histogram, bounds)
        # Its sum, a number per bound, and one for what is above all of them.
        width = len(bounds) + 2
        return self._add(name, text, "histogram", labels, make, width=width, bounds=bounds)

    def histogram(self, name: str, text: str, *, bounds: Sequence[float] = SECONDS) -> Histogram:
        """Make a histogram."""
        return self.histograms(name, text, bounds=bounds).of()

    def _add(
        self, name: str, text: str, kind: str, labels: Sequence[str], make: Any, **more: Any
    ) -> Family[Any]:
        found = self._families.get(name)
        if found is not None:
            assert found.labels == tuple(labels) and found.kind == kind, f"two kinds of {name}"
            return found
        family: Family[Any] = Family(name, text, kind, labels, cells=self._cells, make=make, **more)
        self._families[name] = family
        return family

    def follow(self, series: Counter, read: Callable[[], float]) -> None:
        """Have a series with labels measured by asking."""
        is_gauge = isinstance(series, Gauge)
        # A counter goes on behind what an earlier worker of this place has counted.
        self._reads.append((series, read, 0.0 if is_gauge else series.value))

    def derive(self, make: Callable[[Mapping[str, MetricFamily]], MetricFamily]) -> None:
        """Tell a family that follows from others, once those are added up."""
        self._derived.append(make)

    # Reading them.

    def publish(self) -> None:
        """Write what is measured or counted elsewhere to where other workers can read it."""
        for series, read, before in self._reads:
            series.set(before + read())
        for family in self._families.values():
            if family.kind == "histogram":
                for histogram in family.series:
                    histogram.publish()

    def collect(self) -> list[MetricFamily]:
        """Return all series of all workers, as those of one broker."""
        self.publish()
        merged = {name: _Merger(family) for name, family in self._families.items()}
        for place in range(self._memory.places):
            reading = self._memory.read(place)
            if reading.entries:
                worker = Worker(place, reading.pid, self._is_alive(reading.pid))
                _add_up(merged, reading, worker)
        families = {name: merger.build() for name, merger in merged.items()}
        return [*families.values(), *(make(families) for make in self._derived)]

    def sum(self, name: str, **labels: str) -> float:
        """Return a counter or gauge of the whole broker, added up over all other labels."""
        merged = next(one for one in self.collect() if one.name == name)
        return sum(
            sample.value
            for sample in merged.samples
            if all(sample.labels.get(label) == value for label, value in labels.items())
        )


def _make_histogram(bounds: Sequence[float], numbers: Numbers, at: int) -> Histogram:
    return Histogram(numbers, at, bounds)


def _add_up(merged: dict[str, _Merger], reading: Reading, worker: Worker) -> None:
    for entry in reading.entries:
        name, *values = entry.name.split(SEPARATOR)
        merger = merged.get(name)
        if merger is not None:
            numbers = list(reading.numbers[entry.at : entry.at + entry.width])
            merger.add(tuple(values), numbers, worker)


class _Merger:
    """One family, added up over workers."""

    def __init__(self, family: Family[Any]) -> None:
        self._family = family
        self._numbers: dict[tuple[str, ...], list[float]] = {}

    def add(self, values: tuple[str, ...], numbers: list[float], worker: Worker) -> None:
        family = self._family
        if family.kind == "gauge" and not worker.is_alive:
            # What it had is gone with it; what it counted stays.
            return
        if family.merge == "each":
            values = (*values, str(worker.place), str(worker.pid))
        before = self._numbers.get(values)
        if before is None:
            self._numbers[values] = numbers
        elif family.merge == "max":
            self._numbers[values] = [max(before[0], numbers[0])]
        else:
            self._numbers[values] = [a + b for a, b in zip(before, numbers, strict=True)]

    def build(self) -> MetricFamily:
        family = self._family
        labels = family.labels + (WORKER_LABELS if family.merge == "each" else ())
        samples: list[Sample] = []
        for values, numbers in sorted(self._numbers.items()):
            given = dict(zip(labels, values, strict=True))
            if family.kind == "histogram":
                samples += _histogram_samples(given, numbers, family.bounds)
            else:
                samples.append(Sample("", given, numbers[0]))
        return MetricFamily(family.name, family.text, family.kind, samples)


def _histogram_samples(
    labels: dict[str, str], numbers: list[float], bounds: Sequence[float]
) -> Iterable[Sample]:
    total, *counts = numbers
    seen = 0.0
    for bound, count in zip((*bounds, float("inf")), counts, strict=True):
        seen += count
        le = "+Inf" if bound == float("inf") else repr(float(bound))
        yield Sample("_bucket", {**labels, "le": le}, seen)
    yield Sample("_count", labels, seen)
    yield Sample("_sum", labels, total)
