"""Computes the content and layout of charts. `templates/charts.html` draws them. Pure.

Colours come from the page's style sheet, so that light and dark suit both; lines differ by their
dashes as well, for readers who cannot tell colours apart. Each chart has its numbers in a table.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from queenmq.spark.report.numbers import Format, moment, plain, ticks, time_labels

_WIDTH, _HEIGHT = 560, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 12, 28
_ROW = 26
_LABEL_LENGTH = 25
#: Of a bar chart: the start of the bars, and the room for the value after them.
_NAMES, _VALUES = 190, 118
#: Columns that can stand side by side with a label each.
_LABELS_MAX = 8
#: More than this are not told one from another; their names are in the tables.
SERIES_MAX = 6
#: A row of a table for each of so many; beyond that the table shows every second, third ...
_TABLE_ROWS = 200
_ids = itertools.count(1)


@dataclass(frozen=True)
class Series:
    """One line; None where there is no value."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Label:
    """A text below the axis."""

    x: str
    y: float
    text: str


@dataclass(frozen=True)
class Mark:
    """A line across the chart, and its value."""

    y: str
    text_y: str
    text: str
    left: int = _LEFT
    right: int = _WIDTH - _RIGHT
    x: int = _LEFT - 8


@dataclass(frozen=True)
class Line:
    """A stretch of a line without a gap; one value alone is a dot."""

    number: int
    path: str
    dot: tuple[str, str] | None


