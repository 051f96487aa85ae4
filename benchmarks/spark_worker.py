"""A Spark session in a process of its own, driven by lines of JSON: one piece of work a line.

Way in: `python -m benchmarks.spark_worker <master> [jar]`, started by spark_side.py. A line
`{"work": name, ...}` is answered with `{"seconds": ..., "rows": ...}` or `{"error": ...}`.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any
from urllib.parse import urlsplit

import adbc_driver_postgresql.dbapi as adbc
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

import queenmq.spark
from benchmarks.database import queries
from queenmq.clock import utc_now
from queenmq.spark.jobs.analytics.job import Analytics
from queenmq.spark.jobs.archive.job import ArchiveJob, ArchiveOptions
from queenmq.spark.jobs.choice import Choice
from queenmq.spark.jobs.job import Silent
from queenmq.spark.jobs.ranges import make_range
from queenmq.spark.lake import Lake, read_messages
from queenmq.spark.source.batch_reader import QueenBatchReader
from queenmq.spark.source.data_source import QueenDataSource
from queenmq.spark.source.options import ReadOptions, read_options
from queenmq.spark.source.planning import Split

_DRIVER = "org.postgresql.Driver"
#: Of a batch of inserts and of a fetch: more gained nothing.
_JDBC_ROWS = 10_000
_NOTE = "x" * 130


class RowSource(QueenDataSource):
    """The same read by a source that hands over one row after the other."""

    @classmethod
    def name(cls) -> str:
        return "rows"

    def reader(self, schema: StructType) -> _RowReader:
        return _RowReader(read_options(self.options, is_stream=False))


class _RowReader(QueenBatchReader):
    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._url = options.url

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        with adbc.connect(self._url, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(_statement(partition))
            for row in cursor:
                # UUIDs are objects of Python here, and strings to Spark.
                yield tuple(str(v) if type(v).__name__ == "UUID" else v for v in row)


def _statement(split: InputPartition) -> str:
    if not isinstance(split, Split):
        raise TypeError("there is nothing to read")
    return queries()["read_messages"].format(condition=split.selection.condition())


class Worker:
    """What it can be asked for: a method per piece of work, each with the rows it moved."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def read_ours(self, url: str, queue: str) -> int:
        """The data source."""
        return _drain(self._spark.read.format("queen").options(url=url, queue=queue).load())

    def read_rows(self, url: str, queue: str) -> int:
        """Row at a time."""
        return _drain(self._spark.read.format("rows").options(url=url, queue=queue).load())

    def read_jdbc(self, url: str, queue: str) -> int:
        """The same statements, one per task, by JDBC."""
        options = read_options({"url": url, "queue": queue}, is_stream=False)
        reader = self._spark.read.format("jdbc").options(**_jdbc(url), fetchsize=str(_JDBC_ROWS))
        whole: DataFrame | None = None
        for split in QueenBatchReader(options).partitions():
            part = reader.option("dbtable", f"({_statement(split)}) t").load()
            whole = part if whole is None else whole.unionAll(part)
        if whole is None:
            raise ValueError(f"queue {queue} is empty")
        return _drain(whole)

    def aggregate(self, url: str, queue: str) -> int:
        """Read, parse, group: work for Spark as well as for the database."""
        rows = self._spark.read.format("queen").options(url=url, queue=queue).load()
        return _aggregated(rows, "order.customer")

    def aggregate_lake(self, lake: str, times: int) -> int:
        """The same from files, read so many times over: the database has no part in it."""
        # A task per file: put together, they would be too uneven to share.
        self._spark.conf.set("spark.sql.files.maxPartitionBytes", "32m")
        copies = [read_messages(self._spark, lake) for _ in range(times)]
        return _aggregated(reduce(DataFrame.unionAll, copies), "partition")

    def archive(self, url: str, queue: str, lake: str) -> int:
        """The job, once; the messages that it says it has archived and verified."""
        scope = read_options({"url": url, "queue": queue}, is_stream=False).scope
        summary = ArchiveJob(ArchiveOptions(url, Lake.at(lake), scope)).run(self._spark, Silent())
        if not summary.is_ok:
            raise ValueError(f"the archive is not what the queue is: {summary.tables['findings']}")
        return int(summary.figures["messages archived"])

    def write_parquet(self, url: str, queue: str, folder: str) -> int:
        """The same rows as plain files."""
        rows = self._spark.read.format("queen").options(url=url, queue=queue).load()
        return _counted(rows, lambda frame: frame.write.parquet(folder))

    def analyse(self, url: str, queue: str, bucket: str) -> int:
        """The job, over the last day."""
        span = make_range(None, None, bucket, now=utc_now())
        summary = Analytics(Choice(url, queue=queue), span).run(self._spark, Silent())
        return int(summary.figures["messages"])

    def write_ours(self, url: str, queue: str, rows: int, partitions: int) -> int:
        """The sink: staged and published."""
        frame = self._messages(rows, partitions).withColumn("queue", F.lit(queue))
        frame.write.format("queen").mode("append").options(url=url).save()
        return rows

    def write_jdbc(self, url: str, rows: int, partitions: int, is_joined: bool) -> int:
        """An append to a table without any index."""
        frame = self._messages(rows, partitions).drop("id").withColumn("queue", F.lit("orders"))
        self._append(frame, url, "bench.plain", is_joined)
        return rows

    def write_jdbc_indexed(self, url: str, rows: int, partitions: int, is_joined: bool) -> int:
        """An append to a table of the shape of ours, numbered by whoever writes."""
        frame = self._messages(rows, partitions).select(
            _uuid(F.md5("partition")).alias("partition_id"),
            F.col("id").alias("seq"),
            F.expr("uuid()").alias("id"),
            _uuid(F.md5(F.lit("orders"))).alias("queue_id"),
            F.current_timestamp().alias("created_at"),
            "payload",
        )
        self._append(frame, url, "bench.indexed", is_joined)
        return rows

    def _append(self, frame: DataFrame, url: str, table: str, is_joined: bool) -> None:
        # Strings become what the column is, and inserts one statement if asked for.
        more = "?stringtype=unspecified" + ("&reWriteBatchedInserts=true" if is_joined else "")
        options = _jdbc(url, more) | {"dbtable": table, "batchsize": str(_JDBC_ROWS)}
        frame.write.format("jdbc").mode("append").options(**options).save()

    def _messages(self, rows: int, partitions: int) -> DataFrame:
        """Rows with a payload of about 200 bytes, in a task per core."""
        cores = self._spark.sparkContext.defaultParallelism
        order = F.struct(
            "id",
            F.md5(F.col("id").cast("string")).alias("customer"),
            F.lit(_NOTE).alias("note"),
        )
        return self._spark.range(0, rows, 1, cores).select(
            "id",
            F.concat(F.lit("p"), (F.col("id") % partitions).cast("string")).alias("partition"),
            F.to_json(order).alias("payload"),
        )


