"""The job `audit`: checks invariants beside running brokers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from queenmq.clock import utc_now
from queenmq.errors import InvalidRequest, NotFound
from queenmq.spark.jobs.analytics.inputs import Inputs, Queue, Scene
from queenmq.spark.jobs.analytics.results import write_table
from queenmq.spark.jobs.audit.findings import Checked, list_findings, overview, to_arrow
from queenmq.spark.jobs.audit.picture import Ground, Picture, survey
from queenmq.spark.jobs.choice import Choice
from queenmq.spark.jobs.job import About, Progress, Summary, Table
from queenmq.spark.jobs.ranges import Range
from queenmq.spark.jobs.runs import recorded
from queenmq.spark.runtime.failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from queenmq.spark.lake.table import MessageTable

_EVER = Range(datetime(2000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC), 86_400)
_STAGES = 7
#: The columns of the manifest that are compared.
MANIFEST = (
    "queue string, partition string, partition_id string, end_xid bigint, messages bigint,"
    " first_seq bigint, last_seq bigint, checksum decimal(38,0)"
)


@dataclass(frozen=True)
class Audit:
    """One run; see `queenmq.spark.jobs.job.Job`. It changes nothing but the list of
    runs.
    """

    choice: Choice
    lake: str | None = None
    #: Also put the findings into the lake.
    writes: bool = False

    def __post_init__(self) -> None:
        if self.writes and self.lake is None:
            raise InvalidRequest("--write needs --lake: findings are written there")

    def plan(self, spark: SparkSession) -> Summary:
        """Return what the job would check."""
        ground = survey(self.choice)
        figures = {
            "queues": len(ground.queues),
            "partitions": sum(partitions for _, partitions in ground.queues),
            "queues with ack history": len(ground.kept),
            "lake": self.lake or "none",
        }
        return Summary("audit", figures)

    def about(self) -> About:
        """Return the name of the job, its database and its options."""
        lake = {} if self.lake is None else {"lake": self.lake}
        return About("audit", self.choice.url, {**self.choice.options(), **lake})

    @recorded
    def run(self, spark: SparkSession, progress: Progress) -> Summary:
        """Run all checks and return the summary."""
        progress.report("reading the database", 0, _STAGES)
        table = self._open_lake()
        ground = survey(self.choice)
        with spark_failures("the audit cannot go on"):
            checks = _Round(spark, ground, table, progress).checks()
        found = sum(check.count for check in checks)
        figures: dict[str, Any] = {
            "queues": len(ground.queues),
            "partitions": sum(partitions for _, partitions in ground.queues),
            "horizon": ground.xid,
            "findings": found,
        }
        if self.writes and self.lake is not None:
            progress.report("writing to the lake", _STAGES - 1, _STAGES)
            run_id = str(uuid4())
            at = utc_now().isoformat()
            write_table(self.lake, "audit", to_arrow(checks, run_id, at), run_id)
            figures["written to"] = f"{self.lake.rstrip('/')}/audit"
        tables: dict[str, Table] = {
            "checks": overview(checks),
            "first findings": list_findings(checks),
        }
        return Summary("audit", figures, tables, is_ok=found == 0)

    def _open_lake(self) -> MessageTable | None:
        if self.lake is None:
            return None
        from queenmq.spark.lake.layout import Lake
        from queenmq.spark.lake.table import open_table

        return open_table(Lake.at(self.lake))


class _Round:
    """The checks of one run, in an order that keeps their reads consistent."""

    def __init__(
        self, spark: SparkSession, ground: Ground, table: MessageTable | None, progress: Progress
    ) -> None:
        self._spark = spark
        self._ground = ground
        self._table = table
        self._progress = progress
        self._kept: list[DataFrame] = []

    def checks(self) -> list[Checked]:
        try:
            return self._checks()
        finally:
            for frame in self._kept:
                frame.unpersist()

    def _keep(self, frame: DataFrame) -> DataFrame:
        """Read it now and only once, because later reads must come after it."""
        kept = frame.persist()
        self._kept.append(kept)
        kept.count()
        return kept

    def _checks(self) -> list[Checked]:
        from pyspark.sql import functions as F

        from queenmq.spark.jobs.audit import checks as c
        from queenmq.spark.jobs.audit import origins

        ground, url = self._ground, self._ground.choice.url
        picture = Picture(self._spark, ground)
        partitions = sum(count for _, count in ground.queues)
        places = self._keep(picture.places(self._table.id if self._table else None))
        cursors = self._keep(picture.cursors())
        lake = self._lake()
        self._report("comparing lookup rows", 1)
        done = [origins.history(ground, self._table)]
        done += [c.check_lookups(picture, partitions), c.cursors(picture, partitions)]
        done.append(c.check_dead_letters(picture, partitions, lake))
        self._report("counting messages", 2)
        live = c.join_places(picture.live(), places)
        tallies = live.groupBy("partition_id").agg(F.count("*").alias("messages"))
        done.append(c.density(places, tallies, url, picture.removed()))
        self._report("following the history", 3)
        done.append(self._deliveries(cursors))
        if lake is None:
            return [*done, Checked("archive", 0, (), skipped="no --lake was given")]
        self._report("comparing with the lake", 4)
        done.append(c.archive(live, lake))
        self._report("checking the marks", 5)
        entries = self._manifest()
        done.append(c.marks(places, lake, entries))
        return [*done, origins.manifest(lake, entries)]

    def _report(self, what: str, done: int) -> None:
        self._progress.report(what, done, _STAGES)

    def _lake(self) -> DataFrame | None:
        if self._table is None:
            return None
        from queenmq.spark.lake.reading import read_messages

        # Open it after the marks were read, because it must hold what they promise.
        from queenmq.spark.lake.table import open_table

        table = open_table(self._table.lake)
        return read_messages(self._spark, table, queues=self._ground.found.names)

    def _manifest(self) -> DataFrame:
        from queenmq.spark.lake.manifest import read_manifest

        assert self._table is not None
        names = list(self._ground.found.names)
        try:
            rows = read_manifest(self._spark, self._table.lake)
        except NotFound:
            # Nothing was verified there: right as long as nothing is marked.
            rows = self._spark.createDataFrame([], MANIFEST)
        return rows.where(rows["queue"].isin(names)) if names else rows.limit(0)

    def _deliveries(self, cursors: DataFrame) -> Checked:
        from queenmq.spark.jobs.audit import checks as c

        if not self._ground.kept:
            return Checked("delivered", 0, (), skipped="no queue has ackHistory")
        queues = tuple(Queue(queue, "", True, 0) for queue in self._ground.kept)
        # Steps that were added since the picture do no harm: they are beyond its cursors.
        scene = Scene(self._ground.choice, _EVER, queues, self._ground.found, 2**63 - 1)
        return c.deliveries(cursors, Inputs(self._spark, scene).steps(), self._ground.choice.url)
