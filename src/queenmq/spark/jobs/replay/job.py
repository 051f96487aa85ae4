"""The job `replay`: messages of a lake to queues again, in their order, once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from queenmq.errors import InvalidRequest
from queenmq.spark.jobs.bulk import cut, write
from queenmq.spark.jobs.job import About, Progress, Summary, Table
from queenmq.spark.jobs.replay.options import ReplayOptions
from queenmq.spark.jobs.runs import recorded
from queenmq.spark.lake.reading import read_messages
from queenmq.spark.runtime.failures import spark_failures
from queenmq.spark.sink.options import SEALED_FOR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SAMPLE = 5
#: Characters of a payload in a sample.
_SHOWN = 80
#: Times never go back within a partition, so this keeps the order of seq in each, and lets all
#: partitions go on together as they did.
_ORDER = ("created_at", "partition_id", "seq")


class Replay:
    """One replay."""

    def __init__(self, options: ReplayOptions) -> None:
        self._options = options

    def plan(self, spark: SparkSession) -> Summary:
        """Counts by queue, and the first messages."""
        from pyspark.sql import functions as F

        rows = self._rows(spark)
        with spark_failures("the lake cannot be read"):
            found = (
                rows.groupBy("source", "queue")
                .agg(
                    F.count("*").alias("messages"),
                    F.count_distinct("partition").alias("partitions"),
                    F.min("created_at").alias("first"),
                    F.max("created_at").alias("last"),
                )
                .orderBy("source", "queue")
                .collect()
            )
            sample = rows.orderBy(*_ORDER).limit(_SAMPLE).collect()
        messages = sum(row["messages"] for row in found)
        columns = ("source", "queue", "messages", "partitions", "first", "last")
        shown = ("queue", "partition", "transaction_id", "payload")
        tables = {
            "queues": Table(columns, [tuple(map(_text, row)) for row in found]),
            "sample": Table(
                shown, [tuple(str(row[name])[:_SHOWN] for name in shown) for row in sample]
            ),
        }
        return Summary("replay", self._head() | self._duration(messages), tables)

    def about(self) -> About:
        """Return the name of the job, its database and its options."""
        queues = ", ".join(self._options.queues) or "all"
        return About("replay", self._options.url, {"queues": queues, **self._head()})

    @recorded
    def run(self, spark: SparkSession, progress: Progress) -> Summary:
        """Write all batches that were not written before."""
        options = self._options
        progress.report("reading the lake")
        rows = self._rows(spark)
        salt = f"replay:{options.target_queue or ''}\n{options.name}"
        with (
            spark_failures("the lake cannot be read"),
            cut(spark, rows, _ORDER, size=options.size, salt=salt) as batches,
        ):
            written = write(batches, options.sink, progress, rate=options.rate)
        figures = self._head() | written.figures
        return Summary("replay", figures, is_ok=written.messages_left == 0)

    def _rows(self, spark: SparkSession) -> DataFrame:
        """Return the messages as they are to be written, and where each came from."""
        from pyspark.sql import functions as F

        options = self._options
        chosen = self._select_messages(spark)
        target = F.lit(options.target_queue) if options.target_queue else F.col("queue")
        rule = options.partition_expression
        partition = F.expr(f"({rule})").cast("string") if rule else F.col("partition")
        transaction_id = F.col("transaction_id")
        if options.has_fresh_ids:
            parts = (F.lit(options.name), F.col("partition_id"), F.col("seq").cast("string"))
            transaction_id = F.concat(F.lit("replay-"), F.md5(F.concat_ws("\n", *parts)))
        with spark_failures("--partition-expression cannot be used"):
            rows = chosen.select(
                F.col("queue").alias("source"),
                target.alias("queue"),
                partition.alias("partition"),
                transaction_id.alias("transaction_id"),
                "trace_id",
                "payload",
                # They stay as the lake has them until the sink encrypts them for where they go.
                F.when(
                    F.col("is_encrypted"), F.struct("queue", "partition", "transaction_id")
                ).alias(SEALED_FOR),
                *_ORDER,
            )
        with spark_failures("the lake cannot be read"):
            are_sealed = chosen.where("is_encrypted").limit(1).count() > 0
        if are_sealed and options.key_file is None:
            raise InvalidRequest(
                "some of these messages are encrypted, and only their keys can encrypt them for"
                " where they go; name the key file by --encryption-keys, or leave them out with"
                " --where 'NOT is_encrypted'"
            )
        # Without such messages the batches keep the names that they had.
        return rows if are_sealed else rows.drop(SEALED_FOR)

    def _select_messages(self, spark: SparkSession) -> DataFrame:
        """Return the selected messages of the lake."""
        from pyspark.sql import functions as F

        options = self._options
        rows = read_messages(
            spark,
            options.lake,
            queues=options.queues or None,
            since=options.since and options.since.astimezone(UTC).date(),
            until=options.last_moment and options.last_moment.astimezone(UTC).date(),
        )
        if options.partitions:
            rows = rows.where(F.col("partition").isin(*options.partitions))
        if options.since:
            rows = rows.where(F.col("created_at") >= F.lit(options.since))
        if options.until:
            rows = rows.where(F.col("created_at") < F.lit(options.until))
        if options.where:
            with spark_failures("--where cannot be used"):
                rows = rows.where(f"({options.where})")
        return rows

    def _head(self) -> dict[str, Any]:
        options = self._options
        return {"lake": options.lake.location, "target": options.target_queue or "the same queues"}

    def _duration(self, messages: int) -> dict[str, Any]:
        rate = self._options.rate
        figures: dict[str, Any] = {"messages": messages}
        figures["batches"] = -(-messages // self._options.size)
        return figures if rate is None else figures | {"takes at least (s)": messages / rate}


def _text(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value
