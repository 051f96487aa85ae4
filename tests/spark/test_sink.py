"""Spark writes to queues: batches and streams, whole, in order and once."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from queenmq.errors import InvalidRequest
from queenmq.spark import by_partition
from tests.acceptance.load import Wire, pop_path
from tests.acceptance.sql_side import PATIENT
from tests.isolation.sessions import configure
from tests.support.broker import SOON_S, BrokerProcess
from tests.support.feed import Feed
from tests.support.spark_sink import read_lines, start_stream
from tests.support.staging import staged, stored

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    # Spark leaves the closing of its sockets and processes to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def write(df: DataFrame, url: str, **options: str) -> None:
    df.write.format("queen").mode("append").options(url=url, **options).save()


def numbers(spark: SparkSession, count: int, partitions: int = 3) -> DataFrame:
    """Rows 0 to count, spread over Queen partitions p0, p1 ..."""
    return spark.range(count).select(
        F.concat(F.lit("p"), (F.col("id") % partitions).cast("string")).alias("partition"),
        F.col("id").cast("string").alias("payload"),
        "id",
    )


async def test_all_columns_of_a_batch_arrive(
    spark: SparkSession, database_url: str, database: asyncpg.Connection
) -> None:
    trace_id = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
    rows = [
        ("orders", "a", '{"n":  1, "ü": "\\u0000"}', "tx-1", trace_id, 1),
        ("orders", "a", "null", None, None, 2),
        ("orders.new", "b", "[1.50]", "tx-1", None, 3),
    ]
    schema = (
        "queue string, partition string, payload string, transaction_id string,"
        " trace_id string, more int"
    )
    write(spark.createDataFrame(rows, schema), database_url)
    found = await database.fetch(
        "SELECT q.name, p.name, m.payload::text, m.transaction_id, m.trace_id::text"
        " FROM queen.messages m JOIN queen.partitions p ON p.id = m.partition_id"
        " JOIN queen.queues q ON q.id = m.queue_id ORDER BY 1, 2, m.seq"
    )
    assert [tuple(row) for row in found] == [row[:5] for row in rows]
    assert await staged(database) == 0


async def test_a_write_that_is_named_happens_once(
    spark: SparkSession, database_url: str, database: asyncpg.Connection
) -> None:
    for _ in range(2):
        write(numbers(spark, 10), database_url, queue="named", writeId="2024-02-29")
        write(numbers(spark, 10), database_url, queue="nameless")
    assert len(await stored(database, "named")) == 10
    assert len(await stored(database, "nameless")) == 20
    assert await staged(database) == 0


async def test_an_empty_write_is_no_error(
    spark: SparkSession, database_url: str, database: asyncpg.Connection
) -> None:
    write(numbers(spark, 10).where("id < 0"), database_url, queue="q")
    assert await database.fetchval("SELECT count(*) FROM queen.spark_commits") == 0


async def test_rows_keep_the_order_of_a_sorted_frame(
    spark: SparkSession, database_url: str, database: asyncpg.Connection
) -> None:
    shuffled = numbers(spark, 2_000).repartition(7, F.rand(3))
    write(shuffled.orderBy("id"), database_url, queue="q")
    for part in range(3):
        assert await stored(database, "q", f"p{part}") == list(range(part, 2_000, 3))


@pytest.mark.parametrize("way", ["by_partition", "sortWithin"])
async def test_rows_of_a_partition_can_be_gathered_and_sorted(
    spark: SparkSession, database_url: str, database: asyncpg.Connection, way: str
) -> None:
    shuffled = numbers(spark, 2_000).repartition(7, F.rand(3))
    if way == "by_partition":
        write(by_partition(shuffled, "id"), database_url, queue="q")
    else:
        write(by_partition(shuffled), database_url, queue="q", sortWithin="id")
    for part in range(3):
        assert await stored(database, "q", f"p{part}") == list(range(part, 2_000, 3))


async def test_a_bad_row_fails_the_write_and_nothing_stays(
    spark: SparkSession, database_url: str, database: asyncpg.Connection
) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 10)
    try:
        bad = F.when(F.col("id") == 95, "{").otherwise(F.col("payload"))
        rows = numbers(spark, 100).coalesce(1).withColumn("payload", bad)
        with pytest.raises(PythonException) as caught:
            write(rows, database_url, queue="q")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    key = "the row with queue 'q', partition 'p2' and transaction_id null cannot be written"
    assert f"{key}: payload is not JSON" in str(caught.value)
    assert await stored(database, "q") == []
    assert await staged(database) == 0, "the ninety rows before it are gone, too"


async def test_bad_rows_go_to_a_queue_of_their_own(
    spark: SparkSession, database_url: str, database: asyncpg.Connection
) -> None:
    bad = F.when(F.col("id") % 10 == 3, "{").otherwise(F.col("payload"))
    rows = numbers(spark, 40).withColumn("payload", bad)
    write(rows, database_url, queue="q", onError="deadletter")
    assert sorted(await stored(database, "q")) == [n for n in range(40) if n % 10 != 3]
    letters = await stored(database, "q.deadletter")
    assert sorted(letter["row"]["id"] for letter in letters) == [3, 13, 23, 33]
    assert all(letter["error"].startswith("payload is not JSON") for letter in letters)
    write(rows, database_url, queue="q", onError="deadletter", deadLetterQueue="bad")
    assert len(await stored(database, "bad")) == 4


async def test_a_full_queue_refuses_the_write_and_nothing_stays(
    spark: SparkSession, database_url: str, database: asyncpg.Connection
) -> None:
    await configure(database, "small", max_size=9)
    with pytest.raises(Exception, match="queue small is at its maxSize, so nothing of the batch"):
        write(numbers(spark, 10), database_url, queue="small")
    assert await stored(database, "small") == []
    assert await staged(database) == 0


async def test_a_batch_that_is_too_large_is_refused_before_it_is_published(
    spark: SparkSession, database_url: str, database: asyncpg.Connection
) -> None:
    # Two tasks of ten rows: each fits, together they do not. Then one that does not fit.
    rows = numbers(spark, 20).repartition(2)
    with pytest.raises(Exception, match="20 messages or more, and option maxBatchMessages is 19"):
        write(rows, database_url, queue="q", maxBatchMessages="19")
    with pytest.raises(PythonException, match="bytes or more, and option maxBatchBytes is 100"):
        write(rows, database_url, queue="q", maxBatchBytes="100")
    assert await stored(database, "q") == []
    assert await staged(database) == 0
    write(rows, database_url, queue="q", maxBatchMessages="20")
    assert len(await stored(database, "q")) == 20


async def test_a_waiting_consumer_is_woken(
    spark: SparkSession, database_url: str, start_broker: Callable[..., BrokerProcess]
) -> None:
    # It does not look by itself, so a wake-up that is lost leaves the pop without answer.
    broker = start_broker(**PATIENT)
    async with Wire(broker.url) as poll, Wire(broker.url) as wire:
        assert (await wire.push("q", "first", partition="p0")).status == 201
        assert await wire.pop("q", autoAck=True)
        poll.send("GET", pop_path("q", wait=True, timeout=int(2 * SOON_S * 1000)))
        await wire.settle()
        # Answered once everything has been looked at; from now on the first one is parked.
        assert await wire.pop("q") == []
        write(numbers(spark, 1), database_url, queue="q")
        answer = await poll.receive()
        assert [message["data"] for message in answer.body["messages"]] == [0]


MISTAKES = {
    "column payload is missing": ("SELECT 'q' AS queue", {}),
    "column queue is missing": ("SELECT '1' AS payload", {}),
    "column payload is of type struct<a:int>; make it a string with to_json(payload)": (
        "SELECT named_struct('a', 1) AS payload",
        {"queue": "q"},
    ),
    "column partition is of type int; make it a string with cast(partition as string)": (
        "SELECT '1' AS payload, 7 AS partition",
        {"queue": "q"},
    ),
    "option colour is not known to a write": ("SELECT '1' AS payload", {"colour": "red"}),
}


@pytest.mark.parametrize("sentence", MISTAKES)
def test_a_mistake_is_told_before_anything_runs(
    spark: SparkSession, database_url: str, sentence: str
) -> None:
    query, options = MISTAKES[sentence]
    with pytest.raises(AnalysisException) as caught:
        write(spark.sql(query), database_url, **options)
    assert sentence in str(caught.value)


def test_a_queue_is_not_overwritten(spark: SparkSession, database_url: str) -> None:
    with pytest.raises(AnalysisException, match="a queue cannot be overwritten; use mode append"):
        numbers(spark, 1).write.format("queen").mode("overwrite").options(
            url=database_url, queue="q"
        ).save()


def test_a_database_that_does_not_answer_is_named_without_its_password(
    spark: SparkSession,
) -> None:
    with pytest.raises(PythonException) as caught:
        write(numbers(spark, 1), "postgresql://queen:secret@127.0.0.1:1/queen", queue="q")
    assert "the database of option url cannot be used: connection to server" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_database_of_an_older_schema_is_refused(
    spark: SparkSession, feed: Feed, database_url: str
) -> None:
    feed.execute("ALTER TABLE queen.spark_staging DROP COLUMN is_encrypted")
    with pytest.raises(PythonException, match="start a broker of this version on it once"):
        write(numbers(spark, 1), database_url, queue="q")


def test_a_database_without_our_schema_is_refused(
    spark: SparkSession, empty_database_url: str
) -> None:
    with pytest.raises(PythonException, match="start a broker of this version on it once"):
        write(numbers(spark, 1), empty_database_url, queue="q")


def test_a_stream_is_not_sorted_before_the_write(spark: SparkSession) -> None:
    rates = spark.readStream.format("rate").load()
    with pytest.raises(InvalidRequest, match="option sortWithin"):
        by_partition(rates, "value")
    assert by_partition(rates).isStreaming


# Streams.


def write_file(folder: Path, number: int, *, rows: int = 60) -> None:
    """One input file; files are read in the order of their times."""
    folder.mkdir(exist_ok=True)
    lines = [
        json.dumps({"partition": f"p{n % 5}", "n": n, "payload": str(n)})
        for n in range(number * rows, (number + 1) * rows)
    ]
    random.Random(number).shuffle(lines)
    path = folder / f"{number:04}.json"
    path.write_text("\n".join(lines))
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


async def assert_once_and_in_order(session: asyncpg.Connection, count: int) -> None:
    for part in range(5):
        assert await stored(session, "q", f"p{part}") == list(range(part, count, 5))


async def test_a_stream_goes_on_where_it_was(
    spark: SparkSession, database_url: str, database: asyncpg.Connection, tmp_path: Path
) -> None:
    lines, checkpoint = tmp_path / "lines", tmp_path / "checkpoint"
    for number in range(4):
        write_file(lines, number)
        if number % 2:
            rows = by_partition(read_lines(spark, lines))
            options = {"url": database_url, "queue": "q", "sortWithin": "n"}
            start_stream(rows, checkpoint, **options).awaitTermination()
    await assert_once_and_in_order(database, 240)
    commits = await database.fetch(
        "SELECT query_id, array_agg(batch_id ORDER BY batch_id) AS ids"
        " FROM queen.spark_commits GROUP BY query_id"
    )
    query_id = json.loads((checkpoint / "metadata").read_text())["id"]
    assert [tuple(row) for row in commits] == [(f"stream:{query_id}", [0, 1, 2, 3])]


async def test_a_batch_that_spark_runs_again_adds_nothing(
    spark: SparkSession, database_url: str, database: asyncpg.Connection, tmp_path: Path
) -> None:
    lines, checkpoint = tmp_path / "lines", tmp_path / "checkpoint"
    write_file(lines, 0)
    options = {"url": database_url, "queue": "q", "sortWithin": "n"}
    for is_again in (False, True):
        if is_again:
            # As after a crash between our commit and Spark's own note of it.
            for note in (checkpoint / "commits").iterdir():
                note.unlink()
            write_file(lines, 1)
        # Split in another way, as it may be.
        rows = read_lines(spark, lines).repartition(3 if is_again else 1, "partition")
        start_stream(rows, checkpoint, **options).awaitTermination()
    await assert_once_and_in_order(database, 120)
    assert await staged(database) == 0


async def test_a_new_checkpoint_is_a_new_stream(
    spark: SparkSession, database_url: str, database: asyncpg.Connection, tmp_path: Path
) -> None:
    write_file(tmp_path / "lines", 0, rows=10)
    for name in ("one", "two"):
        rows = read_lines(spark, tmp_path / "lines")
        start_stream(rows, tmp_path / name, url=database_url, queue="q").awaitTermination()
    assert len(await stored(database, "q")) == 20


def test_a_stream_of_whole_results_is_refused(
    spark: SparkSession, database_url: str, tmp_path: Path
) -> None:
    write_file(tmp_path / "lines", 0, rows=10)
    counts = read_lines(spark, tmp_path / "lines").groupBy("payload").count()
    writer = counts.writeStream.format("queen").outputMode("complete")
    writer = writer.options(url=database_url, queue="q", checkpointLocation=str(tmp_path / "c"))
    with pytest.raises(Exception, match="use output mode append or update"):
        writer.trigger(availableNow=True).start().awaitTermination()
