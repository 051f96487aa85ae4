"""Count, seq range and checksum of some messages of one partition. Pure.

The checksum of a message is the first 60 bits of the MD5 of its fields; that of several is the sum,
so order does not matter and parts add up. PostgreSQL computes it over live rows (`checksums` in
`sql/archive.sql`), Spark over files (`lake/reading.py`); a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tally:
    """Counts and checksums of at least one message."""

    messages: int
    first_seq: int
    last_seq: int
    checksum: int

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.messages + other.messages,
            min(self.first_seq, other.first_seq),
            max(self.last_seq, other.last_seq),
            self.checksum + other.checksum,
        )

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Tally:
        """Read a tally from a row of either side."""
        return cls(row["messages"], row["first_seq"], row["last_seq"], int(row["checksum"]))


def add_up(rows: Iterable[Mapping[str, Any]]) -> dict[str, Tally]:
    """Sum rows by partition id. A partition may have several rows."""
    found: dict[str, Tally] = {}
    for row in rows:
        tally, key = Tally.of(row), row["partition_id"]
        found[key] = found[key] + tally if key in found else tally
    return found


def find_differences(lake: Mapping[str, Tally], live: Mapping[str, Tally]) -> list[str]:
    """Return the partitions that are not the same on both sides, in order."""
    return sorted(key for key in lake.keys() | live.keys() if lake.get(key) != live.get(key))
