"""The results of a run of the analytics job, and its two outputs: the lake and the tables that the
API serves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

import pyarrow as pa
import pyarrow.compute as pc

from queenmq.errors import InvalidRequest
from queenmq.spark.database.connection import Database
from queenmq.spark.database.sql_text import load
from queenmq.spark.jobs.ranges import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The name of a run is derived from its queues, range and bucket.
_SPACE = UUID("5f0c5d0e-2f44-4c5a-9d0b-3b1f6f3c9a57")
#: Of one table for the API.
ROWS_MAX = 100_000
#: Of the partitions in the lake; they come together on the driver.
LAKE_ROWS_MAX = 2_000_000
RUNS_KEPT = 100

_MEASURES = (
    "pushed",
    "bytes",
    "consumed",
    "backlog",
    "latency_p50_ms",
    "latency_p95_ms",
    "latency_p99_ms",
    "retries",
    "dead_letters",
)
#: Columns of each table and the ones it is sorted by.
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "timeline": (
        ("queue", "consumer_group", "bucket_at", *_MEASURES),
        ("queue", "consumer_group", "bucket_at"),
    ),
    "partitions": (
        ("queue", "partition", "consumer_group", "bucket_at", *_MEASURES),
        ("queue", "partition", "consumer_group", "bucket_at"),
    ),
    "hottest": (("queue", "rank", "partition", "pushed", "bytes", "share"), ("queue", "rank")),
    "queues": (
        (
            "queue",
            "keeps_history",
            "partitions",
            "pushed",
            "bytes",
            "max_by_mean",
            "gini",
            "payload_p50",
            "payload_p95",
            "payload_p99",
            "payload_max",
        ),
        ("queue",),
    ),
    "groups": (
        (
            "queue",
            "consumer_group",
            "backlog_now",
            "consumed",
            "retries",
            "dead_letters",
            "measured",
            "latency_p50_ms",
            "latency_p95_ms",
            "latency_p99_ms",
        ),
        ("queue", "consumer_group"),
    ),
    "dead_letters": (
        ("queue", "consumer_group", "error", "letters", "first_at", "last_at"),
        ("queue", "letters", "error"),
    ),
    "producers": (("queue", "producer", "rank", "pushed", "bytes"), ("queue", "rank")),
    "payload_sizes": (("queue", "up_to_bytes", "messages", "bytes"), ("queue", "up_to_bytes")),
}


@dataclass(frozen=True)
class Run:
    """The identity of a run. The same run again has the same id."""

    scope: Mapping[str, str]
    span: Range
    messages: int = 0

    @property
    def id(self) -> str:
        about = [sorted(self.scope.items()), str(self.span.start), str(self.span.end)]
        return str(uuid5(_SPACE, json.dumps([*about, self.span.bucket_s])))

    def row(self) -> dict[str, Any]:
        """Return the row for the API and the lake."""
        return {
            "id": self.id,
            "scope": dict(self.scope),
            "from_time": self.span.start.isoformat(),
            "to_time": self.span.end.isoformat(),
            "bucket_seconds": self.span.bucket_s,
            "messages": self.messages,
        }


@dataclass(frozen=True)
class Results:
    """The tables of one run, by name."""

    run: Run
    tables: Mapping[str, pa.Table]

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table, as plain values."""
        found: list[dict[str, Any]] = self.tables[name].to_pylist()
        return found


def collect(name: str, frame: DataFrame, *, limit: int = ROWS_MAX) -> pa.Table:
    """Return the rows of a DataFrame in the form of the table, in its order."""
    columns, order = TABLES[name]
    table = frame.select(*columns).limit(limit + 1).toArrow()
    if table.num_rows > limit:
        raise InvalidRequest(
            f"the table {name} would have more than {limit} rows; choose fewer queues, a longer"
            " --bucket or a shorter range"
        )
    return table.sort_by([(column, "ascending") for column in order])


def of_partitions(table: pa.Table, hottest: pa.Table) -> pa.Table:
    """Return the rows of the partitions that are among the hottest of their queue."""
    wanted = set(zip(*(hottest.column(c).to_pylist() for c in ("queue", "partition")), strict=True))
    places = zip(*(table.column(c).to_pylist() for c in ("queue", "partition")), strict=True)
    return table.filter(pa.array([place in wanted for place in places], pa.bool_()))


def publish(url: str, results: Results) -> None:
    """Write the tables for the API in one transaction. They replace those of the same run."""
    run = results.run
    tables = {
        name: [{"run_id": run.id, **row} for row in _plain(table)]
        for name, table in results.tables.items()
    }
    parameter = {"run": run.row(), "tables": tables, "keep": RUNS_KEPT}
    with Database(url) as database:
        database.rows(load("analytics")["publish"], parameter)


def write_lake(lake: str, results: Results) -> None:
    """Write the tables to the lake. They replace those of the same run."""
    run = results.run
    row = {**run.row(), "scope": json.dumps(run.row()["scope"]), "run_id": run.id}
    del row["id"]
    write_table(lake, "analytics/runs", pa.Table.from_pylist([row]), run.id)
    for name, table in results.tables.items():
        write_table(lake, f"analytics/{name}", table, run.id)


def write_table(lake: str, name: str, table: pa.Table, run_id: str) -> None:
    """Write one table of a lake. The rows of a run replace its earlier ones."""
    from deltalake import DeltaTable, write_deltalake

    from queenmq.spark.lake.layout import Lake
    from queenmq.spark.lake.table import delta_errors

    place = Lake.at(lake)
    uri = f"{place.location}/{name}"
    if "run_id" not in table.column_names:
        table = table.add_column(0, "run_id", pa.array([run_id] * table.num_rows, pa.string()))
    with delta_errors(place, "written"):
        if DeltaTable.is_deltatable(uri):
            write_deltalake(
                uri, table, mode="overwrite", predicate=f"run_id = '{run_id}'", schema_mode="merge"
            )
        elif table.num_rows:
            write_deltalake(uri, table)


def _plain(table: pa.Table) -> Iterator[dict[str, Any]]:
    for row in table.to_pylist():
        yield {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in row.items()
        }


def total(table: pa.Table, column: str) -> int:
    """Return the sum of a column; 0 where there is none."""
    return int(pc.sum(table.column(column)).as_py() or 0)
