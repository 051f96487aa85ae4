"""`spark.read.format("queen")`: columns, ranges, filters, and its errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from queenmq.spark.source.batch_reader import QueenBatchReader
from queenmq.spark.source.options import read_options
from tests.support.feed import Feed

Read = Callable[..., DataFrame]
TRACE = "0190d3c5-0000-7000-8000-000000000001"


def places(frame: DataFrame) -> set[tuple[str, int]]:
    found = [(row.partition, row.seq) for row in frame.select("partition", "seq").collect()]
    assert len(found) == len(set(found))
    return set(found)


def test_every_column_is_what_the_table_holds(read: Read, feed: Feed) -> None:
    feed.push("orders", {"n": [1, "ö"]}, partition="c-1", transaction_id="order-1", trace_id=TRACE)
    feed.push("orders", None, partition="c-2")
    feed.execute("UPDATE queen.queues SET namespace = 'shop', task = 'bill'")
    feed.execute(
        "UPDATE queen.messages SET producer_sub = 'till', is_encrypted = true"
        " WHERE transaction_id = 'order-1'"
    )
    first, second = read(queue="orders").orderBy("partition").collect()
    stored, other = feed.rows(
        "SELECT id::text, partition_id::text, created_at FROM queen.messages"
        " ORDER BY transaction_id"
    )
    assert first.asDict() == {
        "queue": "orders",
        "namespace": "shop",
        "task": "bill",
        "partition": "c-1",
        "partition_id": stored["partition_id"],
        "seq": 1,
        "message_id": stored["id"],
        "transaction_id": "order-1",
        "trace_id": TRACE,
        # It says that it is encrypted, and there is no key.
        "payload": None,
        "created_at": stored["created_at"].replace(tzinfo=None),
        "producer_sub": "till",
        "is_encrypted": True,
    }
    # A message without a transaction id has its own id for one, as on the wire.
    assert second.transaction_id == second.message_id == other["id"]
    assert (second.trace_id, second.producer_sub, second.payload) == (None, None, "null")


def test_payloads_come_in_the_form_asked_for(read: Read, feed: Feed) -> None:
    feed.push("orders", {"n": 7})
    (row,) = read(queue="orders", payloadType="binary").select("payload").collect()
    assert bytes(row.payload) == b'{"n": 7}'
    variants = read(queue="orders", payloadType="variant")
    assert variants.schema["payload"].dataType.typeName() == "variant"
    (row,) = variants.selectExpr("variant_get(payload, '$.n', 'int') AS n").collect()
    assert row.n == 7


def test_payloads_have_the_fields_of_their_schema(read: Read, feed: Feed) -> None:
    feed.push("orders", {"order_id": 1, "total": 9.95, "at": "2030-01-31T12:00:00Z", "new": 1})
    feed.push("orders", {"order_id": "1", "total": 1})
    feed.push("orders", {"order_id": 2, "lines": [{"sku": "a", "tags": {"x": None}}]})
    schema = (
        "order_id BIGINT NOT NULL, total DECIMAL(10,2), at TIMESTAMP,"
        " lines ARRAY<STRUCT<sku: STRING, tags: MAP<STRING, STRING>>>"
    )
    frame = read(queue="orders", payloadSchema=schema, deliveryState="true").orderBy("seq")
    assert frame.where("misfit IS NULL").selectExpr("sum(payload.total)").first() == (
        Decimal("9.95"),
    )
    first, second, third = frame.collect()
    assert first.payload.asDict() == {
        "order_id": 1,
        "total": Decimal("9.95"),
        "at": datetime(2030, 1, 31, 12),
        "lines": None,
    }
    assert second.payload is None
    assert second.misfit.asDict() == {
        "reason": 'payload.order_id is "1", not an integer',
        "payload": '{"order_id": "1", "total": 1}',
    }
    assert third.payload.lines[0].tags == {"x": None} and third.misfit is None


def test_delivery_state_tells_groups_and_dead_letters(read: Read, feed: Feed) -> None:
    for _ in range(3):
        feed.push("orders", partition="a")
    cursor = (
        "INSERT INTO queen.partition_consumers (partition_id, consumer_group, queue_id, cursor_seq)"
        " SELECT id, $1, queue_id, $2 FROM queen.partitions"
    )
    feed.execute(cursor, "billing", 2)
    feed.execute(cursor, "audit", 1)
    feed.execute(
        "INSERT INTO queen.dead_letter_queue (queue_id, partition_id, consumer_group, message_id,"
        " seq, transaction_id, payload, error_message, retry_count, created_at, failed_at)"
        " SELECT queue_id, partition_id, 'billing', id, seq, id::text, payload, 'no', 1,"
        " created_at, now() FROM queen.messages WHERE seq = 2"
    )
    found = read(queue="orders", deliveryState="true").orderBy("seq").collect()
    assert [(row.consumed_by, row.is_dead_letter) for row in found] == [
        (["audit", "billing"], False),
        (["billing"], True),
        ([], False),
    ]


def test_queues_are_chosen_by_name_pattern_namespace_and_task(read: Read, feed: Feed) -> None:
    for name in ("shop.orders", "shop.bills", "workshop"):
        feed.push(name, partition=name)
    feed.execute("UPDATE queen.queues SET namespace = 'n', task = 't' WHERE name = 'workshop'")

    def queues(**options: str) -> set[str]:
        return {name for name, _ in places(read(**options))}

    assert queues(queue="shop.orders,workshop") == {"shop.orders", "workshop"}
    assert queues(queuePattern="shop.*") == {"shop.orders", "shop.bills"}
    assert queues(namespace="n") == queues(namespace="n", task="t") == {"workshop"}
    assert queues(task="none") == set()


def test_ranges_are_exact(read: Read, feed: Feed) -> None:
    for number in range(6):
        feed.push("orders", number, partition="a")
    stored = feed.rows("SELECT xid::text, created_at FROM queen.messages ORDER BY seq")
    third, fifth = stored[2], stored[4]
    by_xid = read(
        queue="orders",
        startingOffsets=json.dumps({"xid": third["xid"]}),
        endingOffsets=json.dumps({"xid": fifth["xid"]}),
    )
    by_time = read(
        queue="orders",
        startingTimestamp=third["created_at"].isoformat(),
        endingTimestamp=fifth["created_at"].isoformat(),
    )
    assert places(by_xid) == places(by_time) == {("a", 3), ("a", 4)}
    assert places(read(queue="orders", startingOffsets="latest")) == set()


CONDITIONS = {
    "queue = 'bills'": {("b", 1)},
    "queue IN ('bills', 'none')": {("b", 1)},
    "partition = 'p1'": {("p1", 1), ("p1", 2), ("p1", 3)},
    "partition IN ('p0', 'b') AND seq = 1": {("p0", 1), ("b", 1)},
    "seq > 2": {("p0", 3), ("p1", 3), ("p2", 3)},
    "seq >= 2 AND seq < 3 AND partition = 'p2'": {("p2", 2)},
    "seq between 2 and 3 and partition = 'p2'": {("p2", 2), ("p2", 3)},
    "seq <= 0": set(),
    "partition = 'p1' AND partition = 'p2'": set(),
    "created_at < TIMESTAMP '2001-01-01T00:00:00Z'": set(),
}


def test_conditions_are_applied_by_the_database(database_url: str, feed: Feed) -> None:
    feed.push_all("orders", ["p0", "p1", "p2"], times=3)
    feed.push("bills", partition="b")
    for condition, wanted in CONDITIONS.items():
        assert read_by_hand(database_url, where=condition) == wanted, condition
    stored = feed.rows(
        "SELECT created_at, partition_id::text AS place FROM queen.messages ORDER BY created_at"
    )
    time, place = stored[0]["created_at"], stored[-1]["place"]
    late = f"created_at > '{time.isoformat()}' AND partition_id = '{place}'"
    assert read_by_hand(database_url, where=late) == {("b", 1)}
    exact = f"created_at = '{stored[-1]['created_at'].isoformat()}' AND queue = 'bills'"
    assert read_by_hand(database_url, where=exact) == {("b", 1)}


def read_by_hand(url: str, **options: str) -> set[tuple[str, int]]:
    """Return the rows that the tasks of a read give to Spark."""
    reader = QueenBatchReader(read_options({"url": url, "queue": "orders,bills", **options}))
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    found = [(row["partition"], row["seq"]) for batch in batches for row in batch.to_pylist()]
    assert len(found) == len(set(found))
    return set(found)


def test_a_frame_is_right_however_often_and_however_it_is_used(
    read: Read, feed: Feed, spark: SparkSession
) -> None:
    feed.push_all("orders", ["p0", "p1", "p2"], times=3)
    for frame in (read(queue="orders"), read(queue="orders", where="seq <= 3")):
        # With a filter, then without one, then with another one.
        assert frame.where("partition = 'p1'").count() == 3
        assert frame.count() == 9
        assert frame.where("seq > 1").count() == 6
        both = frame.where("partition = 'p1'").union(frame.where("partition = 'p2'"))
        assert {name for name, _ in places(both)} == {"p1", "p2"}
        first, last = frame.where("seq <= 2").alias("x"), frame.where("seq = 3").alias("y")
        assert first.join(last, "partition_id").count() == 6
        frame.createOrReplaceTempView("used")
        (row,) = spark.sql(
            "SELECT (SELECT count(*) FROM used WHERE seq = 1) AS some, count(*) AS every FROM used"
        ).collect()
        assert tuple(row) == (3, 9)
        kept = frame.where("seq = 2").cache()
        assert (kept.count(), frame.count(), kept.where("partition = 'p0'").count()) == (3, 9, 1)
        kept.unpersist()
        feed.push("orders", partition="later")
        # Spark plans a frame once; who wants more loads again.
        assert frame.count() == 9
        feed.execute("DELETE FROM queen.messages WHERE payload::text = 'null'")
    narrow = read(queue="orders", where="seq = 1").union(read(queue="orders", where="seq = 3"))
    assert {seq for _, seq in places(narrow)} == {1, 3}


def test_many_tasks_read_each_message_once(read: Read, feed: Feed) -> None:
    feed.push_all("orders", [f"p{n}" for n in range(50)], times=10)
    frame = read(queue="orders", minPartitions="5")
    assert frame.rdd.getNumPartitions() >= 5
    assert len(places(frame)) == 500


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"queue": "none"}, "NotFound: no queue none; create it, or correct the option"),
        ({"queue": "orders", "colour": "red"}, "unknown option colour"),
        ({"queue": "orders", "pushDown": "true"}, "pass the conditions in"),
        ({"queue": "orders", "consumerGroup": "g"}, "consumerGroup can be used with streams"),
        (
            {"queue": "orders", "url": "postgresql://u:secret@127.0.0.1:1/x"},
            "cannot use PostgreSQL at 127.0.0.1:1, database x: Connection refused",
        ),
    ],
)
def test_mistakes_end_in_one_sentence(
    read: Read, feed: Feed, options: dict[str, str], text: str
) -> None:
    feed.push("orders")
    with pytest.raises(AnalysisException) as error:
        read(**options).collect()
    lines = [line for line in str(error.value).splitlines() if line.startswith("queenmq.errors.")]
    assert len(lines) == 1 and text in lines[0]
    assert "secret" not in str(error.value)


def test_another_schema_is_refused(spark: SparkSession, feed: Feed) -> None:
    feed.push("orders")
    reader = spark.read.format("queen").options(url=feed.url, queue="orders")
    with pytest.raises(AnalysisException, match="the columns of this source are fixed"):
        reader.schema("queue STRING, payload INT").load().collect()


def test_spark_finds_the_source_by_itself(spark: SparkSession, feed: Feed) -> None:
    feed.push("orders", partition="a")
    # Nothing was registered in this one.
    other = spark.newSession()
    assert places(other.read.format("queen").options(url=feed.url, queue="orders").load())
