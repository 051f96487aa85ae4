"""The columns of typed payloads: their types, and their values for a batch of messages."""

from __future__ import annotations

import functools

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType, StructField, StructType

from queenmq.spark.payloads.fitting import make_fitter

#: The column for payloads that do not fit; NULL beside one that does.
MISFIT = "misfit"
_MISFIT_TYPE = StructType(
    # Without the key of an encrypted payload there is nothing to show.
    [StructField("reason", StringType(), False), StructField("payload", StringType(), True)]
)

_fitter = functools.cache(make_fitter)


def payload_types(schema: StructType) -> tuple[DataType, pa.DataType]:
    """Return the types of the column `payload` in Spark and in Arrow."""
    return schema, _arrow(schema)


def misfit_types() -> tuple[DataType, pa.DataType]:
    """Return the types of the column for payloads that do not fit."""
    return _MISFIT_TYPE, _arrow(_MISFIT_TYPE)


def fit_payloads(rows: pa.Table, schema: StructType) -> pa.Table:
    """Return the rows with typed payloads, and those that do not fit beside them."""
    fit = _fitter(schema)
    fields, misfits = [], []
    for text in rows["payload"].to_pylist():
        found, reason = (None, "payload is encrypted") if text is None else fit(text)
        fields.append(found)
        misfits.append(None if reason is None else {"reason": reason, "payload": text})
    place = rows.column_names.index("payload")
    return rows.set_column(
        place, "payload", pa.chunked_array([pa.array(fields, _arrow(schema))])
    ).append_column(MISFIT, pa.chunked_array([pa.array(misfits, _arrow(_MISFIT_TYPE))]))


def _arrow(kind: DataType) -> pa.DataType:
    return to_arrow_type(kind, timezone="UTC")
