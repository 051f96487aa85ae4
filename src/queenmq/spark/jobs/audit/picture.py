"""The snapshot that the audit compares: all partitions below one transaction horizon.

First the horizon, then the partitions with the last number that is safe below it, then everything
else. So new messages lie above the numbers that are compared. Removals do not, so suspects are
checked a second time, in one snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from queenmq.errors import StorageRejected
from queenmq.spark.database.connection import Database
from queenmq.spark.database.sql_text import Sql, fill, load
from queenmq.spark.database.statements import read_statements
from queenmq.spark.jobs.choice import Choice
from queenmq.spark.source.planning import Queues, find_queues, horizon

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Partitions per statement.
PART_PARTITIONS = 5_000
PLACES = (
    "queue string, partition string, partition_id string, first_seq bigint, safe_seq bigint,"
    " removed bigint, archived_seq bigint"
)
CURSORS = (
    "queue string, partition string, partition_id string, consumer_group string,"
    " cursor_seq bigint, since timestamp"
)


@dataclass(frozen=True)
class Ground:
    """The subject of one audit."""

    choice: Choice
    found: Queues
    #: Id and partitions of each queue.
    queues: tuple[tuple[UUID, int], ...]
    kept: tuple[UUID, ...]
    xid: int
    has_removed: bool
    has_marks: bool


def survey(choice: Choice) -> Ground:
    """Find the queues, then take the horizon."""
    with Database(choice.url) as database:
        found = find_queues(database, choice.scope())
        rows = []
        if found.ids:
            rows = database.rows(fill(load("analytics")["chosen"], queues=found.ids))
        tables = database.row(load("audit")["tables"])
        return Ground(
            choice,
            found,
            tuple((UUID(row["id"]), row["partitions"]) for row in rows),
            tuple(UUID(row["id"]) for row in rows if row["keeps_history"]),
            horizon(database),
            tables["has_removed"],
            tables["has_marks"],
        )


class Picture:
    """Statements of the audit as DataFrames."""

    def __init__(self, spark: SparkSession, ground: Ground) -> None:
        self._spark = spark
        self._ground = ground
        self._sql = load("audit")

    def places(self, lake_id: UUID | None) -> DataFrame:
        """Return a row per partition; `archived_seq` with a lake only."""
        mark = self._sql["unknown"]
        if lake_id is not None:
            if not self._ground.has_marks:
                raise StorageRejected(
                    "no Queen that knows of archives is at that database; start a broker of this"
                    " version there once"
                )
            mark = fill(self._sql["mark"], lake=lake_id)
        values = {"xid": self._ground.xid, "removed": self.removed(), "mark": mark}
        return self.rows("places", PLACES, "some_lookups", "lookup_part", **values)

    def removed(self) -> Sql:
        """Return how many numbers of a partition were taken out one by one."""
        return self._sql["removed" if self._ground.has_removed else "none"]

    def cursors(self) -> DataFrame:
        """Read the cursors whose history is kept."""
        return self.rows("kept_cursors", CURSORS, "some_rows", "row_part")

    def rows(self, name: str, schema: str, chosen: str, part: str, **values: Any) -> DataFrame:
        """Return the rows of a statement that is asked of each queue, part by part."""
        statements = [
            fill(
                self._sql[name],
                queue=queue,
                partitions=self._select_queues(chosen),
                part=piece,
                **values,
            )
            for queue, piece in self._parts(part)
        ]
        return read_statements(self._spark, self._ground.choice.url, statements, schema)

    def _select_queues(self, name: str) -> Sql:
        partitions = self._ground.found.partitions
        if partitions is None:
            return self._sql["all"]
        return fill(self._sql[name], partitions=partitions)

    def _parts(self, name: str) -> Iterator[tuple[UUID, Sql]]:
        for queue, partitions in self._ground.queues:
            parts = max(1, -(-partitions // PART_PARTITIONS))
            for number in range(parts):
                yield queue, fill(self._sql[name], part=number, parts=parts)

    def live(self) -> DataFrame:
        """Return the messages below the horizon."""
        options = {
            "url": self._ground.choice.url,
            **self._ground.choice.options(),
            "endingOffsets": json.dumps({"xid": str(self._ground.xid)}),
            "failOnDataLoss": "false",
            "encryptedPayloads": "stored",
        }
        return self._spark.read.format("queen").options(**options).load()