@dataclass(frozen=True)
class Hover:
    """The text that the browser shows under the pointer."""

    x: str
    y: int
    width: str
    height: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar from the left with its name and value, or a column with a label below."""

    hint: str
    x: str
    y: str
    width: str
    height: str
    round: int
    name: str = ""
    name_x: float = 0
    text_y: float = 0
    value: str = ""
    value_x: str = ""
    label: Label | None = None


@dataclass(kw_only=True)
class Chart:
    """A figure: its drawing and its numbers, or what to say where there are none."""

    title: str
    about: str = ""
    otherwise: str = ""
    height: float = _HEIGHT
    width: int = _WIDTH
    number: int = field(default_factory=lambda: next(_ids))
    legend: Sequence[str] = ()
    grid: Sequence[Mark] = ()
    labels: Sequence[Label] = ()
    areas: Sequence[str] = ()
    lines: Sequence[Line] = ()
    hovers: Sequence[Hover] = ()
    bars: Sequence[Bar] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def line_chart(
    title: str,
    about: str,
    times: Sequence[datetime],
    series: Sequence[Series],
    *,
    form: Format = plain,
    is_area: bool = False,
    otherwise: str = "No values in this range.",
) -> Chart:
    """Show values over time. With `is_area` the first line is filled down to zero."""
    series = [each for each in series if any(value is not None for value in each.values)]
    drawn = series[:SERIES_MAX]
    known = [v for each in drawn for v in each.values if v is not None]
    if not known:
        return Chart(title=title, otherwise=otherwise)
    marks = ticks(max(known), is_whole=form is plain)
    plot = _Plot(len(times), marks[-1])
    return Chart(
        title=title,
        about=about,
        legend=[each.name for each in drawn] if len(drawn) > 1 else (),
        grid=_grid(marks, form),
        labels=[plot.label(label, plot.x(place)) for place, label in time_labels(times)],
        areas=[plot.area(run) for run in _runs(drawn[0].values)] if is_area else (),
        lines=[
            plot.stretch(number, run)
            for number, each in enumerate(drawn, 1)
            for run in _runs(each.values)
        ],
        hovers=_hovers(times, drawn, plot, form),
        columns=("time", *(each.name for each in series)),
        rows=_time_rows(times, series, form),
    )


def bar_chart(
    title: str,
    about: str,
    rows: Sequence[tuple[str, float, str]],
    *,
    column: str,
    form: Format = plain,
) -> Chart:
    """Show bars from the left, longest first: a label, its value, and a remark."""
    if not rows:
        return Chart(title=title, otherwise=f"No {column} in this range.")
    highest = max(value for _, value, _ in rows) or 1
    bars = []
    for number, (label, value, remark) in enumerate(rows):
        y = _TOP + number * _ROW
        length = max(2.0, value / highest * (_WIDTH - _NAMES - _VALUES))
        shown = f"{form(value)}{f' · {remark}' if remark else ''}"
        bars.append(
            Bar(
                hint=f"{label}: {shown}",
                x=str(_NAMES),
                y=str(y + 3),
                width=f"{length:.1f}",
                height="17",
                round=3,
                name=_cut(label),
                name_x=_NAMES - 10,
                text_y=y + 15,
                value=shown,
                value_x=f"{_NAMES + length + 8:.1f}",
            )
        )
    return Chart(
        title=title,
        about=about,
        height=2 * _TOP + len(rows) * _ROW,
        bars=bars,
        columns=(column, "value", "remark"),
        rows=[(label, form(value), remark) for label, value, remark in rows],
    )


def column_chart(
    title: str, about: str, rows: Sequence[tuple[str, float]], *, column: str, form: Format = plain
) -> Chart:
    """Show columns side by side, in the order given."""
    if not rows:
        return Chart(title=title, otherwise="No messages in this range.")
    marks = ticks(max(value for _, value in rows), is_whole=True)
    plot = _Plot(len(rows), marks[-1])
    step = plot.width / len(rows)
    every = -(-len(rows) // _LABELS_MAX)
    bars = []
    for number, (label, value) in enumerate(rows):
        x, y = _LEFT + step * number, plot.y(value)
        bars.append(
            Bar(
                hint=f"{label}: {form(value)}",
                x=f"{x + step * 0.14:.1f}",
                y=f"{y:.1f}",
                width=f"{step * 0.72:.1f}",
                height=f"{plot.base - y:.1f}",
                round=2,
                label=plot.label(label, x + step / 2) if number % every == 0 else None,
            )
        )
    return Chart(
        title=title,
        about=about,
        grid=_grid(marks, form),
        bars=bars,
        columns=(column, "messages"),
        rows=[(label, form(value)) for label, value in rows],
    )


@dataclass(frozen=True)
class _Plot:
    """Places values on the paper."""

    count: int
    highest: float
    width: float = _WIDTH - _LEFT - _RIGHT
    base: float = _HEIGHT - _BOTTOM

    def x(self, place: float) -> float:
        return _LEFT + (place + 0.5) * self.width / max(1, self.count)

    def y(self, value: float) -> float:
        return self.base - value / self.highest * (self.base - _TOP)

    def point(self, place: int, value: float) -> tuple[str, str]:
        return f"{self.x(place):.1f}", f"{self.y(value):.1f}"

    def path(self, run: Sequence[tuple[int, float]]) -> str:
        return "M" + "L".join(f"{x},{y}" for x, y in itertools.starmap(self.point, run))

    def stretch(self, number: int, run: Sequence[tuple[int, float]]) -> Line:
        return Line(number, self.path(run), self.point(*run[0]) if len(run) == 1 else None)

    def area(self, run: Sequence[tuple[int, float]]) -> str:
        first, last = self.x(run[0][0]), self.x(run[-1][0])
        return f"{self.path(run)}L{last:.1f},{self.base}L{first:.1f},{self.base}Z"

    def label(self, text: str, x: float) -> Label:
        return Label(f"{x:.1f}", self.base + 18, text)


def _runs(values: Sequence[float | None]) -> Iterator[list[tuple[int, float]]]:
    """Yield stretches of values without a gap, each value with its place."""
    run: list[tuple[int, float]] = []
    for place, value in enumerate(values):
        if value is None:
            if run:
                yield run
            run = []
        else:
            run.append((place, value))
    if run:
        yield run


def _grid(marks: Sequence[float], form: Format) -> list[Mark]:
    plot = _Plot(1, marks[-1])
    return [Mark(f"{plot.y(mark):.1f}", f"{plot.y(mark) + 4:.1f}", form(mark)) for mark in marks]


def _hovers(
    times: Sequence[datetime], series: Sequence[Series], plot: _Plot, form: Format
) -> list[Hover]:
    step = plot.width / max(1, plot.count)
    hovers = []
    for place, time in enumerate(times):
        shown = [
            f"{each.name}: {form(value)}"
            for each in series
            if (value := each.values[place]) is not None
        ]
        text = "\n".join([moment(time), *shown])
        x = f"{_LEFT + step * place:.2f}"
        hovers.append(Hover(x, _TOP, f"{step:.2f}", plot.base - _TOP, text))
    return hovers


def _time_rows(
    times: Sequence[datetime], series: Sequence[Series], form: Format
) -> list[tuple[str, ...]]:
    every = -(-len(times) // _TABLE_ROWS)
    return [
        (
            moment(times[place]),
            *("" if (v := each.values[place]) is None else form(v) for each in series),
        )
        for place in range(0, len(times), max(1, every))
    ]


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LABEL_LENGTH else text[: _LABEL_LENGTH - 1] + "…"
