"""The queries and updates of the archive job in the database."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from queenmq.errors import Conflict
from queenmq.spark.database.connection import Database
from queenmq.spark.database.sql_text import fill, load
from queenmq.spark.jobs.archive.batches import Batch, Waiting
from queenmq.spark.lake.origin import check_origin
from queenmq.spark.lake.table import MessageTable
from queenmq.spark.lake.tally import Tally, add_up
from queenmq.spark.source.history import Noted
from queenmq.spark.source.offsets import end_of_batch
from queenmq.spark.source.options import Scope
from queenmq.spark.source.planning import Split, count, horizon, plan, read_queue_names
from queenmq.spark.source.selection import Selection

#: Partitions that are marked by one statement.
_MARKS = 5_000
#: A job that was killed may hold its lock until the server notices.
_LOCK_TRIES, _LOCK_PAUSE_S = 10, 0.2
_FIRST_ID = UUID(int=0)


@dataclass(frozen=True)
class Holder:
    """Messages that wait for an open transaction."""

    messages: int
    #: The transaction, if it is known.
    transaction: str | None


class ArchiveStore:
    """One connection, outside of any transaction between two calls."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self._sql = load("archive")

    def __enter__(self) -> ArchiveStore:
        self._database.row(self._sql["settle_in"])
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def lock(self, lake: UUID) -> None:
        """Lock the lake, so that there is one writer while the connection lasts."""
        pause = threading.Event()
        for _ in range(_LOCK_TRIES):
            if self._database.rows(self._sql["lock"], {"lake": str(lake)})[0]["is_ours"]:
                return
            pause.wait(_LOCK_PAUSE_S)
        raise Conflict(
            "another archive job of this database writes to this lake; let it end, or give it the"
            " queues of this one too"
        )

    def check_lock(self, lake: UUID) -> None:
        """Fail if another process may write by now."""
        if not self._database.rows(self._sql["is_locked"], {"lake": str(lake)})[0]["is_ours"]:
            raise Conflict("the connection that locks the lake was replaced; run the job again")

    def queues(self, scope: Scope) -> dict[UUID, str]:
        """Return the selected queues with their names."""
        return read_queue_names(self._database, scope)

    def check_origin(
        self, table: MessageTable, *, continues: str | None, xid: int | None = None
    ) -> Noted:
        """Fail if this is not the database of a lake. With a position, record a mark."""
        return check_origin(self._database, table, continues=continues, xid=xid)

    def partitions_of(self, queues: Iterable[UUID], partitions: Sequence[str]) -> set[str]:
        """Return those of these partitions that belong to these queues."""
        found: set[str] = set()
        for first in range(0, len(partitions), _MARKS):
            parameter = {
                "queues": list(map(str, queues)),
                "partitions": partitions[first : first + _MARKS],
            }
            rows = self._database.rows(self._sql["belonging"], parameter)
            found.update(row["id"] for row in rows)
        return found

    def horizon(self) -> int:
        """Return the horizon: every transaction below it has ended."""
        return horizon(self._database)

    def waiting(self, positions: Mapping[UUID, int], horizon: int) -> dict[UUID, Waiting]:
        """Return the queues that have messages from their position on, below the horizon."""
        asked = [{"id": str(key), "xid": str(xid)} for key, xid in positions.items()]
        rows = self._database.rows(self._sql["waiting"], {"queues": asked, "horizon": str(horizon)})
        return {
            key: Waiting(positions[key], int(row["first"]))
            for row in rows
            for key in [UUID(row["id"])]
        }

    def cut(self, batch: Batch, limit: int) -> Batch:
        """Return the batch with at most so many messages, or with one transaction that has more."""
        selection = _selection(batch)
        statement = fill(
            load("read")["cut"],
            queues=batch.queues,
            selection=selection.condition(),
            limit=limit,
        )
        following = self._database.row(statement)["next"]
        cut = None if following is None else int(following)
        return replace(batch, end=end_of_batch(batch.start, cut, batch.end))

    def count(self, batch: Batch, limit: int) -> int:
        """Return how many messages, up to a limit."""
        return count(self._database, _selection(batch), limit=limit)

    def holder(self, queues: Collection[UUID], horizon: int) -> Holder | None:
        """Return the messages that wait above the horizon, and the transaction they wait for."""
        above = Selection(tuple(queues), start=horizon)
        messages = count(self._database, above, limit=1_000_000)
        if not messages:
            return None
        rows = self._database.rows(fill(load("read")["holder"], selection=above.condition()))
        return Holder(messages, next(map(_transaction, rows), None))

    def tallies(self, batch: Batch) -> dict[str, Tally]:
        """Count live messages and sum their checksums per partition, in bounded statements."""
        selection = _selection(batch)
        return add_up(row for part in self._parts(selection) for row in self._checksums(part))

    def _parts(self, selection: Selection) -> Iterator[Selection]:
        for split in plan(self._database, selection, pieces=1).splits:
            assert isinstance(split, Split)
            yield split.selection

    def _checksums(self, selection: Selection) -> list[dict[str, object]]:
        statement = fill(self._sql["checksums"], selection=selection.condition())
        return self._database.table(statement).to_pylist()  # type: ignore[no-any-return]

    def positions(self, lake: UUID, queues: Iterable[UUID]) -> dict[UUID, int]:
        """Return how far the lake is verified; queues that never were are not in it."""
        parameter = {"lake": str(lake), "queues": list(map(str, queues))}
        rows = self._database.rows(self._sql["positions"], parameter)
        return {UUID(row["id"]): int(row["xid"]) for row in rows}

    def advance(self, lake: UUID, location: str, queues: Iterable[UUID], xid: int) -> None:
        """Note that everything below a transaction is verified."""
        parameter = {
            "lake": str(lake),
            "location": location,
            "queues": list(map(str, queues)),
            "xid": str(xid),
        }
        self._database.execute(self._sql["advance"], parameter)

    def mark(self, lake: UUID, partitions: list[str], before: int, *, takes: bool = False) -> int:
        """Move the marks of partitions whose messages below a transaction are all verified."""
        moved = 0
        for first in range(0, len(partitions), _MARKS):
            parameter = {
                "lake": str(lake),
                "partitions": partitions[first : first + _MARKS],
                "before": str(before),
                "takes": takes,
            }
            moved += self._database.rows(self._sql["mark"], parameter)[0]["moved"]
        return moved

    def partitions(self, queue: UUID) -> Iterator[list[str]]:
        """Yield the partitions of a queue, page by page."""
        after = str(_FIRST_ID)
        while True:
            parameter = {"queue": str(queue), "after": after}
            rows = self._database.rows(self._sql["partitions"], parameter)
            if not rows:
                return
            yield [row["id"] for row in rows]
            after = rows[-1]["id"]


def _selection(batch: Batch) -> Selection:
    return Selection(batch.queues, start=batch.start, end=batch.end)


def _transaction(row: Mapping[str, object]) -> str:
    return f"pid {row['pid']}, {row['name']}, open for {row['age_s']} s"