def _drain(frame: DataFrame) -> int:
    """All columns of all rows, to nowhere but a count."""
    return _counted(frame, lambda rows: rows.write.format("noop").mode("overwrite").save())


def _counted(frame: DataFrame, write: Callable[[DataFrame], None]) -> int:
    """How many rows were written, without reading them twice."""
    seen = Observation()
    write(frame.observe(seen, F.count(F.lit(1)).alias("rows")))
    return int(seen.get["rows"])


def _aggregated(messages: DataFrame, key: str) -> int:
    """Parse payloads and sum them up by a key and minute; how many there were."""
    orders = messages.select(
        "partition",
        F.from_json("payload", "customer string, amount double").alias("order"),
        F.date_trunc("minute", "created_at").alias("minute"),
    )
    amount, count = F.sum("order.amount").alias("amount"), F.count("*").alias("count")
    sums = orders.groupBy(key, "minute").agg(amount, count)
    # Both are asked for, or Spark would not work out the other one.
    (row,) = sums.agg(F.sum("count").alias("count"), F.max("amount").alias("amount")).collect()
    if not row["amount"]:
        raise ValueError("the payloads have no amounts")
    return int(row["count"])


def _uuid(digits: Any) -> Any:
    return F.regexp_replace(digits, "^(.{8})(.{4})(.{4})(.{4})", "$1-$2-$3-$4-")


def _jdbc(url: str, more: str = "") -> dict[str, str]:
    parts = urlsplit(url)
    return {
        "url": f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}{more}",
        "user": parts.username or "",
        "password": parts.password or "",
        "driver": _DRIVER,
    }


def _session(master: str, jar: str | None) -> SparkSession:
    config = {"spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC"}
    if jar:
        config["spark.jars"] = jar
    spark = queenmq.spark.session("bench", master=master, config=config)
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(RowSource)
    return spark


def _timed(work: Callable[..., int], arguments: dict[str, Any]) -> dict[str, Any]:
    begin = time.perf_counter()
    try:
        rows = work(**arguments)
    except Exception as error:
        # Spark's own lines come first, the reason last.
        reason = [line for line in str(error).splitlines() if line.strip()][-1:]
        return {"error": f"{type(error).__name__}: {''.join(reason).strip()}"}
    return {"seconds": time.perf_counter() - begin, "rows": rows}


def _main() -> None:
    # Spark and its children write to what is standard output now; answers have a line of their own.
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        spark = _session(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
        worker = Worker(spark)
        print(json.dumps({"ready": spark.version}), file=answers, flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            work = getattr(worker, asked.pop("work"))
            print(json.dumps(_timed(work, asked)), file=answers, flush=True)
        spark.stop()


if __name__ == "__main__":
    _main()
