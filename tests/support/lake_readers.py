"""Reads a lake with every tool at hand, by every column, and compares them with the queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from queenmq.spark.lake import Lake, read_messages
from queenmq.spark.lake.layout import COLUMNS
from tests.support.archive import LIVE
from tests.support.feed import Feed

Row = dict[str, Any]
Key = tuple[str, int]
#: The keys of the rows in which a column has a value; None: in which it is NULL.
Reader = Callable[[str, Any], set[Key]]


def _keys(rows: list[Row]) -> set[Key]:
    found = {(row["partition_id"], row["seq"]) for row in rows}
    assert len(found) == len(rows), "each row once"
    return found


def _readers(spark: SparkSession, place: str) -> dict[str, Reader]:
    path = Lake.at(place).messages
    delta = DeltaTable(path)
    over_arrow = duckdb.connect()
    over_arrow.register("messages", delta.to_pyarrow_dataset())
    frame = read_messages(spark, place).drop("payload_variant")
    key = ["partition_id", "seq"]

    def by_arrow(name: str, value: Any) -> set[Key]:
        field = ds.field(name)
        wanted = field.is_null() if value is None else field == value
        return _keys(delta.to_pyarrow_dataset().to_table(key, filter=wanted).to_pylist())

    def by_filters(name: str, value: Any) -> set[Key]:
        if value is None:
            return by_arrow(name, value)
        rows = delta.to_pyarrow_table(columns=[*key, name], filters=[(name, "=", value)])
        return _keys(rows.to_pylist())

    def by_datafusion(name: str, value: Any) -> set[Key]:
        text = str(value).replace("'", "''")
        literal = text if isinstance(value, bool) else f"'{text}'"
        wanted = "IS NULL" if value is None else f"= {literal}"
        statement = f'SELECT partition_id, seq FROM m WHERE "{name}" {wanted}'
        rows = QueryBuilder().register("m", delta).execute(statement).read_all()
        return _keys(pa.table(rows).to_pylist())

    def by_duckdb(name: str, value: Any) -> set[Key]:
        wanted, values = ("IS NULL", []) if value is None else ("= ?", [value])
        statement = f'SELECT partition_id, seq FROM messages WHERE "{name}" {wanted}'
        rows = over_arrow.execute(statement, values).fetchall()
        return _keys([dict(zip(key, row, strict=True)) for row in rows])

    def by_polars(name: str, value: Any) -> set[Key]:
        column = polars.col(name)
        wanted = column.is_null() if value is None else column == value
        return _keys(polars.scan_delta(path).filter(wanted).select(key).collect().to_dicts())

    def by_spark(name: str, value: Any) -> set[Key]:
        wanted = F.col(name).isNull() if value is None else F.col(name) == F.lit(value)
        return _keys([row.asDict() for row in frame.where(wanted).select(key).collect()])

    return {
        "pyarrow": by_arrow,
        "deltalake": by_filters,
        "datafusion": by_datafusion,
        "duckdb": by_duckdb,
        "polars": by_polars,
        "spark": by_spark,
    }


def _values(rows: list[Row], name: str) -> list[Any]:
    """Some of the values of a column: the smallest, the largest, one between, and NULL."""
    found = sorted({row[name] for row in rows if row[name] is not None})
    some = dict.fromkeys([*found[:1], *found[len(found) // 2 :][:1], *found[-1:]])
    return [*some, *([None] if any(row[name] is None for row in rows) else [])]


def compare_readers(spark: SparkSession, place: str, rows: list[Row]) -> None:
    """Every reader, by every column, against the rows of the queue."""
    readers = _readers(spark, place)
    for name, _ in COLUMNS:
        for number, value in enumerate(_values(rows, name)):
            wanted = {(row["partition_id"], row["seq"]) for row in rows if row[name] == value}
            # A query of Spark takes long, so it has one value of each column, and NULL.
            some = [who for who in readers if who != "spark" or not number or value is None]
            found = {who: readers[who](name, value) for who in some}
            wrong = {who: len(keys) for who, keys in found.items() if keys != wanted}
            assert not wrong, f"{name} = {value!r}: {len(wanted)} rows, but {wrong}"
    names = {name for name, _ in COLUMNS}
    whole = polars.read_delta(Lake.at(place).messages).to_dicts()
    assert sorted(map(_text, whole)) == sorted(_text(row) for row in rows)
    assert set(whole[0]) == names


def _text(row: Row) -> str:
    moment = row["created_at"].astimezone(UTC)
    return repr([moment, *(row[name] for name, _ in COLUMNS if name != "created_at")])


def live_rows(feed: Feed) -> list[Row]:
    rows = [dict(record) for record in feed.rows(LIVE)]
    return [{**row, "created_at": row["created_at"].astimezone(UTC)} for row in rows]
