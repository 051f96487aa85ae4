"""Compares a lake with its manifest, with delta-rs alone: no Spark, no database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from queenmq.spark.database.sql_text import load
from queenmq.spark.lake.layout import Lake
from queenmq.spark.lake.manifest import read_entries
from queenmq.spark.lake.table import MessageTable, delta_errors
from queenmq.spark.lake.tally import Tally, add_up

#: What makes an entry of the manifest; the same twice is one.
_ENTRY = ("partition_id", "first_seq", "last_seq", "messages", "checksum")


@dataclass(frozen=True)
class Noted:
    """The manifest's entry for a partition."""

    queue: str
    partition: str
    tally: Tally
    #: Transactions from here on were not verified yet.
    end_xid: int


@dataclass(frozen=True)
class Difference:
    """A partition that differs from its verified state."""

    queue: str
    partition: str
    verified: int
    found: int
    what: str


@dataclass(frozen=True)
class Verified:
    """The content of a lake beside its manifest."""

    partitions: int
    messages: int
    #: Messages that came after the last entry of their partition, or of partitions without one.
    unverified: int
    missing_files: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def is_ok(self) -> bool:
        return not self.differences and not self.missing_files


def verify(table: MessageTable) -> Verified:
    """Read all rows and compare them with the manifest."""
    lake = table.lake
    with delta_errors(lake, "read"):
        missing = tuple(table.missing_files())
        noted = notes(read_entries(lake))
        if missing:
            return Verified(len(noted), 0, 0, missing, ())
        found, unverified = _sums(_read(lake, table), noted)
    return Verified(
        len(noted),
        sum(tally.messages for tally in found.values()),
        unverified,
        (),
        tuple(differences(noted, found)),
    )


def notes(entries: Iterable[Mapping[str, Any]]) -> dict[str, Noted]:
    """Return the manifest by partition id; an entry that is there twice counts once."""
    found: dict[str, Noted] = {}
    unique = {tuple(entry[name] for name in _ENTRY): entry for entry in entries}
    tallies = add_up(unique.values())
    for entry in unique.values():
        key = entry["partition_id"]
        end = max(entry["end_xid"], found[key].end_xid if key in found else 0)
        found[key] = Noted(entry["queue"], entry["partition"], tallies[key], end)
    return found


def differences(noted: Mapping[str, Noted], found: Mapping[str, Tally]) -> Iterator[Difference]:
    """Yield the partitions whose rows differ from the verified ones, by name."""
    for key, note in sorted(noted.items(), key=lambda item: (item[1].queue, item[1].partition)):
        tally = found.get(key)
        count = tally.messages if tally else 0
        if tally == note.tally:
            continue
        what = "changed"
        if count != note.tally.messages:
            what = "missing" if count < note.tally.messages else "more than verified"
        yield Difference(note.queue, note.partition, note.tally.messages, count, what)


def _sums(
    batches: Iterable[pa.RecordBatch], noted: Mapping[str, Noted]
) -> tuple[dict[str, Tally], int]:
    """Return the rows that were verified, by partition, and how many others there are."""
    found: dict[str, Tally] = {}
    others = 0
    for batch in batches:
        for key, seq, xid, digest in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            if key not in noted or xid >= noted[key].end_xid:
                others += 1
                continue
            tally = Tally(1, seq, seq, int(digest, 16))
            found[key] = found[key] + tally if key in found else tally
    return found, others


def _read(lake: Lake, table: MessageTable) -> Iterator[pa.RecordBatch]:
    delta = DeltaTable(lake.messages, version=table.version)
    reader = QueryBuilder().register("messages", delta).execute(str(load("lake")["digests"]))
    for batch in reader:
        yield pa.record_batch(batch)
