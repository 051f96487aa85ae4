"""Runs a declared stream: until a stop is requested, or once over existing messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from queenmq.errors import InvalidRequest, QueenError
from queenmq.spark.jobs.job import About, Progress, Summary, Table
from queenmq.spark.jobs.runs import recorded
from queenmq.spark.jobs.stopping import stop_requests
from queenmq.spark.runtime.failures import first_sentence
from queenmq.spark.sink.ordering import by_partition
from queenmq.spark.streams.aside import LATE, Aside
from queenmq.spark.streams.checkpoint import Checkpoint
from queenmq.spark.streams.definition import Definition, milliseconds
from queenmq.spark.streams.durations import spark_interval
from queenmq.spark.streams.lake import append_once
from queenmq.spark.streams.query import Query, observe_rows
from queenmq.spark.streams.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: Time between two checks of a running stream.
LOOK_S = 0.5
#: How long a batch may go on after a stop was requested.
_GRACE_S = 30
#: Looks between two notes.
_NOTE_EVERY = 20


class StreamFailed(QueenError):
    """A stream ended by itself. The text has the reason."""


@dataclass
class StreamJob:
    """One run of a declared stream."""

    definition: Definition
    file: str
    url: str
    #: Read existing messages, then end.
    is_once: bool = False
    #: Messages that were not used are something wrong.
    fail_on_late: bool = False
    #: The file with the keys of encrypted queues.
    key_file: str | None = None
    #: Set it to stop the stream.
    stop: threading.Event = field(default_factory=threading.Event)

    def plan(self, spark: SparkSession) -> Summary:
        """Return what the stream would do."""
        checkpoint = self._checkpoint(spark)
        query = self._query()
        prepared = query.prepare(query.stream(spark))
        results = query.results(prepared)
        last = checkpoint.last_batch()
        steps = {"stream": self.definition.name, **_steps(self.definition)}
        steps["place"] = f"after batch {last}" if last >= 0 else "from its start"
        return Summary(
            "stream",
            steps,
            {
                "fields": _schema(prepared.select(*self.definition.fields)),
                "results": _schema(query.to_table(results)),
            },
        )

    def about(self) -> About:
        """Return the name of the job, its database and its options."""
        return About("stream", self.url, {"stream": self.definition.name, "file": self.file})

    @recorded
    def run(self, spark: SparkSession, progress: Progress) -> Summary:
        """Run it."""
        checkpoint = self._checkpoint(spark)
        checkpoint.keep_definition(self.definition.meaning())
        try:
            with _in_utc(spark):
                return self._run(spark, checkpoint, progress)
        except PySparkException as error:
            raise self._make_failure(error) from error

    def _run(self, spark: SparkSession, checkpoint: Checkpoint, progress: Progress) -> Summary:
        query, tally = self._query(), Tally()
        aside = Aside(spark, query, checkpoint)
        before = dict(aside.counts)
        progress.report("checking for unfinished work")
        aside.catch_up(checkpoint.last_batch())
        with stop_requests(self.stop):
            running = self._start(spark, query, checkpoint)
            try:
                self._follow(running, tally, aside, progress)
            finally:
                _end(running)
        self._read_progress(running, tally, aside)
        aside.keep()
        error = running.exception()
        if error is not None:
            raise self._make_failure(error)
        return self._summary(tally, aside, before)

    def _checkpoint(self, spark: SparkSession) -> Checkpoint:
        if not hasattr(spark, "_jsc"):
            raise InvalidRequest(
                "a declared stream cannot run over Spark Connect; use --master instead of --remote"
            )
        checkpoint = Checkpoint(spark, self.definition.checkpoint)
        checkpoint.check_definition(self.definition.meaning(), self.file)
        return checkpoint

    def _query(self) -> Query:
        return Query(self.definition, self.file, self.url, self.key_file)

    def _start(self, spark: SparkSession, query: Query, checkpoint: Checkpoint) -> StreamingQuery:
        results = query.results(observe_rows(query.prepare(query.stream(spark))))
        sink = self.definition.sink
        if sink.queue is not None:
            rows = by_partition(query.to_messages(results))
            options = query.place | {
                "queue": sink.queue,
                "sortWithin": ",".join(query.order),
                "retrySeconds": query.retry_seconds,
            }
            writer = rows.writeStream.format("queen").options(**options)
        else:
            path = sink.lake or ""

            def append(rows: DataFrame, batch: int) -> None:
                writer = f"results:{checkpoint.query_id()}"
                append_once(rows, path, writer, batch, identity=query.identity)

            writer = query.to_rows(results).writeStream.foreachBatch(append)
        writer = writer.option("checkpointLocation", self.definition.checkpoint)
        writer = writer.queryName(self.definition.name).outputMode("append")
        interval = spark_interval(milliseconds(self.definition.trigger))
        trigger = {"availableNow": True} if self.is_once else {"processingTime": interval}
        try:
            return writer.trigger(**trigger).start()
        except PySparkException as error:
            raise InvalidRequest(f"{self.file}: {first_sentence(error)}") from error

    def _follow(
        self, running: StreamingQuery, tally: Tally, aside: Aside, progress: Progress
    ) -> None:
        polls = 0
        while running.isActive and not self.stop.wait(LOOK_S):
            self._read_progress(running, tally, aside)
            progress.report(tally.text(aside.total))
            polls += 1
            if polls % _NOTE_EVERY == 0:
                aside.keep()

    def _read_progress(self, running: StreamingQuery, tally: Tally, aside: Aside) -> None:
        for batch in tally.take(running.recentProgress):
            if batch.is_clean:
                aside.pass_over(batch.number)
            else:
                aside.catch_up(batch.number)
                aside.keep()

    def _make_failure(self, error: BaseException) -> StreamFailed:
        return StreamFailed(f"stream {self.definition.name} stopped: {first_sentence(error)}")

    def _summary(self, tally: Tally, aside: Aside, before: dict[str, int]) -> Summary:
        unused = sum(aside.counts.values()) - sum(before.values())
        late = aside.counts[LATE] - before.get(LATE, 0)
        reasons = [
            (reason, count - before.get(reason, 0), count)
            for reason, count in sorted(aside.counts.items())
        ]
        return Summary(
            "stream",
            {
                "stream": self.definition.name,
                "batches": tally.batches,
                "messages": tally.messages,
                "late": late,
                "unfit": unused - late,
                "open windows": tally.open_windows,
                "dropped by Spark, in rows it had added up": tally.dropped,
                "batches that could not be looked at": len(aside.missed),
                **({"waits for": tally.waits_for} if tally.waits_for else {}),
            },
            {"messages not used": Table(("reason", "this run", "ever"), reasons)},
            is_ok=not aside.missed and not (self.fail_on_late and unused),
        )


def _steps(definition: Definition) -> dict[str, Any]:
    source, window, sink = definition.source, definition.window, definition.sink
    late = definition.late
    shape = "none"
    if window is not None:
        lengths = [window.size, window.slide, window.gap]
        shape = f"{window.type}, {' by '.join(each for each in lengths if each)}, {window.time}"
    chosen = source.queue or source.pattern or f"{source.namespace or '*'}/{source.task or '*'}"
    return {
        "source": chosen if isinstance(chosen, str) else ", ".join(chosen),
        "starting": source.starting,
        "messages per batch": source.max_messages,
        "filter": definition.filter or "none",
        "key": definition.key or "none",
        "window": shape,
        **({"watermark": window.watermark} if window else {}),
        "sink": f"queue {sink.queue}" if sink.queue else f"table {sink.lake}",
        "late": late.queue or late.lake or "counted only",
        "trigger": definition.trigger,
        "checkpoint": definition.checkpoint,
    }


def _schema(frame: DataFrame) -> Table:
    columns = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    return Table(("name", "type"), columns)


def _end(running: StreamingQuery) -> None:
    """Wait for the current batch. An interrupted batch is repeated next time."""
    pause, before = threading.Event(), _last_batch(running)
    for _ in range(int(_GRACE_S / LOOK_S)):
        is_idle = not running.isActive or not running.status["isTriggerActive"]
        if is_idle or _last_batch(running) != before:
            break
        pause.wait(LOOK_S)
    running.stop()


def _last_batch(running: StreamingQuery) -> int | None:
    progress = running.lastProgress
    return None if progress is None else progress["batchId"]


@contextmanager
def _in_utc(spark: SparkSession) -> Iterator[None]:
    """Run in UTC, so that days and times do not depend on where a stream runs."""
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name) or "UTC"
    spark.conf.set(name, "UTC")
    try:
        yield
    finally:
        spark.conf.set(name, before)
