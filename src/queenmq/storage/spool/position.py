"""Plain values of the spool: places in its files, batches read from it, its counters."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple


class Place(NamedTuple):
    """A byte in the files, always between two records. Ordered like the records."""

    segment: int
    offset: int


class Phase(enum.IntEnum):
    """The phase of a drain, as the draining process announced it last."""

    OPEN = 0
    #: The last records are being drained; pushes may wait for that.
    CLOSING = 1
    #: The database has a fault that keeps the records in front from being stored.
    STUCK = 2


@dataclass(frozen=True)
class Position:
    """The place after a record, and what had been drained in all when that record is done.

    Good until the spool is closed: the totals count from the time the shared state was made.
    """

    place: Place
    records_total: int
    bytes_total: int


@dataclass(frozen=True)
class SpoolBatch:
    """Records from the front. `positions[i]` is what to advance to when `bodies[:i + 1]` are done.

    A batch without bodies means that nothing was left, or only what could not be read and is now
    set aside.
    """

    bodies: list[bytes]
    positions: list[Position]
    start: Position

    @property
    def end(self) -> Position:
        """Return where the whole batch is done."""
        return self.positions[-1] if self.positions else self.start


@dataclass(frozen=True)
class SpoolStats:
    """The counts of the spool and its set-aside area. Bytes include the framing."""

    pending_records: int
    pending_bytes: int
    aside_records: int
    aside_bytes: int
    is_stuck: bool = False
