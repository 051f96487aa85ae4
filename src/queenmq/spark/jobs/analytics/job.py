"""The job `analytics`: measures queues and their consumer groups over a range of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queenmq.errors import SettingsError
from queenmq.spark.jobs.analytics.inputs import Inputs, Scene, find_scene
from queenmq.spark.jobs.analytics.results import (
    LAKE_ROWS_MAX,
    Results,
    Run,
    collect,
    of_partitions,
    publish,
    total,
    write_lake,
)
from queenmq.spark.jobs.choice import Choice
from queenmq.spark.jobs.job import About, Progress, Summary, Table
from queenmq.spark.jobs.ranges import Range
from queenmq.spark.jobs.runs import recorded
from queenmq.spark.runtime.failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STAGES = 8
#: Of the summary: column of the table, and its name there.
_GROUP_COLUMNS = {
    "queue": "queue",
    "consumer_group": "group",
    "backlog_now": "backlog",
    "consumed": "consumed",
    "latency_p50_ms": "p50_ms",
    "latency_p95_ms": "p95_ms",
    "latency_p99_ms": "p99_ms",
    "retries": "retries",
    "dead_letters": "letters",
}


@dataclass(frozen=True)
class Analytics:
    """One run; see `queenmq.spark.jobs.job.Job`."""

    choice: Choice
    span: Range
    #: Partitions, producers and errors of each queue that are listed by name.
    top: int = 20
    lake: str | None = None
    report: Path | None = None

    def plan(self, spark: SparkSession) -> Summary:
        """Return how much there is to read."""
        scene = find_scene(self.choice, self.span, counts=True)
        rows = [(q.name, q.partitions, q.keeps_history) for q in scene.queues]
        figures = {**self._about(), "messages": scene.messages}
        return Summary(
            "analytics", figures, {"queues": Table(("queue", "partitions", "ack history"), rows)}
        )

    def about(self) -> About:
        """Return the name of the job, its database and its options."""
        return About("analytics", self.choice.url, {**self.choice.options(), **self._about()})

    @recorded
    def run(self, spark: SparkSession, progress: Progress) -> Summary:
        """Read, work out, and put the results where they belong."""
        progress.report("reading the queues", 0, _STAGES)
        scene = find_scene(self.choice, self.span)
        workshop = _Workshop(spark, scene, self.top, is_whole=self.lake is not None)
        with spark_failures("the queues cannot be measured"):
            results = workshop.work(progress)
        stored = results
        if self.lake is not None:
            progress.report("writing to the lake", 5, _STAGES)
            write_lake(self.lake, results)
            hottest = results.tables["hottest"]
            hot = of_partitions(results.tables["partitions"], hottest)
            stored = replace(results, tables={**results.tables, "partitions": hot})
        progress.report("writing to the tables of the API", 6, _STAGES)
        publish(self.choice.url, stored)
        if self.report is not None:
            progress.report("writing the report", 7, _STAGES)
            _write(self.report, stored)
        progress.report("done", _STAGES, _STAGES)
        return self._summary(results)

    def _about(self) -> dict[str, Any]:
        return {
            "from": self.span.start.isoformat(),
            "to": self.span.end.isoformat(),
            "bucket": f"{self.span.bucket_s} s",
            "buckets": self.span.buckets,
        }

    def _summary(self, results: Results) -> Summary:
        queues, groups = results.rows("queues"), results.rows("groups")
        figures = {
            **self._about(),
            "run": results.run.id,
            "messages": results.run.messages,
            "consumed": total(results.tables["groups"], "consumed"),
            "dead letters": total(results.tables["groups"], "dead_letters"),
        }
        silent = [row["queue"] for row in queues if not row["keeps_history"]]
        if silent:
            figures["without ack history"] = (
                f"{len(silent)} of {len(queues)} queues; the consumption and latency of"
                " their groups are unknown"
            )
        if self.lake is not None:
            figures["lake"] = f"{self.lake.rstrip('/')}/analytics"
        if self.report is not None:
            figures["report"] = str(self.report)
        columns = ("queue", "partitions", "pushed", "bytes", "max_by_mean", "gini", "payload_p95")
        return Summary(
            "analytics",
            figures,
            {
                "queues": Table(columns, [tuple(row[c] for c in columns) for row in queues]),
                "groups": Table(
                    tuple(_GROUP_COLUMNS.values()),
                    [tuple(row[c] for c in _GROUP_COLUMNS) for row in groups],
                ),
            },
        )


def _write(path: Path, results: Results) -> None:
    from queenmq.spark.report.page import render

    try:
        path.write_text(render(results), encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"--report {path} cannot be written: {error.strerror}") from error


class _Workshop:
    """The DataFrames of one run, each read or worked out once."""

    def __init__(self, spark: SparkSession, scene: Scene, top: int, *, is_whole: bool) -> None:
        self._spark = spark
        self._scene = scene
        self._top = top
        self._is_whole = is_whole
        self._kept: list[DataFrame] = []

    def work(self, progress: Progress) -> Results:
        """Return all tables."""
        try:
            return self._work(progress)
        finally:
            for frame in self._kept:
                frame.unpersist()

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame)
        return frame.persist()

    def _work(self, progress: Progress) -> Results:
        from queenmq.spark.jobs.analytics import measures as m

        span, top = self._scene.span, self._top
        kept = [queue.name for queue in self._scene.queues if queue.keeps_history]
        inputs = Inputs(self._spark, self._scene)
        progress.report("reading messages", 1, _STAGES)
        messages = self._keep(inputs.messages())
        pushes = self._keep(m.pushes(messages, span))
        heads = self._keep(inputs.heads())
        partitions = self._keep(m.by_partition(pushes, heads))
        tables = {
            "hottest": collect("hottest", m.hottest(partitions, top)),
            "producers": collect("producers", m.producers(messages, top)),
            "payload_sizes": collect("payload_sizes", m.payload_sizes(messages)),
            "queues": collect("queues", self._queues(m, partitions, messages)),
        }
        progress.report("reading what consumers did", 2, _STAGES)
        cursors = self._keep(inputs.cursors())
        dead_letters = self._keep(inputs.dead_letters())
        steps = self._keep(inputs.steps())
        consumed = self._keep(m.consumption(steps, span))
        latencies = self._keep(m.in_buckets(inputs.latencies(), "passed_at", span))
        places = self._keep(m.places(heads, cursors, steps, inputs.last_steps(), kept))
        backlogs = self._keep(m.backlogs(places, pushes, consumed))
        every = self._keep(self._groups(cursors, dead_letters))
        tables["dead_letters"] = collect("dead_letters", m.errors(dead_letters, top))
        tables["groups"] = collect(
            "groups", m.group_totals(every, kept, heads, cursors, consumed, latencies, dead_letters)
        )
        progress.report("computing the timeline", 3, _STAGES)
        starts = m.start_backlogs(places)
        tables["timeline"] = collect(
            "timeline",
            m.timeline(
                span, kept, every, pushes, consumed, backlogs, starts, latencies, dead_letters
            ),
        )
        progress.report("computing the partitions", 4, _STAGES)
        series = m.partition_series(pushes, consumed, backlogs, latencies, dead_letters, heads)
        if self._is_whole:
            tables["partitions"] = collect("partitions", series, limit=LAKE_ROWS_MAX)
        else:
            hot = m.hottest(partitions, top).select("partition_id")
            tables["partitions"] = collect(
                "partitions", series.join(hot, "partition_id", "left_semi")
            )
        run = Run(self._scene.choice.options(), span, total(tables["queues"], "pushed"))
        return Results(run, tables)

    def _queues(self, m: Any, partitions: DataFrame, messages: DataFrame) -> DataFrame:
        named = self._spark.createDataFrame(
            [(queue.name, queue.keeps_history) for queue in self._scene.queues],
            "queue string, keeps_history boolean",
        )
        found = m.join_frames(["queue"], named, m.skew(partitions), m.payload_shares(messages))
        known: DataFrame = found.fillna(0, ["partitions", "pushed", "bytes"])
        return known

    def _groups(self, cursors: DataFrame, dead_letters: DataFrame) -> DataFrame:
        """Return every queue, without a group and with each that it has."""
        schema = "queue string, consumer_group string"
        named = self._spark.createDataFrame([(q.name, None) for q in self._scene.queues], schema)
        pair = ["queue", "consumer_group"]
        return named.unionByName(
            cursors.select(*pair).unionByName(dead_letters.select(*pair)).distinct()
        )
