"""Reads the messages that are there now, once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from queenmq.spark.database.connection import Database
from queenmq.spark.source.archive import (
    Archive,
    ArchiveSplit,
    live_queues,
    read_archive,
    row_filter,
)
from queenmq.spark.source.conditions import parse_where
from queenmq.spark.source.filters import Pushed
from queenmq.spark.source.offsets import XID_MAX, Start
from queenmq.spark.source.options import ReadOptions
from queenmq.spark.source.planning import (
    Queues,
    find_partitions,
    find_queues,
    horizon,
    plan,
    read_split,
)
from queenmq.spark.source.selection import Selection


class QueenBatchReader(DataSourceReader):
    """A batch read.

    It ends at the transaction horizon at planning time, like a stream's batch. Its tasks are
    separate statements at different times, and they see the same messages only below the horizon.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._pushed = Pushed() if options.where is None else parse_where(options.where)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks."""
        with Database(self._options.url) as database:
            if self._options.archive is not None:
                return self._with_archive(database, Archive.at(self._options.archive))
            queues = find_queues(database, self._options.scope, only=self._pushed.queues)
            selection = self._narrow(database, queues)
            bounded = _bound(selection, self._options, horizon(database))
            return plan(
                database,
                bounded,
                pieces=self._options.min_partitions,
                task_bytes=self._options.task_bytes,
            ).splits

    def _with_archive(self, database: Database, archive: Archive) -> list[InputPartition]:
        """Return the tasks of lake and database together.

        The lake was opened first: its positions are below every horizon that is asked for later.
        """
        scope, pushed = self._options.scope, self._pushed
        archive.check(database, self._options.continues_database)
        found = archive.find(database, scope, pushed.queues)
        end = horizon(database)
        bounds = _bound(self._bounds(Selection(())), self._options, end)
        names = None if scope.partitions is None else frozenset(scope.partitions)
        if pushed.partitions is not None:
            names = pushed.partitions & (pushed.partitions if names is None else names)
        rows = row_filter(bounds, names, pushed.partition_ids)
        splits: list[InputPartition] = list(archive.splits(found, scope, rows))
        for position, ids in found.live.items():
            selection = self._narrow(database, live_queues(database, ids, scope))
            bounded = _bound(selection, self._options, end)
            later = replace(bounded, start=max(bounded.start, position))
            splits += plan(
                database,
                later,
                pieces=self._options.min_partitions,
                task_bytes=self._options.task_bytes,
            ).splits
        return splits

    def _narrow(self, database: Database, queues: Queues) -> Selection:
        pushed = self._pushed
        chosen = None if queues.partitions is None else frozenset(queues.partitions)
        if pushed.partitions is not None:
            named = frozenset(find_partitions(database, queues.ids, pushed.partitions))
            chosen = named if chosen is None else chosen & named
        if pushed.partition_ids is not None:
            chosen = pushed.partition_ids & (pushed.partition_ids if chosen is None else chosen)
        selection = self._bounds(queues.selection)
        return replace(selection, partitions=None if chosen is None else tuple(sorted(chosen)))

    def _bounds(self, selection: Selection) -> Selection:
        """Apply the filters that are ranges."""
        pushed = self._pushed
        return replace(
            selection,
            seq_from=pushed.seq_from,
            seq_to=pushed.seq_to,
            time_from=pushed.time_from,
            time_before=pushed.time_before,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        if isinstance(partition, ArchiveSplit):
            return read_archive(partition, self._options)
        return read_split(partition, self._options)


def _bound(selection: Selection, options: ReadOptions, horizon: int) -> Selection:
    """Apply the start and end of the options. Times hold for each message."""
    start, end = options.starting or Start("earliest"), options.ending
    changes: dict[str, Any] = {
        "start": {"latest": horizon, "xid": start.xid}.get(start.kind, 0),
        "end": min(horizon, end.xid if end.kind == "xid" else XID_MAX),
    }
    if start.time is not None:
        changes["time_from"] = max(start.time, selection.time_from or start.time)
    if end.time is not None:
        changes["time_before"] = min(end.time, selection.time_before or end.time)
    return replace(selection, **changes)
