"""Small lakes, written by delta-rs and Arrow alone, without Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from queenmq.spark.lake import manifest
from queenmq.spark.lake.folders import folder_name
from queenmq.spark.lake.layout import FILE_COLUMNS, DataFile, Lake
from queenmq.spark.lake.statistics import statistics
from queenmq.spark.lake.tally import Tally

QUEUE = UUID(int=1)
DAY = date(2026, 1, 31)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def make_message(seq: int) -> dict[str, Any]:
    """Return a row of the lake, without queue and day."""
    return {
        "namespace": "",
        "task": None,
        "partition": "p",
        "partition_id": "id-p",
        "seq": seq,
        "message_id": f"m{seq}",
        "transaction_id": f"t{seq}",
        "trace_id": None,
        "payload": "{}",
        "created_at": NOON,
        "producer_sub": None,
        "is_encrypted": False,
        "xid": seq * 10,
    }


def write_file(lake: Lake, *seqs: int, queue: str = "a b") -> DataFile:
    """Write a file as the archive does; it is no part of the table yet."""
    rows = [make_message(seq) for seq in seqs]
    folder = f"data-{seqs[0]:032x}/{folder_name(queue)}/day={DAY}"
    path = Path(lake.messages, folder, "part-0.parquet")
    path.parent.mkdir(parents=True)
    kinds = {"long": pa.int64(), "timestamp": pa.timestamp("us", "UTC"), "boolean": pa.bool_()}
    schema = pa.schema([(name, kinds.get(kind, pa.string())) for name, kind in FILE_COLUMNS])
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    names = [name for name, _ in FILE_COLUMNS]
    found = {name: [row[name] for row in rows if row[name] is not None] for name in names}
    bounds = {
        name: (min(all_), max(all_)) if all_ else (None, None) for name, all_ in found.items()
    }
    nulls = {name: len(rows) - len(all_) for name, all_ in found.items()}
    stats = statistics(len(rows), bounds, nulls)
    size = path.stat().st_size
    return DataFile(f"{folder}/part-0.parquet", size, queue, DAY, len(rows), stats=stats)


def add_entry(lake: Lake, *seqs: int, checksum: int) -> None:
    """Add an entry to the manifest, as an archive does when it has verified these messages."""
    tally = Tally(len(seqs), min(seqs), max(seqs), checksum)
    entry = manifest.Entry("a b", "p", "id-p", tally)
    end = max(seqs) * 10 + 1
    manifest.append(lake, [entry], start=0, end=end, queues={"a b": QUEUE})
