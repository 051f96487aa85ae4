"""Finds the messages that a stream did not use: late for their window, or unfit.

Spark drops late rows and reports how many, after it has aggregated them, but not which. But the job
can read a batch again exactly, and the checkpoint has the watermark of the batch. So the job reads
batches that dropped something once more, counts the dropped messages and sets them aside.

The job may repeat this: rows go to a queue with fixed transaction ids, or to a table under the
number of the batch.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from queenmq.spark.streams.checkpoint import Checkpoint, Note
from queenmq.spark.streams.lake import append_once
from queenmq.spark.streams.query import REASON, Query

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

logger = logging.getLogger(__name__)

LATE = "late"
_ABOUT = ("queue", "partition", "seq", "message_id", "transaction_id", "created_at")


class Aside:
    """The messages that one stream set aside since its beginning."""

    def __init__(self, spark: SparkSession, query: Query, checkpoint: Checkpoint) -> None:
        self._spark = spark
        self._query = replace(query, is_checked=True)
        self._checkpoint = checkpoint
        note = checkpoint.note()
        self._kept = note
        #: The last batch that was checked, or needs no check.
        self.batch = note.batch
        self.counts = Counter(note.counts or {})
        #: Batches that could not be checked because Spark had removed its records of them.
        self.missed: list[int] = []

    @property
    def total(self) -> int:
        """Return messages that were not used."""
        return sum(self.counts.values())

    def pass_over(self, batch: int) -> None:
        """Note that a batch has used all it read."""
        self.catch_up(batch - 1)
        self.batch = max(self.batch, batch)

    def catch_up(self, batch: int) -> None:
        """Check all batches up to this one that were not checked."""
        for number in range(self.batch + 1, batch + 1):
            self._check_batch(number)
            self.batch = number

    def keep(self) -> None:
        """Note how far this is."""
        note = Note(self.batch, dict(self.counts))
        if note != self._kept:
            self._checkpoint.keep_note(note)
            self._kept = note

    def _check_batch(self, number: int) -> None:
        batch = self._checkpoint.batch(number)
        if batch is None:
            self.missed.append(number)
            return
        if batch.start >= batch.end:
            return
        messages = self._query.batch(self._spark, batch.start, batch.end)
        prepared = self._query.prepare(messages)
        unfit = prepared.where(F.col(REASON).isNotNull()).withColumn("missed", F.lit(None))
        late = self._query.find_late(prepared, batch.watermark_ms)
        rows = late.unionByName(unfit).withColumn("watermark_ms", F.lit(batch.watermark_ms))
        rows = rows.persist()
        try:
            counts = {row[REASON]: row["count"] for row in rows.groupBy(REASON).count().collect()}
            if counts:
                self._set_aside(rows, number)
        finally:
            rows.unpersist()
        self.counts.update(counts)
        for reason, count in counts.items():
            logger.warning(
                "%d messages of batch %d were not used: %s",
                count,
                number,
                reason,
                extra={"event": "stream_unused", "batch": number, "count": count, "why": reason},
            )

    def _set_aside(self, rows: DataFrame, number: int) -> None:
        late = self._query.definition.late
        name = self._query.definition.name
        if late.queue is not None:
            writer = rows.select(
                "partition",
                _describe_message().alias("payload"),
                F.concat_ws("/", F.lit(f"{name}.late"), "message_id").alias("transaction_id"),
            ).write.format("queen")
            writer.mode("append").options(**self._query.place, queue=late.queue).save()
        elif late.lake is not None:
            table = rows.select(*_ABOUT, F.col(REASON).alias("reason"), "missed", "payload")
            who = f"late:{self._checkpoint.query_id()}"
            # Retention may have removed some of them since the first look.
            append_once(table, late.lake, who, number, identity=None)


def _describe_message() -> Column:
    """Return the reason, and the message with its payload as pushed."""
    about = F.to_json(
        F.struct(
            F.col(REASON).alias("reason"),
            "missed",
            F.when(F.col(REASON) == LATE, F.timestamp_millis("watermark_ms")).alias("watermark"),
            *_ABOUT,
        )
    )
    head = F.substring(about, F.lit(1), F.length(about) - 1)
    return F.concat(head, F.lit(',"payload":'), F.coalesce("payload", F.lit("null")), F.lit("}"))
