"""The report: numbers as people read them, charts, and a page that asks for nothing else."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import pytest

from queenmq.spark.report.charts import Chart, Series, bar_chart, column_chart, line_chart
from queenmq.spark.report.numbers import duration, plain, size, ticks, time_labels
from queenmq.spark.report.rendering import environment

T0 = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = [T0 + timedelta(minutes=5 * number) for number in range(12)]


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (plain, 0, "0"),
        (plain, 9_999, "9,999"),
        (plain, 12_345, "12.3k"),
        (plain, 4_500_000, "4.5M"),
        (plain, 2.5, "2.5"),
        (size, 900, "900 B"),
        (size, 1_536, "1.5 KiB"),
        (size, 3 * 1024**3, "3 GiB"),
        (duration, 0.25, "0.25 ms"),
        (duration, 1_500, "1.5 s"),
        (duration, 90_000, "1.5 min"),
        (duration, 200_000_000, "2.31 d"),
    ],
)
def test_numbers_are_short(form: object, value: float, text: str) -> None:
    assert callable(form) and form(value) == text


@pytest.mark.parametrize("highest", [0, 0.3, 1, 7, 99, 100, 101, 12_345, 1e9])
def test_ticks_reach_the_highest_value_in_few_round_steps(highest: float) -> None:
    marks = ticks(highest)
    assert marks[0] == 0 and marks[-1] >= highest
    assert 2 <= len(marks) <= 6
    assert all(float(mark).is_integer() for mark in ticks(highest, is_whole=True))


def test_labels_of_days_have_no_hour() -> None:
    days = [T0 + timedelta(days=number) for number in range(5)]
    assert [label for _, label in time_labels(days)] == [
        "Jan 01",
        "Jan 02",
        "Jan 03",
        "Jan 04",
        "Jan 05",
    ]
    assert time_labels(TIMES, wanted=3)[1] == (4, "00:20")


def drawn(chart: Chart) -> str:
    """The figure as HTML."""
    module = environment().get_template("charts.html").module
    return str(module.figure(chart))  # type: ignore[attr-defined]


def parsed(chart: Chart) -> ET.Element:
    """The figure; HTML of our charts is well-formed XML."""
    return ET.fromstring(drawn(chart))


def test_a_line_breaks_where_a_value_is_missing() -> None:
    values = [1.0, 2.0, None, 3.0, *[None] * 8]
    figure = parsed(line_chart("T", "about", TIMES, [Series("a", values)]))
    assert len(figure.findall(".//path[@class='line s1']")) == 2
    assert len(figure.findall(".//circle")) == 1, "a value on its own is a dot"


def test_a_chart_has_title_description_and_its_numbers_in_a_table() -> None:
    series = [Series("a", [1.0] * 12), Series("b", [None] * 11 + [2.0]), Series("c", [None] * 12)]
    figure = parsed(line_chart("Speed <1>", "How & why", TIMES, series))
    svg = figure.find("svg")
    assert svg is not None and svg.get("role") == "img"
    told = [svg.find(name) for name in ("title", "desc")]
    assert [each.text for each in told if each is not None] == ["Speed <1>", "How & why"]
    assert svg.get("aria-labelledby") == " ".join(e.get("id", "") for e in told if e is not None)
    head = [cell.text for cell in figure.findall(".//thead//th")]
    assert head == ["time", "a", "b"], "what has no value at all is left out"
    assert [cell.text for cell in figure.findall(".//tbody/tr[12]/*")][1:] == ["1", "2"]


def test_text_from_outside_is_escaped_everywhere() -> None:
    evil = "</title><script>alert('x')</script>\"&"
    for chart in (
        line_chart(evil, evil, TIMES, [Series(evil, [1.0] * 12), Series("b", [2.0] * 12)]),
        bar_chart(evil, evil, [(evil, 3, evil)], column=evil),
        column_chart(evil, evil, [(evil, 3)], column=evil),
        line_chart(evil, evil, TIMES, [], otherwise=evil),
    ):
        assert "<script" not in drawn(chart)
        assert parsed(chart).find(".//script") is None


def test_bars_are_as_long_as_their_values() -> None:
    figure = parsed(bar_chart("T", "about", [("a", 100, ""), ("b", 25, "")], column="x"))
    first, second = (float(bar.get("width", "0")) for bar in figure.findall(".//rect"))
    assert first == pytest.approx(4 * second, abs=0.1)


def test_what_is_not_there_is_said() -> None:
    assert "No partitions in this range." in drawn(bar_chart("T", "about", [], column="partitions"))
    assert "Not known" in drawn(
        line_chart("T", "a", TIMES, [Series("a", [None] * 12)], otherwise="Not known")
    )


def test_the_page_asks_for_nothing_else() -> None:
    pa = pytest.importorskip("pyarrow")
    from queenmq.spark.jobs.analytics.results import TABLES, Results, Run
    from queenmq.spark.jobs.ranges import Range
    from queenmq.spark.report.page import render

    run = Run({"queue": "<orders>"}, Range(T0, T0 + timedelta(hours=1), 300))
    rows = {name: [dict.fromkeys(columns)] for name, (columns, _) in TABLES.items()}
    for row in rows["queues"]:
        row.update(queue="<orders>", keeps_history=False, partitions=0, pushed=0, bytes=0)
    tables = {
        name: pa.Table.from_pylist(found if name == "queues" else []).select(
            [] if name != "queues" else list(TABLES[name][0])
        )
        for name, found in rows.items()
    }
    page = render(Results(run, tables))
    assert "&lt;orders&gt;" in page and "<orders>" not in page
    assert not re.search(r"https?://|<script|<link|<img|@import|url\(", page)
    assert "default-src 'none'" in page and "prefers-color-scheme: dark" in page
    assert "$" not in page and "{{" not in page and "{%" not in page
