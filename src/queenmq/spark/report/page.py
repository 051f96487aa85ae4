"""Builds the report of a run of the analytics job from its tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from queenmq.spark.report import rendering
from queenmq.spark.report.charts import Chart, Series, bar_chart, column_chart, line_chart
from queenmq.spark.report.numbers import duration, moment, percent, plain, size

if TYPE_CHECKING:
    from queenmq.spark.jobs.analytics.results import Results

#: Queues with their own charts. The others are in the table at the top.
_QUEUES_MAX = 12
_GROUPS_MAX = 4
_BARS_MAX = 10
_UNKNOWN = "—"

Row = dict[str, Any]


@dataclass(frozen=True)
class _Table:
    """A table of the page."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class _Section:
    """A queue with its charts."""

    name: str
    about: str
    charts: Sequence[Chart]


def render(results: Results) -> str:
    """Return the whole page."""
    span = results.run.span
    queues = sorted(results.rows("queues"), key=lambda row: (-row["pushed"], row["queue"]))
    groups = results.rows("groups")
    chosen = ", ".join(f"{name} {value}" for name, value in sorted(results.run.scope.items()))
    return rendering.render(
        "page.html",
        title="Queen analytics",
        about=f"{moment(span.start)} to {moment(span.end)}, in buckets of"
        f" {duration(span.bucket_s * 1000)}. Queues by {chosen}.",
        tiles=_tiles(results, queues, groups),
        silent=_silent(queues),
        tables=[_queue_table(queues), _group_table(groups)],
        queues=[
            _queue(results, row, [g for g in groups if g["queue"] == row["queue"]])
            for row in queues[:_QUEUES_MAX]
        ],
        left=len(queues) - _QUEUES_MAX,
        footer=f"Run {results.run.id}. All times are UTC. This file is self-contained.",
    )


def _tiles(results: Results, queues: Sequence[Row], groups: Sequence[Row]) -> list[tuple[str, str]]:
    p95 = [row["latency_p95_ms"] for row in groups if row["latency_p95_ms"] is not None]
    return [
        ("Pushed", plain(results.run.messages)),
        ("Payload", size(sum(row["bytes"] for row in queues))),
        ("Consumed", _format_or_dash(_sum(groups, "consumed"), plain)),
        ("Backlog now", plain(_sum(groups, "backlog_now") or 0)),
        ("Slowest p95", _format_or_dash(max(p95, default=None), duration)),
        ("Dead letters", plain(_sum(groups, "dead_letters") or 0)),
    ]


def _sum(rows: Sequence[Row], column: str) -> int | None:
    known = [row[column] for row in rows if row[column] is not None]
    return sum(known) if known else None


def _format_or_dash(value: float | None, form: Any) -> str:
    return _UNKNOWN if value is None else str(form(value))


def _silent(queues: Sequence[Row]) -> str:
    """Return the queues of which consumption is not known; empty if there are none."""
    silent = [row["queue"] for row in queues if not row["keeps_history"]]
    return ", ".join(silent[:8]) + (f" and {len(silent) - 8} more" if len(silent) > 8 else "")


def _queue_table(queues: Sequence[Row]) -> _Table:
    columns = (
        "queue",
        "ack history",
        "partitions",
        "pushed",
        "payload",
        "largest / mean",
        "Gini",
        "payload p50",
        "p95",
        "max",
    )
    rows = [
        (
            row["queue"],
            "yes" if row["keeps_history"] else "no",
            plain(row["partitions"]),
            plain(row["pushed"]),
            size(row["bytes"]),
            _format_or_dash(row["max_by_mean"], plain),
            _format_or_dash(row["gini"], lambda value: f"{value:.2f}"),
            _format_or_dash(row["payload_p50"], size),
            _format_or_dash(row["payload_p95"], size),
            _format_or_dash(row["payload_max"], size),
        )
        for row in queues
    ]
    return _Table("Queues, and how evenly pushes fall on their partitions", columns, rows)


