"""Writes the rows of an INSERT, which leaves out what a push would fill in."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from queenmq.spark.sink.writers import QueenWriter, StagedRows

_PARTITION = "partition"
_DEFAULT = "Default"


class TableWriter(QueenWriter):
    """A batch write in which a NULL partition means the default one."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        return super().write(_fill(batch) for batch in iterator)


def _fill(batch: pa.RecordBatch) -> pa.RecordBatch:
    place = batch.schema.get_field_index(_PARTITION)
    if place < 0 or not batch.column(place).null_count:
        return batch
    names = pc.fill_null(batch.column(place), _DEFAULT)
    return batch.set_column(place, batch.schema.field(place), names)
