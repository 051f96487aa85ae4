"""Reads the inputs of the analytics job: messages by the source, other tables by bounded
statements.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from queenmq.spark.database.connection import Database
from queenmq.spark.database.sql_text import Sql, fill, load
from queenmq.spark.database.statements import read_statements
from queenmq.spark.jobs.choice import Choice
from queenmq.spark.jobs.ranges import Range
from queenmq.spark.source.planning import TASK_ROWS, Queues, count, find_queues, horizon
from queenmq.spark.source.selection import Selection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Partitions per statement; each may search for its place in time.
PART_PARTITIONS = 5_000

_PLACE = "queue string, partition string, partition_id string"
STEPS = (
    f"{_PLACE}, consumer_group string, id bigint, passed_at timestamp, first_seq bigint,"
    " last_seq bigint, consumed bigint, retries bigint"
)
LAST_STEPS = "queue string, partition_id string, consumer_group string, reached bigint"
LATENCIES = f"{_PLACE}, consumer_group string, passed_at timestamp, latency_ms double"
HEADS = f"{_PLACE}, first_seq bigint, last_seq bigint, start_seq bigint"
CURSORS = "queue string, partition_id string, consumer_group string, cursor_seq bigint"
DEAD_LETTERS = (
    f"{_PLACE}, consumer_group string, error string, bucket_at timestamp, letters bigint,"
    " first_at timestamp, last_at timestamp"
)


@dataclass(frozen=True)
class Queue:
    """A queue as the job begins."""

    id: UUID
    name: str
    keeps_history: bool
    partitions: int


@dataclass(frozen=True)
class Scene:
    """The subject of one run. Everything is read up to one transaction horizon."""

    choice: Choice
    span: Range
    queues: tuple[Queue, ...]
    found: Queues
    xid: int
    #: Messages in the range; None: not counted.
    messages: int | None = None


def find_scene(choice: Choice, span: Range, *, counts: bool = False) -> Scene:
    """Find the queues and the horizon."""
    with Database(choice.url) as database:
        found = find_queues(database, choice.scope())
        rows = []
        if found.ids:
            rows = database.rows(fill(load("analytics")["chosen"], queues=found.ids))
        queues = tuple(
            Queue(UUID(row["id"]), row["name"], row["keeps_history"], row["partitions"])
            for row in rows
        )
        xid = horizon(database)
        messages = None
        if counts:
            selection = Selection(
                found.ids,
                end=xid,
                partitions=found.partitions,
                time_from=span.start,
                time_before=span.end,
            )
            messages = count(database, selection)
    return Scene(choice, span, queues, found, xid, messages)


class Inputs:
    """The DataFrames of one run."""

    def __init__(self, spark: SparkSession, scene: Scene) -> None:
        self._spark = spark
        self._scene = scene
        self._sql = load("analytics")
        chosen = scene.found.partitions
        self._partitions = (
            self._sql["all_partitions"]
            if chosen is None
            else fill(self._sql["some_partitions"], partitions=chosen)
        )

    def messages(self) -> DataFrame:
        """Return the messages pushed in the range, with the sizes of their payloads."""
        from pyspark.sql import functions as F

        scene = self._scene
        options = {
            "url": scene.choice.url,
            **scene.choice.options(),
            "endingOffsets": json.dumps({"xid": str(scene.xid)}),
            # Retention may run meanwhile. Messages that it removes are not measured.
            "failOnDataLoss": "false",
            # It takes as many bytes as are stored.
            "encryptedPayloads": "stored",
        }
        frame = self._spark.read.format("queen").options(**options).load()
        return frame.where(
            (F.col("created_at") >= F.lit(scene.span.start))
            & (F.col("created_at") < F.lit(scene.span.end))
        ).select(
            "queue",
            "partition",
            "partition_id",
            "seq",
            "created_at",
            "producer_sub",
            F.octet_length("payload").cast("bigint").alias("bytes"),
        )

    def steps(self) -> DataFrame:
        """Return the moves of cursors since the range began, including those after it."""
        return self._read("steps", self._history(None), STEPS)

    def last_steps(self) -> DataFrame:
        """Return the last move of each cursor before the range began."""
        kept = {queue.id for queue in self._scene.queues if queue.keeps_history}
        start = self._scene.span.start
        parts = ({**part, "start": start} for part in self._parts() if part["queue"] in kept)
        return self._read("last_steps", parts, LAST_STEPS)

    def latencies(self) -> DataFrame:
        """Return a row per message and group that has consumed it in the range."""
        return self._read("latencies", self._history(self._scene.span.end), LATENCIES)

    def heads(self) -> DataFrame:
        """Return a row per partition."""
        start = self._scene.span.start
        return self._read("heads", ({**part, "start": start} for part in self._parts()), HEADS)

    def cursors(self) -> DataFrame:
        """Return a row per partition and group."""
        return self._read("cursors", self._parts(), CURSORS)

    def dead_letters(self) -> DataFrame:
        """Count dead letters by partition, group, error and bucket."""
        span = self._scene.span
        values = (
            {"queue": q.id, "start": span.start, "end": span.end, "bucket": span.bucket_s}
            for q in self._scene.queues
        )
        return self._read("dead_letters", values, DEAD_LETTERS)

    def _read(self, name: str, values: Iterator[dict[str, Any]], schema: str) -> DataFrame:
        statements = [fill(self._sql[name], partitions=self._partitions, **each) for each in values]
        return read_statements(self._spark, self._scene.choice.url, statements, schema)

    def _parts(self) -> Iterator[dict[str, Any]]:
        for queue in self._scene.queues:
            parts = max(1, -(-queue.partitions // PART_PARTITIONS))
            for number in range(parts):
                part: Sql = fill(self._sql["part"], part=number, parts=parts)
                yield {"queue": queue.id, "part": part}

    def _history(self, end: datetime | None) -> Iterator[dict[str, Any]]:
        """Yield parts of the history, the last of each queue open to the future where no end is
        given.
        """
        scene = self._scene
        kept = [queue.id for queue in scene.queues if queue.keeps_history]
        if not kept:
            return
        start = scene.span.start
        statement = fill(
            self._sql["history_parts"], queues=kept, start=start, xid=scene.xid, rows=TASK_ROWS
        )
        with Database(scene.choice.url) as database:
            rows = database.rows(statement)
        for row, following in zip(rows, [*rows[1:], None], strict=True):
            is_last = following is None or following["queue_id"] != row["queue_id"]
            until = None if is_last or following is None else following["first"]
            if end is not None:
                if row["first"] >= end:
                    continue
                until = end if until is None else min(end, until)
            yield {
                "queue": UUID(row["queue_id"]),
                "xid": scene.xid,
                "start": row["first"],
                "end": Sql("infinity") if until is None else until,
            }
