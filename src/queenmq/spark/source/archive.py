"""Reads messages of a lake together with the live ones, each message once.

The lake's log says for each queue up to which transaction it has everything. Messages below that
number come from the lake, all others from the database. It does not matter what retention has
removed. One number decides, so no message appears twice or is left out. Tasks read the files with
plain Arrow, because a task of a Python source has no Spark.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from queenmq.errors import NotFound, StorageUnavailable
from queenmq.spark.database.connection import Database
from queenmq.spark.database.sql_text import load
from queenmq.spark.lake.layout import DataFile, Lake
from queenmq.spark.lake.stores.arrow_files import Place, make_dataset
from queenmq.spark.lake.stores.urls import explain
from queenmq.spark.source.options import TASK_BYTES, ReadOptions, Scope
from queenmq.spark.source.planning import Queues, find_partitions
from queenmq.spark.source.schema import stored_names, typed_batches
from queenmq.spark.source.selection import Selection

if TYPE_CHECKING:
    from queenmq.spark.lake.table import MessageTable


@dataclass(frozen=True)
class RowFilter:
    """Bounds on the rows of a file. None means no bound."""

    start: int
    end: int | None
    partitions: frozenset[str] | None
    partition_ids: frozenset[UUID] | None
    seq_from: int | None
    seq_to: int | None
    time_from: Any
    time_before: Any
    namespace: str | None = None
    task: str | None = None

    def expression(self) -> pc.Expression:
        """Return the filter as an Arrow expression."""
        wanted = pc.field("xid") >= self.start
        for name, low, before in (
            ("xid", None, self.end),
            ("created_at", self.time_from, self.time_before),
            ("seq", self.seq_from, None if self.seq_to is None else self.seq_to + 1),
        ):
            if low is not None:
                wanted &= pc.field(name) >= low
            if before is not None:
                wanted &= pc.field(name) < before
        ids = None if self.partition_ids is None else map(str, self.partition_ids)
        for name, values in (("partition", self.partitions), ("partition_id", ids)):
            if values is not None:
                wanted &= pc.field(name).isin(pa.array(sorted(values), pa.string()))
        for name, value in (("namespace", self.namespace), ("task", self.task)):
            if value is not None:
                wanted &= pc.field(name) == value
        return wanted

    def may_be_in(self, file: DataFile) -> bool:
        """Return whether a file may hold such rows, by what its table knows of it."""
        seq_before = None if self.seq_to is None else self.seq_to + 1
        return (
            file.may_have(self.start, self.end, "xid")
            and file.may_have(self.seq_from, seq_before, "seq")
            and file.may_have(self.time_from, self.time_before, "time")
        )


@dataclass
class ArchiveSplit(InputPartition):
    """One task: some files, each with its queue, which the log knows and not the file."""

    lake: Lake
    files: tuple[Place, ...]
    rows: RowFilter

    @property
    def paths(self) -> tuple[str, ...]:
        """Return where the files are, below the table."""
        return tuple(place.path for place in self.files)


@dataclass(frozen=True)
class Found:
    """The queues that are meant: live ones with their positions in the lake, and archived ones."""

    #: Queues with messages from this transaction on that the lake does not have.
    live: Mapping[int, tuple[UUID, ...]]
    archived: frozenset[str]
    #: Archived, and no longer there.
    gone: frozenset[str]


class Archive:
    """One version of a lake."""

    def __init__(self, table: MessageTable) -> None:
        self._table = table
        self._files = table.files()

    @classmethod
    def at(cls, path: str) -> Archive:
        """Return the newest version."""
        from queenmq.spark.lake.table import open_table

        return cls(open_table(Lake.at(path)))

    def check(self, database: Database, continues: str | None) -> None:
        """Fail if the lake is not one of this database: its positions would hide live messages."""
        from queenmq.spark.lake.origin import check_origin

        check_origin(database, self._table, continues=continues)

    def find(self, database: Database, scope: Scope, only: Collection[str] | None) -> Found:
        """Return the queues of the options. One that is named has to be live or in the lake."""
        live = {row["name"]: UUID(row["id"]) for row in _find_queues(database, scope)}
        names = {file.queue for file in self._files}
        missing = set(scope.queues or ()) - live.keys() - names
        if missing:
            raise NotFound(
                f"no queue {', '.join(sorted(missing))}, neither live nor in the lake;"
                " correct the option"
            )
        others = {name for name in names - live.keys() if _may_mean(scope, name)}
        gone = others - {row["name"] for row in _find_queues(database, _make_scope(others))}
        positions = defaultdict(list)
        for name, queue_id in live.items():
            if only is None or name in only:
                positions[self._table.position(queue_id)].append(queue_id)
        archived = names & live.keys()
        return Found(
            {start: tuple(sorted(ids)) for start, ids in positions.items()},
            frozenset(archived if only is None else archived & set(only)),
            frozenset(gone if only is None else gone & set(only)),
        )

    def splits(self, found: Found, scope: Scope, rows: RowFilter) -> list[ArchiveSplit]:
        """Return the tasks that read the lake."""
        # A queue that is there belongs where it is now, one that is not where it was.
        of_gone = replace(rows, namespace=scope.namespace, task=scope.task)
        return [
            ArchiveSplit(self._table.lake, files, filter)
            for queues, filter in ((found.archived, rows), (found.gone, of_gone))
            for files in _tasks(
                file for file in self._files if file.queue in queues and filter.may_be_in(file)
            )
        ]


def live_queues(database: Database, ids: tuple[UUID, ...], scope: Scope) -> Queues:
    """Return live queues in the form in which a read of them begins."""
    names = scope.partitions
    chosen = None if names is None else find_partitions(database, ids, names)
    return Queues(ids, (), chosen)


def row_filter(
    selection: Selection, names: frozenset[str] | None, ids: frozenset[UUID] | None
) -> RowFilter:
    """Return the bounds of a selection, and partitions by name or id, for rows of the lake."""
    return RowFilter(
        selection.start,
        selection.end,
        names,
        ids,
        selection.seq_from,
        selection.seq_to,
        selection.time_from,
        selection.time_before,
    )


def read_archive(split: ArchiveSplit, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, some at a time."""
    try:
        # Read one after the other: a task has one core.
        for batch in make_dataset(split.lake, split.files).to_batches(
            columns=stored_names(options), filter=split.rows.expression(), use_threads=False
        ):
            if batch.num_rows:
                yield from typed_batches(pa.Table.from_batches([batch]), options)
    except (OSError, pa.ArrowException) as error:
        reason = explain(split.lake.location, str(error))
        raise StorageUnavailable(
            f"the lake at {split.lake.location} cannot be read, or files were removed from it"
            f" meanwhile: {reason}; read again"
        ) from error


def _tasks(files: Iterable[DataFile]) -> Iterator[tuple[Place, ...]]:
    """Yield files together until they are large enough for a task."""
    some: list[Place] = []
    size = 0
    for file in sorted(files, key=lambda file: (file.queue, file.day, file.path)):
        if some and size + file.bytes > TASK_BYTES:
            yield tuple(some)
            some, size = [], 0
        some.append(Place.of(file))
        size += file.bytes
    if some:
        yield tuple(some)


def _find_queues(database: Database, scope: Scope) -> list[dict[str, Any]]:
    return database.rows(load("read")["scope"], scope.to_json())


def _make_scope(names: Collection[str]) -> Scope:
    return Scope(tuple(sorted(names)), None, None, None, None)


def _may_mean(scope: Scope, name: str) -> bool:
    """Return whether the options may select a queue of that name. Its rows decide the rest."""
    if scope.queues is not None:
        return name in scope.queues
    return scope.pattern is None or re.fullmatch(scope.pattern, name) is not None
