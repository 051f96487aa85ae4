"""Rows of the database become rows of Spark: ids as text, names, payloads."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

import pyarrow as pa

from queenmq.spark.source.options import read_options
from queenmq.spark.source.schema import arrow_schema, to_batches

OPTIONS = read_options({"url": "postgresql://h/d", "queue": "orders"}, is_stream=False)
NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)


def uuids(*values: UUID | None) -> pa.Array:
    """As the driver gives them."""
    stored = pa.array([value and value.bytes for value in values], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), stored)


def table(chunks: list[dict[str, pa.Array]]) -> pa.Table:
    return pa.Table.from_batches([pa.record_batch(chunk) for chunk in chunks])


def rows(ids: list[UUID], places: list[UUID], traces: list[UUID | None]) -> dict[str, pa.Array]:
    """Messages whose other values are of no matter."""
    count = len(ids)
    return {
        "partition_id": uuids(*places),
        "seq": pa.array(range(count), pa.int64()),
        "message_id": uuids(*ids),
        "transaction_id": pa.array(
            [None if n % 2 else f"tx-{n}" for n in range(count)], pa.string()
        ),
        "trace_id": uuids(*traces),
        "payload": pa.array([f'{{"n": {n}}}' for n in range(count)], pa.string()),
        "created_at": pa.array([NOW] * count, pa.timestamp("us", tz="UTC")),
        "producer_sub": pa.nulls(count, pa.string()),
        "is_encrypted": pa.array([False] * count),
    }


PLACES = [uuid4(), uuid4()]
NAMES = pa.table(
    {
        "partition_id": uuids(*PLACES),
        "partition": ["x", "y"],
        "queue": ["orders", "bills"],
        "namespace": ["a", "b"],
        "task": ["", "t"],
    }
)


def converted(found: pa.Table) -> list[dict[str, object]]:
    batches = to_batches(found, NAMES, OPTIONS)
    assert all(batch.schema == arrow_schema(OPTIONS) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def test_ids_are_texts_and_names_those_of_partition_and_queue() -> None:
    ids, trace = [uuid4() for _ in range(4)], uuid4()
    places = [PLACES[0], PLACES[1], PLACES[1], PLACES[0]]
    found = converted(table([rows(ids, places, [None, trace, None, trace])]))
    assert [row["message_id"] for row in found] == [str(one) for one in ids]
    assert [row["partition_id"] for row in found] == [str(one) for one in places]
    assert [row["partition"] for row in found] == ["x", "y", "y", "x"]
    assert [row["trace_id"] for row in found] == [None, str(trace), None, str(trace)]
    assert [row["queue"] for row in found] == ["orders", "bills", "bills", "orders"]
    assert [(row["namespace"], row["task"]) for row in found[:2]] == [("a", ""), ("b", "t")]


def test_a_message_without_a_transaction_id_has_its_own_for_one() -> None:
    ids = [uuid4() for _ in range(4)]
    found = converted(table([rows(ids, [PLACES[0]] * 4, [None] * 4)]))
    expected = ["tx-0", str(ids[1]), "tx-2", str(ids[3])]
    assert [row["transaction_id"] for row in found] == expected
    assert [row["trace_id"] for row in found] == [None] * 4


def test_parts_of_arrays_and_none_at_all_are_converted_as_well() -> None:
    ids = [uuid4() for _ in range(6)]
    whole = table(
        [rows(ids[:3], [PLACES[0]] * 3, ids[:3]), rows(ids[3:], [PLACES[1]] * 3, ids[3:])]
    )
    found = converted(whole.slice(1, 4))
    assert [row["message_id"] for row in found] == [str(one) for one in ids[1:5]]
    assert [row["trace_id"] for row in found] == [str(one) for one in ids[1:5]]
    assert converted(whole.slice(0, 0)) == []


def test_messages_of_a_partition_without_a_name_are_left_out() -> None:
    ids = [uuid4() for _ in range(4)]
    places = [PLACES[0], uuid4(), PLACES[1], uuid4()]
    found = converted(table([rows(ids, places, [None] * 4)]))
    assert [row["message_id"] for row in found] == [str(ids[0]), str(ids[2])]
    assert [row["partition"] for row in found] == ["x", "y"]
