"""Pure: which messages a statement is about, as typed values, and their SQL condition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from queenmq.spark.database.sql_text import Sql, fill, load
from queenmq.spark.source.offsets import XID_MAX


class Place(NamedTuple):
    """One message."""

    partition: UUID
    seq: int


@dataclass(frozen=True)
class Selection:
    """Messages of some queues between two transactions. None means no bound."""

    queues: tuple[UUID, ...]
    start: int = 0
    end: int | None = None
    partitions: tuple[UUID, ...] | None = None
    seq_from: int | None = None
    seq_to: int | None = None
    time_from: datetime | None = None
    time_before: datetime | None = None
    #: Bounds in the order of partitions and their messages. The second is exclusive.
    place_from: Place | None = None
    place_before: Place | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether no message can be meant."""
        end = XID_MAX if self.end is None else self.end
        return not self.queues or self.partitions == () or self.start >= end

    def between(self, start: int, end: int) -> Selection:
        """Return the same, of other transactions."""
        return replace(self, start=start, end=end)

    def condition(self) -> Sql:
        """Return the SQL condition on `queen.messages m`."""
        return Sql("\n  AND ".join(self._conditions()))

    def _conditions(self) -> Iterator[Sql]:
        sql = load("read")
        yield fill(sql["in_queues"], queues=self.queues)
        yield fill(sql["from_transaction"], xid=self.start)
        if self.end is not None:
            yield fill(sql["before_transaction"], xid=self.end)
        if self.partitions is not None:
            yield fill(sql["in_partitions"], partitions=self.partitions)
        if self.seq_from is not None:
            yield fill(sql["from_seq"], seq=self.seq_from)
        if self.seq_to is not None:
            yield fill(sql["to_seq"], seq=self.seq_to)
        if self.time_from is not None:
            yield fill(sql["from_time"], time=self.time_from)
        if self.time_before is not None:
            yield fill(sql["before_time"], time=self.time_before)
        if self.place_from is not None:
            yield fill(sql["from_place"], **self.place_from._asdict())
        if self.place_before is not None:
            yield fill(sql["before_place"], **self.place_before._asdict())
