"""Counters, gauges and histograms. To count is to add to a number in shared memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from queenmq.metrics.cells import Cells, Numbers

#: Stands between the parts of a name in the index. No label has it: it is refused in names.
SEPARATOR = "\x00"
#: The label of what there is no series left for.
OTHER = "other"


class Counter:
    """A number that only grows."""

    __slots__ = ("_at", "_numbers")

    def __init__(self, numbers: Numbers, at: int) -> None:
        self._numbers = numbers
        self._at = at

    def inc(self, amount: float = 1) -> None:
        """Count one more, or so many."""
        self._numbers[self._at] += amount

    @property
    def value(self) -> float:
        """Return what this place has counted so far, earlier workers of it included."""
        return self._numbers[self._at]

    def set(self, value: float) -> None:
        """Replace the number; for those that are measured elsewhere and only grow."""
        self._numbers[self._at] = value


class Gauge(Counter):
    """A number that goes up and down."""

    __slots__ = ()


class Histogram:
    """Counts values up to each bound, and their sum.

    To observe is to append to a list, which is much less work than anything else: there are several
    for each request. `publish` sorts what has gathered into the buckets, in shared memory.
    """

    __slots__ = ("_at", "_bounds", "_numbers", "_values", "observe", "observe_all")

    def __init__(self, numbers: Numbers, at: int, bounds: Sequence[float]) -> None:
        self._numbers = numbers
        self._at = at
        self._bounds = bounds
        self._values: list[float] = []
        #: Count a value.
        self.observe: Callable[[float], None] = self._values.append
        self.observe_all: Callable[[Iterable[float]], None] = self._values.extend

    def publish(self) -> int:
        """Write what was observed to where other workers can read it; how many values it was."""
        values = self._values
        if not values:
            return 0
        count = len(values)
        numbers, at = self._numbers, self._at
        numbers[at] += sum(values)
        values.sort()
        seen = 0
        for place, bound in enumerate(self._bounds, at + 1):
            end = bisect_right(values, bound, seen)
            numbers[place] += end - seen
            seen = end
        numbers[at + 1 + len(self._bounds)] += count - seen
        values.clear()
        return count


S = TypeVar("S")


class Family(Generic[S]):
    """All series of one name; `of` returns the one with these label values."""

    def __init__(
        self,
        name: str,
        text: str,
        kind: str,
        labels: Sequence[str],
        *,
        cells: Cells,
        make: Callable[[Numbers, int], S],
        width: int = 1,
        merge: str = "sum",
        bounds: Sequence[float] = (),
    ) -> None:
        self.name = name
        self.text = text
        self.kind = kind
        self.labels = tuple(labels)
        #: How the numbers of several workers become one: sum, max, or each by itself.
        self.merge = merge
        self.bounds = bounds
        self._cells = cells
        self._make = make
        self._width = width
        self._series: dict[tuple[str, ...], S] = {}
        if kind == "gauge":
            # What an earlier worker of this place had is gone with it; what it counted stays.
            cells.clear(name, SEPARATOR)

    def of(self, *values: str) -> S:
        """Return the series with these label values, in the order of the labels."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = self._open(values)
        return series

    @property
    def series(self) -> Iterable[S]:
        """Return those that this process has."""
        return self._series.values()

    def _open(self, values: tuple[str, ...]) -> S:
        at = self._find(values)
        if at is None:
            # Full: later labels share one series.
            at = self._find((OTHER,) * len(self.labels))
        assert at is not None, f"no room for the series {self.name}"
        return self._make(self._cells.numbers, at)

    def _find(self, values: Iterable[str]) -> int | None:
        clean = [value.replace(SEPARATOR, "") for value in values]
        return self._cells.find(SEPARATOR.join((self.name, *clean)), self._width)
