"""Pure: charts as SVG, each with its title, its description and its numbers in a table beside it.

Colours come from the page's style sheet, so that light and dark suit both; lines differ by their
dashes as well, for who cannot tell colours apart. All text is escaped here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from queenmq.spark.report.numbers import Format, moment, plain, ticks, time_labels

_WIDTH, _HEIGHT = 560, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 12, 28
_ROW = 26
_LABEL_LENGTH = 25
#: Of a bar chart: where bars begin, and what is left behind them for the value.
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


def line_chart(
    title: str,
    about: str,
    times: Sequence[datetime],
    series: Sequence[Series],
    *,
    form: Format = plain,
    is_area: bool = False,
    otherwise: str = "No values in this range.",
) -> str:
    """Values over time. With `is_area` the first line is filled down to zero."""
    series = [each for each in series if any(value is not None for value in each.values)]
    drawn = series[:SERIES_MAX]
    known = [v for each in drawn for v in each.values if v is not None]
    if not known:
        return _figure(title, _nothing(otherwise), "", "")
    marks = ticks(max(known), is_whole=form is plain)
    plot = _Plot(len(times), marks[-1])
    body = [_grid(marks, form), _time_axis(times, plot)]
    if is_area:
        body += [f'<path class="area s1" d="{plot.area(run)}"/>' for run in _runs(drawn[0].values)]
    for number, each in enumerate(drawn, 1):
        for run in _runs(each.values):
            body.append(f'<path class="line s{number}" d="{plot.line(run)}"/>')
            if len(run) == 1:
                x, y = plot.point(*run[0])
                body.append(f'<circle class="dot s{number}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>')
    body.append(_hovers(times, drawn, plot, form))
    svg = _svg(title, about, _HEIGHT, "".join(body))
    return _figure(title, svg, _legend(drawn), _time_table(title, times, series, form))


def bar_chart(
    title: str,
    about: str,
    rows: Sequence[tuple[str, float, str]],
    *,
    column: str,
    form: Format = plain,
) -> str:
    """Bars from the left, longest first: a label, its value, and a remark."""
    if not rows:
        return _figure(title, _nothing(f"No {column} in this range."), "", "")
    highest = max(value for _, value, _ in rows) or 1
    left, width = _NAMES, _WIDTH - _NAMES - _VALUES
    body = []
    for number, (label, value, remark) in enumerate(rows):
        y = _TOP + number * _ROW
        length = max(2.0, value / highest * width)
        told = f"{form(value)}{f' · {remark}' if remark else ''}"
        body.append(
            f"<g><title>{escape(label)}: {escape(told)}</title>"
            f'<text class="name" x="{left - 10}" y="{y + 15}">{escape(_cut(label))}</text>'
            f'<rect class="bar" x="{left}" y="{y + 3}" width="{length:.1f}" height="17" rx="3"/>'
            f'<text class="value" x="{left + length + 8:.1f}" y="{y + 15}">{escape(told)}</text>'
            "</g>"
        )
    svg = _svg(title, about, 2 * _TOP + len(rows) * _ROW, "".join(body))
    table = _table(
        title,
        (column, "value", "remark"),
        ((label, form(value), remark) for label, value, remark in rows),
    )
    return _figure(title, svg, "", table)


def column_chart(
    title: str, about: str, rows: Sequence[tuple[str, float]], *, column: str, form: Format = plain
) -> str:
    """Columns side by side, in the order given."""
    if not rows:
        return _figure(title, _nothing("No messages in this range."), "", "")
    marks = ticks(max(value for _, value in rows), is_whole=True)
    plot = _Plot(len(rows), marks[-1])
    step = plot.width / len(rows)
    every = -(-len(rows) // _LABELS_MAX)
    body = [_grid(marks, form)]
    for number, (label, value) in enumerate(rows):
        x, y = _LEFT + step * number, plot.y(value)
        middle = x + step / 2
        body.append(
            f"<g><title>{escape(label)}: {escape(form(value))}</title>"
            f'<rect class="bar" x="{x + step * 0.14:.1f}" y="{y:.1f}" width="{step * 0.72:.1f}"'
            f' height="{plot.base - y:.1f}" rx="2"/>'
            f"{_label(label, middle, plot) if number % every == 0 else ''}</g>"
        )
    svg = _svg(title, about, _HEIGHT, "".join(body))
    table = _table(title, (column, "messages"), ((label, form(value)) for label, value in rows))
    return _figure(title, svg, "", table)


@dataclass(frozen=True)
class _Plot:
    """Where values stand on the paper."""

    count: int
    highest: float
    width: float = _WIDTH - _LEFT - _RIGHT
    base: float = _HEIGHT - _BOTTOM

    def x(self, place: float) -> float:
        return _LEFT + (place + 0.5) * self.width / max(1, self.count)

    def y(self, value: float) -> float:
        return self.base - value / self.highest * (self.base - _TOP)

    def point(self, place: int, value: float) -> tuple[float, float]:
        return self.x(place), self.y(value)

    def line(self, run: Sequence[tuple[int, float]]) -> str:
        points = (f"{x:.1f},{y:.1f}" for x, y in itertools.starmap(self.point, run))
        return "M" + "L".join(points)

    def area(self, run: Sequence[tuple[int, float]]) -> str:
        first, last = self.x(run[0][0]), self.x(run[-1][0])
        return f"{self.line(run)}L{last:.1f},{self.base}L{first:.1f},{self.base}Z"


def _runs(values: Sequence[float | None]) -> Iterator[list[tuple[int, float]]]:
    """Stretches of values without a gap, each value with its place."""
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


def _grid(marks: Sequence[float], form: Format) -> str:
    plot = _Plot(1, marks[-1])
    lines = (
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{plot.y(mark):.1f}"'
        f' y2="{plot.y(mark):.1f}"/><text class="tick end" x="{_LEFT - 8}"'
        f' y="{plot.y(mark) + 4:.1f}">{escape(form(mark))}</text>'
        for mark in marks
    )
    return "".join(lines)


def _label(text: str, x: float, plot: _Plot) -> str:
    return f'<text class="tick middle" x="{x:.1f}" y="{plot.base + 18}">{escape(text)}</text>'


def _time_axis(times: Sequence[datetime], plot: _Plot) -> str:
    return "".join(_label(label, plot.x(place), plot) for place, label in time_labels(times))


def _hovers(times: Sequence[datetime], series: Sequence[Series], plot: _Plot, form: Format) -> str:
    """What is told under the pointer, by the browser itself."""
    step = plot.width / max(1, plot.count)
    pieces = []
    for place, time in enumerate(times):
        told = [
            f"{each.name}: {form(value)}"
            for each in series
            if (value := each.values[place]) is not None
        ]
        text = "\n".join([moment(time), *told])
        pieces.append(
            f'<rect class="hover" x="{_LEFT + step * place:.2f}" y="{_TOP}" width="{step:.2f}"'
            f' height="{plot.base - _TOP}"><title>{escape(text)}</title></rect>'
        )
    return "".join(pieces)


def _svg(title: str, about: str, height: float, body: str) -> str:
    number = next(_ids)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="t{number} d{number}">'
        f'<title id="t{number}">{escape(title)}</title><desc id="d{number}">{escape(about)}</desc>'
        f"{body}</svg>"
    )


def _legend(series: Sequence[Series]) -> str:
    if len(series) < 2:
        return ""
    items = (
        f'<li><svg class="key" viewBox="0 0 24 8" aria-hidden="true"><path class="line s{number}"'
        f' d="M0,4L24,4"/></svg>{escape(each.name)}</li>'
        for number, each in enumerate(series, 1)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _figure(title: str, drawing: str, legend: str, table: str) -> str:
    return f"<figure><figcaption>{escape(title)}</figcaption>{legend}{drawing}{table}</figure>"


def _nothing(text: str) -> str:
    return f'<p class="nothing">{escape(text)}</p>'


def _time_table(
    title: str, times: Sequence[datetime], series: Sequence[Series], form: Format
) -> str:
    every = -(-len(times) // _TABLE_ROWS)
    rows = (
        (
            moment(times[place]),
            *("" if (v := each.values[place]) is None else form(v) for each in series),
        )
        for place in range(0, len(times), max(1, every))
    )
    return _table(title, ("time", *(each.name for each in series)), rows)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return f"<details><summary>Numbers</summary>{table(title, columns, rows)}</details>"


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1
) -> str:
    """Rows as a table; the first columns are text, the others numbers."""
    head = "".join(
        f'<th scope="col"{"" if number < texts else " class=num"}>{escape(column)}</th>'
        for number, column in enumerate(columns)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{escape(value)}</th>'
            if number == 0
            else f"<td{'' if number < texts else ' class=num'}>{escape(value)}</td>"
            for number, value in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><caption>{escape(title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LABEL_LENGTH else text[: _LABEL_LENGTH - 1] + "…"
