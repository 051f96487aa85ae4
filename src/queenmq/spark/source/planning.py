"""Cuts a selection of messages into tasks, and reads one task.

Each task is one statement of bounded size. The planner cuts between transactions, so that all tasks
together walk the index by transaction once. Only a transaction that is too large for one task is
cut inside, in the order of partitions and their messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from queenmq.errors import NotFound
from queenmq.spark.database.connection import Database
from queenmq.spark.database.outages import insist
from queenmq.spark.database.sql_text import Sql, fill, load
from queenmq.spark.runtime.worker_process import calm_garbage_collector
from queenmq.spark.source.offsets import DataLoss
from queenmq.spark.source.options import TASK_BYTES, ReadOptions, Scope
from queenmq.spark.source.schema import partition_ids, to_batches
from queenmq.spark.source.selection import Place, Selection

#: Of one task, as TASK_BYTES.
TASK_ROWS = 100_000


@dataclass(frozen=True)
class Queues:
    """The queues that the options name now."""

    ids: tuple[UUID, ...]
    names: tuple[str, ...]
    #: None: all partitions.
    partitions: tuple[UUID, ...] | None

    @property
    def selection(self) -> Selection:
        return Selection(self.ids, partitions=self.partitions)


@dataclass
class Split(InputPartition):
    """One task."""

    selection: Selection
    #: How many messages it must find. None if unknown.
    messages: int | None


class Plan(NamedTuple):
    """The tasks, and how many messages they will find together."""

    splits: list[InputPartition]
    messages: int


def find_queues(database: Database, scope: Scope, *, only: Collection[str] | None = None) -> Queues:
    """Look up the names. A named queue must exist. A pattern may match none."""
    found = read_queue_names(database, scope).items()
    chosen = {key: name for key, name in found if only is None or name in only}
    ids = tuple(chosen)
    partitions = None
    if scope.partitions is not None:
        partitions = find_partitions(database, ids, scope.partitions)
    return Queues(ids, tuple(sorted(chosen.values())), partitions)


def read_queue_names(database: Database, scope: Scope) -> dict[UUID, str]:
    """Return the queues of the options, in id order, with their names."""
    found = database.rows(load("read")["scope"], scope.to_json())
    missing = set(scope.queues or ()) - {row["name"] for row in found}
    if missing:
        raise NotFound(f"no queue {', '.join(sorted(missing))}; create it, or correct the option")
    return {UUID(row["id"]): row["name"] for row in found}


def find_partitions(
    database: Database, queues: Collection[UUID], names: Collection[str]
) -> tuple[UUID, ...]:
    """Return the partitions of these queues by their names."""
    parameter = {"queues": [str(item) for item in queues], "names": sorted(names)}
    rows = database.rows(load("read")["partition_ids"], parameter)
    return tuple(UUID(row["id"]) for row in rows)


def horizon(database: Database) -> int:
    """Return the horizon: every transaction below it has ended."""
    return int(database.row(load("read")["horizon"])["xid"])


def count(database: Database, selection: Selection, *, limit: int = 2**62) -> int:
    """Return how many messages there are, up to a limit."""
    if selection.is_empty:
        return 0
    statement = fill(load("read")["count_up_to"], selection=selection.condition(), limit=limit)
    messages: int = database.row(statement)["messages"]
    return messages


def plan(
    database: Database, selection: Selection, *, pieces: int, task_bytes: int = TASK_BYTES
) -> Plan:
    """Return the tasks for a selection whose end is no later than the horizon."""
    if selection.is_empty:
        return Plan([], 0)
    statement = fill(
        load("read")["splits"],
        selection=selection.condition(),
        rows=TASK_ROWS,
        bytes=task_bytes,
        pieces=pieces,
    )
    splits: list[InputPartition] = []
    rows = database.rows(statement)
    for row in rows:
        piece = selection.between(row["first"], row["last"] + 1)
        if row["messages"] <= row["goal"]:
            splits.append(Split(piece, row["messages"]))
        else:
            splits += _cut(database, piece, rows=row["goal"], size=task_bytes)
    return Plan(splits, sum(row["messages"] for row in rows))


def _cut(database: Database, piece: Selection, *, rows: int, size: int) -> list[Split]:
    """Cut transactions that are too large for one task. A partition keeps its order."""
    sql = load("read")["places"]
    found = database.rows(fill(sql, selection=piece.condition(), rows=rows, bytes=size))
    firsts = [(Place(UUID(row["partition_id"]), row["seq"]), row["number"]) for row in found]
    # Nothing comes after the last one.
    bounds = [*firsts, (None, found[-1]["messages"] + 1 if found else 1)]
    return [
        Split(replace(piece, place_from=first, place_before=following), end - number)
        for (first, number), (following, end) in pairwise(bounds)
    ]


def read_split(split: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, once all of them are here and the connection is closed."""
    if not isinstance(split, Split):
        # Spark makes up an empty task where a plan has none.
        return
    calm_garbage_collector()
    more = Sql("".join(_more(options)))
    statement = fill(load("read")["messages"], selection=split.selection.condition(), more=more)

    def fetch() -> tuple[pa.Table, pa.Table]:
        with Database(options.url) as database:
            messages = database.table(statement)
            names = fill(load("read")["names"], partitions=partition_ids(messages))
            return messages, database.table(names)

    # The driver has just planned this, so the database is worth waiting for.
    messages, names = insist(fetch, options.retry_s)
    batches = to_batches(messages, names, options)
    missing = (split.messages or 0) - sum(batch.num_rows for batch in batches)
    if missing > 0 and options.fail_on_data_loss:
        raise lost(missing)
    yield from batches


def _more(options: ReadOptions) -> Iterator[Sql]:
    if options.delivery_state:
        yield load("read")["delivery_state"]
    if options.include_xid:
        yield load("read")["xid"]


def lost(messages: int) -> DataLoss:
    """Return the error for messages that are gone."""
    return DataLoss(
        f"{messages} messages were removed before they were read, by retention, a cleared queue"
        " or a delete; start at a later position, or set failOnDataLoss to false to go on without"
    )
