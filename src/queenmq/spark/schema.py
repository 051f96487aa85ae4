"""Owns the columns: their Spark types, their Arrow types, and payloads in the form asked for."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
    VariantVal,
)

from queenmq.errors import InvalidRequest
from queenmq.spark.options import ReadOptions

_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        # The mark by which Spark knows a variant in Arrow.
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
_PAYLOADS: dict[str, tuple[DataType, pa.DataType]] = {
    "string": (StringType(), pa.string()),
    "binary": (BinaryType(), pa.binary()),
    "variant": (VariantType(), _VARIANT),
}

#: Name, Spark type, Arrow type, whether it may be NULL.
_Column = tuple[str, DataType, pa.DataType, bool]


def _columns(options: ReadOptions) -> list[_Column]:
    def text(name: str, *, is_nullable: bool = False) -> _Column:
        return name, StringType(), pa.string(), is_nullable

    payload = _PAYLOADS[options.payload_type]
    columns = [
        text("queue"),
        text("namespace"),
        text("task"),
        text("partition"),
        text("partition_id"),
        ("seq", LongType(), pa.int64(), False),
        text("message_id"),
        text("transaction_id"),
        text("trace_id", is_nullable=True),
        # A variant may be NULL: not all JSON fits into one.
        ("payload", *payload, options.payload_type == "variant"),
        ("created_at", TimestampType(), pa.timestamp("us", tz="UTC"), False),
        text("producer_sub", is_nullable=True),
        ("is_encrypted", BooleanType(), pa.bool_(), False),
    ]
    if options.delivery_state:
        groups = pa.list_(pa.field("element", pa.string(), nullable=False))
        columns += [
            ("consumed_by", ArrayType(StringType(), containsNull=False), groups, False),
            ("is_dead_letter", BooleanType(), pa.bool_(), False),
        ]
    if options.include_xid:
        columns.append(("xid", LongType(), pa.int64(), False))
    return columns


def spark_schema(options: ReadOptions) -> StructType:
    """The columns as Spark sees them."""
    return StructType(
        [StructField(name, kind, nullable) for name, kind, _, nullable in _columns(options)]
    )


def check_schema(schema: StructType, options: ReadOptions) -> None:
    """Refuse a schema that is not the source's own."""
    own = spark_schema(options)
    if schema.simpleString() != own.simpleString():
        raise InvalidRequest(
            f"the columns of this source are fixed; leave out schema(...), or give it"
            f" {own.simpleString()}"
        )


def arrow_schema(options: ReadOptions) -> pa.Schema:
    """The same as Arrow sees them."""
    return pa.schema([pa.field(name, kind, nullable=n) for name, _, kind, n in _columns(options)])


def to_batches(table: pa.Table, options: ReadOptions) -> list[pa.RecordBatch]:
    """Rows as the database gave them, in exactly the types that Spark was told."""
    schema = arrow_schema(options)
    arrays = [_converted(table.column(field.name), field.type) for field in schema]
    batches: list[pa.RecordBatch] = pa.Table.from_arrays(arrays, schema=schema).to_batches()
    return batches


def _converted(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if kind == _VARIANT:
        return _chunked(column, _variants, _VARIANT)
    if pa.types.is_list(kind):
        return _chunked(column, lambda chunk: pa.array(chunk.to_pylist(), kind), kind)
    return column.cast(kind)


def _chunked(
    column: pa.ChunkedArray, convert: Callable[[pa.Array], pa.Array], kind: pa.DataType
) -> pa.ChunkedArray:
    return pa.chunked_array([convert(chunk) for chunk in column.chunks], kind)


def _variants(texts: pa.Array) -> pa.Array:
    return pa.array([_variant(text) for text in texts.to_pylist()], _VARIANT)


def _variant(text: str) -> dict[str, bytes] | None:
    """JSON as a variant; None if it is too large or too deep for one, as try_parse_json does."""
    try:
        parsed = VariantVal.parseJson(text)
    except Exception:
        # Its limits end in errors of many kinds, and one message must not stop a stream.
        return None
    return {"value": bytes(parsed.value), "metadata": bytes(parsed.metadata)}
