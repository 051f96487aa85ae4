"""The manifest records verified messages per partition and commit.

It is a separate Delta table. Rows are added once per queue and end of range, even after a crash,
because the log of the manifest keeps positions as the log of the messages does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake

from queenmq.clock import unix_ms
from queenmq.errors import NotFound
from queenmq.spark.lake.layout import Lake, app_id
from queenmq.spark.lake.table import create_table, delta_errors, transactions
from queenmq.spark.lake.tally import Tally
from queenmq.spark.lake.vacuuming import vacuum

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [
        ("queue", pa.string()),
        ("partition", pa.string()),
        ("partition_id", pa.string()),
        ("start_xid", pa.int64()),
        ("end_xid", pa.int64()),
        ("messages", pa.int64()),
        ("first_seq", pa.int64()),
        ("last_seq", pa.int64()),
        # Decimal: a sum of 60 bits each.
        ("checksum", pa.decimal128(38, 0)),
        ("verified_at", pa.timestamp("us", tz="UTC")),
    ]
)
#: Each commit adds a small file; from so many on they are made one.
_FILES_MAX = 50


@dataclass(frozen=True)
class Entry:
    """One partition's part of a range."""

    queue: str
    partition: str
    partition_id: str
    tally: Tally


def append(
    lake: Lake, entries: Iterable[Entry], *, start: int, end: int, queues: Mapping[str, UUID]
) -> None:
    """Add the verified messages of these queues (ids by name) in a range of transactions, once."""
    create_table(lake, lake.manifest, Schema.from_arrow(SCHEMA))
    with delta_errors(lake, "written"):
        delta = DeltaTable(lake.manifest)
        new = {
            name: queue_id
            for name, queue_id in queues.items()
            if (delta.transaction_version(app_id(queue_id)) or 0) < end
        }
        if not new:
            return
        rows = [entry for entry in entries if entry.queue in new]
        write_deltalake(
            delta,
            _table(rows, start, end),
            mode="append",
            # Repeated beside an optimization; not if another job has entered the same.
            commit_properties=CommitProperties(
                app_transactions=transactions(dict.fromkeys(new.values(), end))
            ),
        )


def read_entries(lake: Lake) -> list[dict[str, Any]]:
    """Return all rows, without Spark, or none where there is no manifest."""
    with delta_errors(lake, "read"):
        if not DeltaTable.is_deltatable(lake.manifest):
            return []
        rows: list[dict[str, Any]] = DeltaTable(lake.manifest).to_pyarrow_table().to_pylist()
    return rows


def read_manifest(spark: SparkSession, lake: Lake) -> DataFrame:
    """Return all rows. It is small next to the messages: one row per partition and commit."""
    with delta_errors(lake, "read"):
        if not DeltaTable.is_deltatable(lake.manifest):
            raise NotFound(f"there is no manifest at {lake.location}; nothing was archived there")
        rows = DeltaTable(lake.manifest).to_pyarrow_table()
    return spark.createDataFrame(rows.cast(SCHEMA))


def tidy(lake: Lake, *, at_least: int = _FILES_MAX) -> None:
    """Make one file of many small ones, if there are so many."""
    with delta_errors(lake, "written"):
        if not DeltaTable.is_deltatable(lake.manifest):
            return
        delta = DeltaTable(lake.manifest)
        if len(delta.file_uris()) >= at_least:
            delta.optimize.compact()


def clean_up(lake: Lake, hours: int, *, is_dry: bool = False) -> int:
    """Delete files that no version of the last hours refers to. Return how many."""
    with delta_errors(lake, "cleaned up"):
        if not DeltaTable.is_deltatable(lake.manifest):
            return 0
        return vacuum(DeltaTable(lake.manifest), hours, is_dry=is_dry)


def _table(entries: list[Entry], start: int, end: int) -> pa.Table:
    now = unix_ms() * 1000
    rows = [
        {
            "queue": entry.queue,
            "partition": entry.partition,
            "partition_id": entry.partition_id,
            "start_xid": start,
            "end_xid": end,
            "messages": entry.tally.messages,
            "first_seq": entry.tally.first_seq,
            "last_seq": entry.tally.last_seq,
            "checksum": Decimal(entry.tally.checksum),
            "verified_at": now,
        }
        for entry in entries
    ]
    return pa.Table.from_pylist(rows, SCHEMA)
