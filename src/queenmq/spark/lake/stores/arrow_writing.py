"""Writes files of a lake through Arrow and delta-rs, if Spark cannot reach the store.

Each attempt of a task writes files of its own and returns what it wrote. Only the files of attempts
that Spark has taken get into the log. The files have no variants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from queenmq.clock import unix_ms
from queenmq.spark.lake.folders import folder_name
from queenmq.spark.lake.layout import COLUMNS, FILE_COLUMNS, FILE_ROWS, DataFile, Lake
from queenmq.spark.lake.statistics import TEXT_MAX, statistics
from queenmq.spark.lake.stores.arrow_files import SCHEMA, open_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAMES = [name for name, _ in FILE_COLUMNS]
_FILE = pa.schema([SCHEMA.field(name) for name in _NAMES])
#: What a task returns of each file: the fields of DataFile.
_WRITTEN = (
    "path string, queue string, day date, bytes long, messages long, first_xid long, last_xid long,"
    " first_seq long, last_seq long, first_time timestamp, last_time timestamp, modified_ms long,"
    " stats string"
)
_BOUNDS = {"xid": "xid", "seq": "seq", "created_at": "time"}


def write_by_arrow(lake: Lake, rows: DataFrame) -> list[DataFile]:
    """Write rows that are sorted by queue and day into a new folder; return the files."""
    # No name that says that there are variants.
    folder = f"rows-{uuid4().hex}"
    written = rows.select(*(name for name, _ in COLUMNS)).mapInArrow(
        partial(_write, lake, folder), _WRITTEN
    )
    return [DataFile(**row) for row in written.toArrow().to_pylist()]


class _Run(NamedTuple):
    """Rows of one queue and day."""

    queue: str
    day: date
    rows: pa.Table


def _write(lake: Lake, folder: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    file: _OpenFile | None = None
    for batch in batches:
        for run in _runs(batch):
            if file is not None and not file.has_room_for(run):
                yield file.close()
                file = None
            if file is None:
                file = _OpenFile(lake, folder, run)
            file.add(run.rows)
    if file is not None:
        yield file.close()


def _runs(batch: pa.RecordBatch) -> Iterator[_Run]:
    """Cut a batch where the queue or the day changes."""
    table = pa.Table.from_batches([batch]).cast(SCHEMA)
    starts = [0] if table.num_rows else []
    for column in ("queue", "day"):
        ends = pc.run_end_encode(table.column(column).combine_chunks()).run_ends.to_pylist()
        starts += ends[:-1]
    cuts = [*sorted(set(starts)), table.num_rows]
    for start, end in pairwise(cuts):
        rows = table.slice(start, end - start)
        yield _Run(rows.column("queue")[0].as_py(), rows.column("day")[0].as_py(), rows)


class _OpenFile:
    """A file that is being written, with the bounds of its columns so far."""

    def __init__(self, lake: Lake, folder: str, first: _Run) -> None:
        self._queue, self._day = first.queue, first.day
        name = f"part-{uuid4().hex}.zstd.parquet"
        self._path = f"{folder}/{folder_name(first.queue)}/day={first.day}/{name}"
        self._system, home = open_files(lake)
        self._place = f"{home}{self._path}"
        self._writer = pq.ParquetWriter(
            self._place, _FILE, compression="zstd", filesystem=self._system
        )
        self._rows = 0
        self._lows: dict[str, Any] = dict.fromkeys(_NAMES)
        self._highs: dict[str, Any] = dict.fromkeys(_NAMES)
        self._nulls = dict.fromkeys(_NAMES, 0)

    def has_room_for(self, run: _Run) -> bool:
        return (run.queue, run.day) == (self._queue, self._day) and self._rows < FILE_ROWS

    def add(self, rows: pa.Table) -> None:
        self._writer.write_table(rows.select(_NAMES))
        self._rows += rows.num_rows
        for name in _NAMES:
            column = rows.column(name)
            self._nulls[name] += column.null_count
            if name == "payload":
                # Payloads may be large. They begin like JSON, so a few letters are enough.
                column = pc.utf8_slice_codeunits(column, 0, TEXT_MAX + 1)
            bounds = pc.min_max(column).as_py()
            if bounds["min"] is None:
                continue
            low, high = self._lows[name], self._highs[name]
            self._lows[name] = bounds["min"] if low is None else min(low, bounds["min"])
            self._highs[name] = bounds["max"] if high is None else max(high, bounds["max"])

    def close(self) -> pa.RecordBatch:
        """Close the file. Return its description."""
        self._writer.close()
        bounds = {name: (self._lows[name], self._highs[name]) for name in _NAMES}
        written: dict[str, Any] = {
            "path": self._path,
            "queue": self._queue,
            "day": self._day,
            "bytes": self._system.get_file_info(self._place).size,
            "messages": self._rows,
            "modified_ms": unix_ms(),
            "stats": statistics(self._rows, bounds, self._nulls),
        }
        for column, name in _BOUNDS.items():
            written[f"first_{name}"], written[f"last_{name}"] = bounds[column]
        return pa.RecordBatch.from_pylist([written], _written_schema())


def _written_schema() -> pa.Schema:
    kinds = {
        "string": pa.string(),
        "date": pa.date32(),
        "long": pa.int64(),
        "timestamp": SCHEMA.field("created_at").type,
    }
    fields = (text.split() for text in _WRITTEN.split(","))
    return pa.schema([(name, kinds[kind]) for name, kind in fields])
