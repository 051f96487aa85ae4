"""All series of a broker: made here, read by a scrape."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from queenmq.metrics.cells import Memory, Numbers, Reader
from queenmq.metrics.series import SEPARATOR, Counter, Family, Gauge, Histogram
from queenmq.metrics.text import MetricFamily, Sample

#: Seconds: of calls and answers.
SECONDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
#: Requests, rows or partitions.
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)


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
        self._places = [
            _Place(number, self._memory.reader(number)) for number in range(self._memory.places)
        ]
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

    def collect(self) -> Iterator[MetricFamily]:
        """Return all series of all workers, as those of one broker.

        The numbers are those of this moment. Samples are made when they are asked for, so that a
        caller can do other work between two of them.
        """
        self.publish()
        return self._build(self._read_workers())

    def _read_workers(self) -> list[_Worker]:
        found = (place.read(self._is_alive) for place in self._places)
        return [worker for worker in found if worker.series]

    def _build(self, workers: Sequence[_Worker]) -> Iterator[MetricFamily]:
        families = list(self._families.values())
        for family in families:
            yield _build_family(family, workers)
        built = {
            family.name: functools.partial(_build_family, family, workers) for family in families
        }
        for make in self._derived:
            yield make(_Built(built))

    def sum(self, name: str, **labels: str) -> float:
        """Return a counter or gauge of the whole broker, added up over all other labels."""
        self.publish()
        family = self._families[name]
        wanted = [(family.labels.index(label), value) for label, value in labels.items()]
        return sum(
            numbers[0]
            for values, numbers in _add_up(family, self._read_workers()).items()
            if all(values[at] == value for at, value in wanted)
        )


def _make_histogram(bounds: Sequence[float], numbers: Numbers, at: int) -> Histogram:
    return Histogram(numbers, at, bounds)


class _Series(NamedTuple):
    """Label values, and where the numbers are."""

    values: tuple[str, ...]
    at: int
    end: int


class _Worker(NamedTuple):
    """The numbers of a process at one moment, with its series by family."""

    place: int
    pid: int
    is_alive: bool
    series: Mapping[str, Sequence[_Series]]
    numbers: Numbers


class _Place:
    """Where a worker counts, and the names that were read so far."""

    def __init__(self, number: int, reader: Reader) -> None:
        self._number = number
        self._reader = reader
        self._series: dict[str, list[_Series]] = {}

    def read(self, is_alive: Callable[[int], bool]) -> _Worker:
        # Names first: numbers that a later name needs are missing otherwise.
        for entry in self._reader.read_names():
            name, *values = entry.name.split(SEPARATOR)
            series = _Series(tuple(values), entry.at, entry.at + entry.width)
            self._series.setdefault(name, []).append(series)
        pid, numbers = self._reader.read_numbers()
        return _Worker(self._number, pid, is_alive(pid), self._series, numbers)


class _Built(Mapping[str, MetricFamily]):
    """Families by name, each built when it is asked for."""

    def __init__(self, build: Mapping[str, Callable[[], MetricFamily]]) -> None:
        self._build = build

    def __getitem__(self, name: str) -> MetricFamily:
        return self._build[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._build)

    def __len__(self) -> int:
        return len(self._build)


def _build_family(family: Family[Any], workers: Iterable[_Worker]) -> MetricFamily:
    """Return one family, added up over workers."""
    samples = _make_samples(family, workers)
    return MetricFamily(family.name, family.text, family.kind, samples)


def _make_samples(family: Family[Any], workers: Iterable[_Worker]) -> Iterator[Sample]:
    labels = family.labels + (WORKER_LABELS if family.merge == "each" else ())
    for values, numbers in sorted(_add_up(family, workers).items()):
        given = dict(zip(labels, values, strict=True))
        if family.kind == "histogram":
            yield from _histogram_samples(given, numbers, family.bounds)
        else:
            yield Sample("", given, numbers[0])


def _add_up(
    family: Family[Any], workers: Iterable[_Worker]
) -> dict[tuple[str, ...], Sequence[float]]:
    found: dict[tuple[str, ...], Sequence[float]] = {}
    for worker in workers:
        if family.kind == "gauge" and not worker.is_alive:
            # What it had is gone with it; what it counted stays.
            continue
        for values, at, end in worker.series.get(family.name, ()):
            if end > len(worker.numbers):
                # Its name was read by a later scrape, while this one is being written.
                continue
            numbers = worker.numbers[at:end]
            if family.merge == "each":
                values = (*values, str(worker.place), str(worker.pid))
            before = found.get(values)
            if before is None:
                found[values] = numbers
            elif family.merge == "max":
                found[values] = [max(before[0], numbers[0])]
            else:
                found[values] = [a + b for a, b in zip(before, numbers, strict=True)]
    return found


def _histogram_samples(
    labels: dict[str, str], numbers: Sequence[float], bounds: Sequence[float]
) -> Iterable[Sample]:
    total, *counts = numbers
    seen = 0.0
    for bound, count in zip((*bounds, float("inf")), counts, strict=True):
        seen += count
        le = "+Inf" if bound == float("inf") else repr(float(bound))
        yield Sample("_bucket", {**labels, "le": le}, seen)
    yield Sample("_count", labels, seen)
    yield Sample("_sum", labels, total)