def _group_table(groups: Sequence[Row]) -> _Table:
    columns = (
        "queue",
        "group",
        "backlog now",
        "consumed",
        "p50",
        "p95",
        "p99",
        "retries",
        "dead letters",
    )
    rows = [
        (
            row["queue"],
            _group_name(row["consumer_group"]),
            plain(row["backlog_now"]),
            _format_or_dash(row["consumed"], plain),
            *(
                _format_or_dash(row[f"latency_{share}_ms"], duration)
                for share in ("p50", "p95", "p99")
            ),
            _format_or_dash(row["retries"], plain),
            plain(row["dead_letters"]),
        )
        for row in groups
    ]
    return _Table("Consumer groups, and the time from push to ack", columns, rows)


def _group_name(group: str) -> str:
    return "default group" if group == "__QUEUE_MODE__" else group


def _queue(results: Results, queue: Row, groups: Sequence[Row]) -> _Section:
    about = (
        f"{plain(queue['pushed'])} messages in {plain(queue['partitions'])} partitions,"
        f" {len(groups)} consumer group{'' if len(groups) == 1 else 's'}."
    )
    return _Section(queue["queue"], about, list(_charts(results, queue, groups)))


def _charts(results: Results, queue: Row, groups: Sequence[Row]) -> Iterator[Chart]:
    name = queue["queue"]
    lines = [row for row in results.rows("timeline") if row["queue"] == name]
    times = results.run.span.starts()
    places = {time: place for place, time in enumerate(times)}

    def values(group: str | None, column: str) -> list[float | None]:
        found: list[float | None] = [None] * len(times)
        for row in lines:
            if row["consumer_group"] == group:
                found[places[_utc(row["bucket_at"])]] = row[column]
        return found

    names = [row["consumer_group"] for row in groups]
    otherwise = "No values in this range."
    if not queue["keeps_history"]:
        otherwise = "Not known: this queue keeps no ack history."
    yield line_chart(
        "Throughput",
        f"Messages of {name} pushed, and consumed by each group, per bucket.",
        times,
        [
            Series("pushed", values(None, "pushed")),
            *(Series(f"consumed by {_group_name(g)}", values(g, "consumed")) for g in names),
        ],
        is_area=True,
    )
    yield line_chart(
        "Backlog",
        f"Messages of {name} before each group at the end of each bucket.",
        times,
        [Series(_group_name(g), values(g, "backlog")) for g in names],
        otherwise=otherwise,
    )
    # Without a history one empty chart says it for all groups.
    for group in names[: _GROUPS_MAX if queue["keeps_history"] else 1]:
        yield line_chart(
            f"Time from push to ack, {_group_name(group)}",
            f"Percentiles of the latency of {name} for the group {_group_name(group)}.",
            times,
            [
                Series(share, values(group, f"latency_{share}_ms"))
                for share in ("p50", "p95", "p99")
            ],
            form=duration,
            otherwise=otherwise,
        )
    yield from _shares(results, name)


def _shares(results: Results, queue: str) -> Iterator[Chart]:
    def rows(name: str) -> list[Row]:
        return [row for row in results.rows(name) if row["queue"] == queue]

    yield bar_chart(
        "Hottest partitions",
        f"Partitions of {queue} with most messages pushed.",
        [
            (row["partition"], row["pushed"], percent(row["share"]))
            for row in rows("hottest")[:_BARS_MAX]
        ],
        column="partitions with pushes",
    )
    dead_letters = sorted(rows("dead_letters"), key=lambda row: -row["letters"])[:_BARS_MAX]
    yield bar_chart(
        "Dead letters by error",
        f"Dead letters of {queue} by the text of their error, numbers and ids left out.",
        [
            (row["error"], row["letters"], _group_name(row["consumer_group"]))
            for row in dead_letters
        ],
        column="dead letters",
    )
    yield column_chart(
        "Payload sizes",
        f"Messages of {queue} by the size of their payload, in powers of two.",
        [(size(row["up_to_bytes"]), row["messages"]) for row in rows("payload_sizes")],
        column="up to",
    )
    producers = sorted(rows("producers"), key=lambda row: -row["pushed"])[:_BARS_MAX]
    yield bar_chart(
        "Producers",
        f"Who pushed to {queue}.",
        [(_producer(row), row["pushed"], size(row["bytes"])) for row in producers],
        column="producers",
    )


def _producer(row: Row) -> str:
    if row["rank"] is None:
        return "all others"
    return "without a name" if row["producer"] is None else str(row["producer"])


def _utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
