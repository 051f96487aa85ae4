"""The job `load`: files to a queue in bulk, in order, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queenmq.spark.jobs.bulk import cut, write
from queenmq.spark.jobs.job import About, Progress, Summary, Table
from queenmq.spark.jobs.load.options import LoadOptions
from queenmq.spark.jobs.load.rows import name_rows, read_rows
from queenmq.spark.jobs.runs import recorded
from queenmq.spark.runtime.failures import spark_failures
from queenmq.spark.sink.options import NAME_BYTES_MAX, NAME_LENGTH_MAX

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_SAMPLE = 5
#: Characters of a payload in a sample.
_SHOWN = 80


class Load:
    """One load."""

    def __init__(self, options: LoadOptions) -> None:
        self._options = options

    def plan(self, spark: SparkSession) -> Summary:
        """Return counts, problems of rows, and the first rows."""
        from pyspark.sql import functions as F

        rows, order = read_rows(spark, self._options)
        with spark_failures("the files cannot be read"):
            kept = rows.withColumn("problem", _problem()).persist()
            try:
                (found,) = kept.select(
                    F.count("*").alias("rows"),
                    F.count("problem").alias("bad"),
                    F.count_distinct("partition").alias("partitions"),
                    F.count_distinct("_file").alias("files"),
                    F.count_distinct(F.struct("partition", "transaction_id")).alias("ids"),
                ).collect()
                problems = kept.where("problem IS NOT NULL").groupBy("problem").count().collect()
                sample = kept.orderBy(*order).limit(_SAMPLE).collect()
            finally:
                kept.unpersist()
        figures = {
            **self._head(),
            "files": found["files"],
            "rows": found["rows"],
            "bad rows": found["bad"],
            "rows that repeat an id": found["rows"] - found["ids"],
            "partitions": found["partitions"],
            "batches": -(-found["rows"] // self._options.batch_rows),
        }
        return Summary("load", figures, _tables(problems, sample))

    def about(self) -> About:
        """Return the name of the job, its database and its options."""
        return About("load", self._options.url, self._head())

    @recorded
    def run(self, spark: SparkSession, progress: Progress) -> Summary:
        """Write all batches that were not written before."""
        options = self._options
        progress.report("reading files")
        rows, order = read_rows(spark, options)
        salt = f"load:{options.queue}\n{name_rows(options)}"
        with (
            spark_failures("the files cannot be read"),
            cut(spark, rows, order, size=options.batch_rows, salt=salt) as batches,
        ):
            written = write(batches, options.sink, progress)
        figures = self._head() | written.figures
        return Summary("load", figures, is_ok=written.messages_left == 0)

    def _head(self) -> dict[str, Any]:
        return {"input": ", ".join(self._options.inputs), "queue": self._options.queue}


def _problem() -> Column:
    """Return the problem of a row, as far as Spark can tell. The sink decides."""
    from pyspark.sql import functions as F

    def is_bad(name: str) -> Column:
        text = F.col(name)
        too_long = (F.length(text) > NAME_LENGTH_MAX) | (F.octet_length(text) > NAME_BYTES_MAX)
        return text.isNull() | (text == "") | too_long

    return (
        F.when(is_bad("partition"), "no partition, or too long a name")
        .when(is_bad("transaction_id"), "no transaction id, or too long")
        .when(F.col("payload").isNull(), "no payload")
        .when(F.try_parse_json("payload").isNull(), "the payload is not JSON, or very large")
    )


def _tables(problems: list[Any], sample: list[Any]) -> dict[str, Table]:
    shown = [
        (
            row["partition"],
            row["transaction_id"],
            (row["payload"] or "")[:_SHOWN],
            row["problem"],
        )
        for row in sample
    ]
    return {
        "bad rows": Table(("problem", "rows"), [tuple(row) for row in problems]),
        "sample": Table(("partition", "transaction_id", "payload", "problem"), shown),
    }
