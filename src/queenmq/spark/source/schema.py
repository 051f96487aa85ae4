"""Owns the columns: their Spark types, their Arrow types, and payloads in the form asked for."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
from queenmq.spark.payloads.columns import MISFIT, fit_payloads, misfit_types, payload_types
from queenmq.spark.payloads.sealed import open_payloads
from queenmq.spark.source.options import ReadOptions

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

#: Of the 32 digits of a UUID: the first of a group, its place in the text, its length.
_UUID_PARTS = ((0, 0, 8), (8, 9, 4), (12, 14, 4), (16, 19, 4), (20, 24, 12))
#: Name, Spark type, Arrow type, whether it may be NULL.
_Column = tuple[str, DataType, pa.DataType, bool]


def _columns(options: ReadOptions) -> list[_Column]:
    def text(name: str, *, is_nullable: bool = False) -> _Column:
        return name, StringType(), pa.string(), is_nullable

    fields = options.payload_schema
    payload = _PAYLOADS[options.payload_type] if fields is None else payload_types(fields)
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
        # NULL: encrypted, or JSON that does not fit into a variant or the fields.
        ("payload", *payload, True),
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
    if fields is not None:
        columns.append((MISFIT, *misfit_types(), True))
    if options.is_nullable:
        return [(name, kind, arrow, True) for name, kind, arrow, _ in columns]
    return columns


def spark_schema(options: ReadOptions) -> StructType:
    """Return the columns as Spark sees them."""
    return StructType(
        [StructField(name, kind, nullable) for name, kind, _, nullable in _columns(options)]
    )


def check_schema(schema: StructType, options: ReadOptions) -> None:
    """Refuse a schema that is not the source's own."""
    own = spark_schema(options)
    if schema.simpleString() != own.simpleString():
        raise InvalidRequest(
            "the columns of this source are fixed; leave out schema(...), or give it"
            f" {own.simpleString()}; a table of an older version has to be made again"
        )


def arrow_schema(options: ReadOptions) -> pa.Schema:
    """Return the same as Arrow sees them."""
    return pa.schema([pa.field(name, kind, nullable=n) for name, _, kind, n in _columns(options)])


def stored_names(options: ReadOptions) -> list[str]:
    """Return the stored columns. The others are computed from them."""
    return [name for name in arrow_schema(options).names if name != MISFIT]


def partition_ids(rows: pa.Table) -> list[UUID]:
    """Return the partitions of messages as the database gave them."""
    return [UUID(bytes=one) for one in _strip_extension(rows["partition_id"]).unique().to_pylist()]


def to_batches(rows: pa.Table, names: pa.Table, options: ReadOptions) -> list[pa.RecordBatch]:
    """Return stored messages with the names of their partitions and queues.

    The task looks up names after it has read messages. A message without a name was deleted
    meanwhile and is left out.
    """
    places = pc.index_in(
        _strip_extension(rows["partition_id"]), value_set=_strip_extension(names["partition_id"])
    )
    if places.null_count:
        rows, places = rows.filter(places.is_valid()), places.drop_null()
    columns = {name: rows[name] for name in rows.column_names}
    for name in names.column_names:
        # Partitions are fewer than messages: their ids, too, become texts before.
        columns[name] = _convert(names[name], pa.string()).take(places)
    columns["message_id"] = _convert(columns["message_id"], pa.string())
    # A message that was pushed without one.
    columns["transaction_id"] = pc.coalesce(columns["transaction_id"], columns["message_id"])
    return typed_batches(pa.table(columns), options)


def typed_batches(rows: pa.Table, options: ReadOptions) -> list[pa.RecordBatch]:
    """Return rows in exactly the types that Spark expects."""
    schema = arrow_schema(options)
    if options.sealed_as != "stored":
        rows = open_payloads(rows, options.keys)
    if options.payload_schema is not None:
        payloads = _strip_extension(rows["payload"]).cast(pa.string())
        rows = rows.set_column(rows.column_names.index("payload"), "payload", payloads)
        rows = fit_payloads(rows, options.payload_schema)
    arrays = [_convert(rows[field.name], field.type) for field in schema]
    batches: list[pa.RecordBatch] = pa.Table.from_arrays(arrays, schema=schema).to_batches()
    return batches


def _convert(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if isinstance(column.type, pa.UuidType):
        return _chunk(column, _uuid_texts, kind)
    column = _strip_extension(column)
    if kind == _VARIANT:
        return _chunk(column, _variants, _VARIANT)
    if column.type == kind:
        return column
    if pa.types.is_list(kind):
        return _chunk(column, lambda chunk: pa.array(chunk.to_pylist(), kind), kind)
    return column.cast(kind)


def _strip_extension(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Strip Arrow's extension type: JSON becomes text, a UUID sixteen bytes."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    return _chunk(column, lambda chunk: chunk.storage, column.type.storage_type)


def _chunk(
    column: pa.ChunkedArray, convert: Callable[[pa.Array], pa.Array], kind: pa.DataType
) -> pa.ChunkedArray:
    return pa.chunked_array([convert(chunk) for chunk in column.chunks], kind)


def _uuid_texts(uuids: pa.Array) -> pa.Array:
    """Return UUIDs in their usual form, all at once: they come as sixteen bytes each."""
    count = len(uuids)
    if uuids.null_count == count:
        return pa.nulls(count, pa.string())
    # A copy begins at its buffers' begin, which a part of another array does not.
    values = pa.concat_arrays([uuids.storage]) if uuids.offset else uuids.storage
    valid, data = values.buffers()
    digits = np.frombuffer(bytes(data[: count * 16]).hex().encode(), np.uint8).reshape(count, 32)
    texts = np.full((count, 36), ord("-"), np.uint8)
    for begin, place, length in _UUID_PARTS:
        texts[:, place : place + length] = digits[:, begin : begin + length]
    ends = np.arange(count + 1, dtype=np.int32) * 36
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _variants(texts: pa.Array) -> pa.Array:
    found = [None if text is None else _variant(text) for text in texts.to_pylist()]
    return pa.array(found, _VARIANT)


def _variant(text: str) -> dict[str, bytes] | None:
    """Return JSON as a variant, or None if it is too large or too deep for one, as try_parse_json
    does.
    """
    try:
        parsed = VariantVal.parseJson(text)
    except Exception:
        # Its limits end in errors of many kinds, and one message must not stop a stream.
        return None
    return {"value": bytes(parsed.value), "metadata": bytes(parsed.metadata)}
