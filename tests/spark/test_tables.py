"""Queues in SQL: tables, INSERT, paths, and what Spark cannot do with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.feed import Feed

pytestmark = pytest.mark.timeout(300)

Sql = Callable[[str], list[tuple[object, ...]]]
STORED = (
    "SELECT q.name, p.name, m.payload::text FROM queen.messages m"
    " JOIN queen.partitions p ON p.id = m.partition_id"
    " JOIN queen.queues q ON q.id = p.queue_id ORDER BY 1, 2, m.seq"
)


@pytest.fixture
def sql(spark: SparkSession) -> Iterator[Sql]:
    """Runs a statement in a database of Spark that goes away with its tables."""
    spark.sql("CREATE DATABASE shop")
    spark.sql("USE shop")
    yield lambda text: [tuple(row) for row in spark.sql(text).collect()]
    spark.sql("USE default")
    spark.sql("DROP DATABASE shop CASCADE")


@pytest.fixture
def url(database_url: str, tmp_path: Path) -> str:
    """The database without its password, which is in a file."""
    parts = urlsplit(database_url)
    secrets = tmp_path / "pgpass"
    secrets.write_text(f"*:*:*:*:{parts.password}\n")
    secrets.chmod(0o600)
    bare = database_url.replace(f":{parts.password}@", "@")
    return f"{bare}{'&' if parts.query else '?'}passfile={secrets}"


def stored(feed: Feed) -> list[tuple[str, ...]]:
    return [tuple(row) for row in feed.rows(STORED)]


def refusal(action: Callable[[], object]) -> str:
    """The one sentence of ours with which something ends."""
    with pytest.raises(PySparkException) as error:
        action()
    lines = re.findall(r"^queenmq\.errors\.\w+: (.+)$", str(error.value), re.MULTILINE)
    assert len(lines) == 1, str(error.value)
    return str(lines[0])


def test_a_table_is_read_and_inserted_into(
    spark: SparkSession, sql: Sql, feed: Feed, url: str, tmp_path: Path
) -> None:
    feed.push("orders", {"n": 1}, partition="a")
    sql(f"CREATE TABLE orders USING queen OPTIONS (url '{url}', queue 'orders')")
    assert sql("SELECT partition, payload, seq FROM orders") == [("a", '{"n": 1}', 1)]

    sql("INSERT INTO orders (partition, payload) VALUES ('b', '2'), ('b', '3')")
    sql("INSERT INTO orders (payload) VALUES ('4')")
    sql("INSERT INTO orders BY NAME SELECT '5' AS payload, 'c' AS partition")
    frame = spark.createDataFrame([("d", "6")], "partition string, payload string")
    frame.writeTo("orders").append()
    frame.write.format("queen").mode("append").saveAsTable("orders")
    assert stored(feed) == [
        ("orders", "Default", "4"),
        ("orders", "a", '{"n": 1}'),
        ("orders", "b", "2"),
        ("orders", "b", "3"),
        ("orders", "c", "5"),
        ("orders", "d", "6"),
        ("orders", "d", "6"),
    ]
    # Options of one statement come before those of the table.
    feed.push("bills", {"n": 7}, partition="x")
    assert sql("SELECT partition FROM orders WITH (queue = 'bills')") == [("x",)]
    sql("INSERT INTO orders WITH (queue = 'bills') (payload) VALUES ('8')")
    assert ("bills", "Default", "8") in stored(feed)

    query = (
        spark.readStream.option("startingOffsets", "earliest")
        .table("orders")
        .writeStream.format("memory")
        .queryName("seen")
        .trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    query.awaitTermination()
    assert sql("SELECT count(*) FROM seen") == [(7,)]
    spark.catalog.dropTempView("seen")


def test_rows_of_one_table_never_go_back_to_it_by_mistake(
    spark: SparkSession, sql: Sql, feed: Feed, url: str
) -> None:
    feed.push("orders", 1, partition="a")
    for name in ("orders", "copies"):
        sql(f"CREATE TABLE {name} USING queen OPTIONS (url '{url}', queue '{name}')")
    feed.push("copies", 0, partition="z")
    # All columns, with the types of the target: Spark passes the rows on as they are.
    assert "name the columns on both sides" in refusal(
        lambda: sql("INSERT INTO copies SELECT * FROM orders")
    )
    orders = spark.table("orders")
    assert "name the columns on both sides" in refusal(lambda: orders.write.insertInto("copies"))
    sql("INSERT INTO copies (partition, payload) SELECT partition, payload FROM orders")
    orders.select("payload", "partition").writeTo("copies").append()
    moved = orders.withColumn("partition", F.concat("partition", F.lit("-moved")))
    moved.writeTo("copies").append()
    # The options of a write that names its target are its own.
    orders.write.format("queen").mode("append").options(url=feed.url, queue="third").save()
    moved.write.format("queen").mode("append").option("url", feed.url).save("fourth")
    assert stored(feed) == [
        ("copies", "a", "1"),
        ("copies", "a", "1"),
        ("copies", "a-moved", "1"),
        ("copies", "z", "0"),
        ("fourth", "a-moved", "1"),
        ("orders", "a", "1"),
        ("third", "a", "1"),
    ]


def test_a_path_names_the_queue(spark: SparkSession, feed: Feed) -> None:
    feed.push("orders", 1, partition="a")
    feed.push("bills", 2, partition="b")
    reader = spark.read.format("queen").option("url", feed.url)
    assert reader.load("orders").count() == 1
    assert reader.load(["orders", "bills"]).count() == 2
    assert "both name queues" in refusal(lambda: reader.option("queue", "bills").load("orders"))
    frame = spark.createDataFrame([("3",)], "payload string")
    frame.write.format("queen").mode("append").option("url", feed.url).save("orders")
    assert ("orders", "Default", "3") in stored(feed)
    writer = frame.write.format("queen").mode("append").option("url", feed.url)
    assert "is a list" in refusal(lambda: writer.save("orders,bills"))


def test_what_cannot_be_done_says_what_can(
    spark: SparkSession, sql: Sql, feed: Feed, url: str
) -> None:
    feed.push("orders", 1)
    given = f"url '{url}', queue 'orders'"
    sql(f"CREATE TABLE orders USING queen OPTIONS ({given})")
    secret = "url 'postgresql://me:secret@127.0.0.1/queen', queue 'orders'"
    for statement, text in {
        f"CREATE TABLE t USING queen OPTIONS ({secret})": "cannot hold a password",
        f"CREATE TABLE t USING queen OPTIONS ({given}) LOCATION '/tmp/x'": "no LOCATION",
        f"CREATE TABLE t USING queen OPTIONS ({given}, colour 'red')": "colour is not known",
        f"CREATE TABLE t USING queen OPTIONS ({given}, onError 'x')": "use fail or deadletter",
        f"CREATE TABLE t USING queen OPTIONS ({given}) AS SELECT '1' AS payload": (
            "make a table first"
        ),
        "INSERT OVERWRITE orders (payload) VALUES ('2')": "cannot be overwritten",
    }.items():
        assert text in refusal(lambda statement=statement: sql(statement)), statement
    # Spark asks nothing of the source when a table has columns.
    sql(f"CREATE TABLE t (payload STRING) USING queen OPTIONS ({given})")
    assert "this table has no options" in refusal(lambda: sql("SELECT * FROM t"))
    assert "make a table first" in refusal(lambda: sql("INSERT INTO t VALUES ('1')"))
    frame = spark.createDataFrame([("3",)], "payload string")
    writer = frame.write.format("queen").options(url=feed.url, queue="orders")
    # Spark's own sentence for the default mode.
    with pytest.raises(AnalysisException, match='use either the "Append"'):
        writer.save()
    assert "cannot be overwritten" in refusal(lambda: writer.mode("overwrite").save())
    assert stored(feed) == [("orders", "Default", "1")]


def test_a_password_is_in_no_schema(spark: SparkSession, sql: Sql, feed: Feed, url: str) -> None:
    feed.push("orders", 1)
    sql(f"CREATE TABLE orders USING queen OPTIONS (url '{url}', queue 'orders')")
    kept = json.loads(spark.table("orders").schema.json())
    marks = [field["metadata"] for field in kept["fields"] if "queen.options" in field["metadata"]]
    assert [json.loads(mark["queen.options"])["queue"] for mark in marks] == ["orders"]
    view = spark.read.format("queen").options(url=feed.url, queue="orders").load()
    assert "queen.options" not in view.schema.json()
