"""Files of a lake as Arrow reads them, in a folder or an object store.

Files of a store go through delta-rs, so that its one set of credentials opens the log and the
files alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem

from queenmq.spark.lake.layout import COLUMNS, Lake

if TYPE_CHECKING:
    from queenmq.spark.lake.layout import DataFile

_KINDS = {
    "string": pa.string(),
    "long": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}
#: Of the table, whichever types the files of a writer have.
SCHEMA = pa.schema([(name, _KINDS[kind]) for name, kind in COLUMNS])


class Place(NamedTuple):
    """A file below the table, with what only the log knows of it."""

    path: str
    queue: str
    day: date

    @classmethod
    def of(cls, file: DataFile) -> Place:
        return cls(file.path, file.queue, file.day)


def open_files(lake: Lake) -> tuple[FileSystem, str]:
    """Return the file system of a lake, and what paths below the table begin with there."""
    if lake.is_local:
        return LocalFileSystem(), f"{lake.messages}/"
    from deltalake.fs import DeltaStorageHandler

    return PyFileSystem(DeltaStorageHandler(lake.messages)), ""


def make_dataset(lake: Lake, places: Iterable[Place]) -> ds.Dataset:
    """Return the rows of files, with queue and day as the log has them."""
    system, home = open_files(lake)
    kind = ds.ParquetFileFormat()
    files = [
        kind.make_fragment(
            f"{home}{place.path}",
            system,
            (pc.field("queue") == place.queue)
            & (pc.field("day") == pa.scalar(place.day, pa.date32())),
        )
        for place in places
    ]
    return ds.FileSystemDataset(files, SCHEMA, kind, system)
