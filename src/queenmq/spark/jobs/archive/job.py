"""`queen pipeline archive`: messages of queues into a lake, each once, verified.

A batch is a range of transactions. Its rows are written as files, committed to the lake's log
together with the positions of its queues, read back and compared with the live messages; then it is
entered in the manifest and noted in the database. If the job dies on the way, the next run
continues from the log: files without a commit are never seen, and an unverified commit is verified.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from queenmq.errors import Conflict, StorageRejected
from queenmq.spark.jobs.archive.batches import Batch, next_batch
from queenmq.spark.jobs.archive.check import Finding, check
from queenmq.spark.jobs.archive.store import ArchiveStore
from queenmq.spark.jobs.job import About, Progress, Summary, Table
from queenmq.spark.jobs.runs import recorded
from queenmq.spark.jobs.stopping import stop_requests
from queenmq.spark.lake import compaction, manifest
from queenmq.spark.lake.layout import Lake
from queenmq.spark.lake.table import (
    MessageTable,
    Origin,
    find_table,
    open_or_create,
    open_table,
)
from queenmq.spark.lake.writing import as_rows_of_lake, write_files
from queenmq.spark.source.options import Scope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Waiting messages are counted up to this number.
COUNT_MAX = 10_000_000


@dataclass(frozen=True)
class ArchiveOptions:
    """The options of the archive job."""

    url: str
    lake: Lake
    scope: Scope
    #: Of one commit.
    max_messages: int = 500_000
    #: Seconds between two looks for new messages; None: end when all are archived.
    interval_s: float | None = None
    #: Also where there are few small files.
    compact: bool = False
    #: Delete files that no version of the last hours refers to; None: none.
    vacuum_hours: int | None = None
    #: Take the marks of other lakes over.
    take_marks: bool = False
    #: The lake's database goes on in this one.
    continues_database: str | None = None


@dataclass
class Totals:
    """The totals of a run."""

    messages: int = 0
    commits: int = 0
    files: int = 0
    marks: int = 0
    removed: int = 0
    compacted: int = 0
    vacuumed: int = 0
    queues: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    findings: list[Finding] = field(default_factory=list)


class ArchiveJob:
    """One run, or a run without end."""

    def __init__(self, options: ArchiveOptions) -> None:
        self._options = options

    def plan(self, spark: SparkSession) -> Summary:
        """Return the counts of messages that wait to be archived."""
        table = find_table(self._options.lake)
        with ArchiveStore(self._options.url) as store:
            queues = store.queues(self._options.scope)
            if table:
                store.check_origin(table, continues=self._options.continues_database)
            positions = {key: table.position(key) if table else 0 for key in queues}
            horizon = store.horizon()
            rows = [
                (queues[key], store.count(Batch((key,), each.first, horizon), COUNT_MAX))
                for key, each in store.waiting(positions, horizon).items()
            ]
            verified = store.positions(table.id, queues) if table else {}
            holder = store.holder(queues, horizon)
        unverified = sum(xid > verified.get(key, 0) for key, xid in positions.items())
        figures: dict[str, Any] = {
            "lake": self._options.lake.location + ("" if table else " (to be made)"),
            "queues": len(queues),
            "messages to archive": sum(count for _, count in rows),
            "queues to verify": unverified,
            "messages that wait for an open transaction": holder.messages if holder else 0,
            "open transaction": holder.transaction if holder else None,
            "small files": sum(map(len, self._small_files(table))) if table else 0,
        }
        return Summary("archive", figures, {"queues": Table(("queue", "messages"), sorted(rows))})

    def _small_files(self, table: MessageTable) -> list[list[Any]]:
        is_thorough = self._options.compact
        return list(compaction.small_files(table.files(), is_thorough=is_thorough))

    def about(self) -> About:
        """Return the name of the job, its database and its options."""
        scope = json.loads(self._options.scope.to_json())
        return About("archive", self._options.url, scope | {"lake": self._options.lake.location})

    @recorded
    def run(self, spark: SparkSession, progress: Progress) -> Summary:
        """Archive all waiting messages, and with an interval go on until a stop is requested."""
        options = self._options
        with ArchiveStore(options.url) as store, stop_requests() as stop:
            # What is wrong with the names is said before anything is made.
            store.queues(options.scope)
            store.lock(open_or_create(options.lake).id)
            run = _Run(options, spark, progress, store, open_table(options.lake))
            run.archive(stop)
            while options.interval_s is not None and not run.totals.findings:
                progress.report("waiting for messages")
                if stop.wait(options.interval_s):
                    break
                run.archive(stop)
            return run.summary()


class _Run:
    """The work, under the lock of the lake."""

    def __init__(
        self,
        options: ArchiveOptions,
        spark: SparkSession,
        progress: Progress,
        store: ArchiveStore,
        table: MessageTable,
    ) -> None:
        self._options = options
        self._spark = spark
        self._progress = progress
        self._store = store
        self._table = table
        self._lake = table.id
        #: What the log says, kept: no other process changes it.
        self._positions: dict[UUID, int] = {}
        self.totals = Totals()
        #: What the run will have archived when it has caught up; None: that is too much to count.
        self._expected: int | None = None

    def archive(self, stop: threading.Event) -> None:
        """Archive everything below the horizon, batch by batch.

        A stop is obeyed between two of them.
        """
        queues = self._find_queues()
        self._store.check_origin(self._table, continues=self._options.continues_database)
        self._check_ahead(self._store.horizon())
        self._verify_rest(queues)
        if self._options.take_marks:
            self._take_marks(queues)
        self._expected = self._count_waiting(queues)
        while not stop.is_set() and not self.totals.findings:
            batch = self._next(queues)
            if batch is None:
                break
            self._archive(batch, queues)
            queues = self._find_queues()
        if not stop.is_set() and not self.totals.findings:
            self._tidy()

    def _find_queues(self) -> dict[UUID, str]:
        queues = self._store.queues(self._options.scope)
        for key in queues.keys() - self._positions.keys():
            self._positions[key] = self._table.position(key)
        return queues

    def _verify_rest(self, queues: dict[UUID, str]) -> None:
        """Verify commits that an earlier run did not verify."""
        verified = self._store.positions(self._lake, queues)
        ranges = defaultdict(list)
        for key in queues:
            if self._positions[key] > verified.get(key, 0):
                ranges[verified.get(key, 0), self._positions[key]].append(key)
        for (start, end), keys in sorted(ranges.items()):
            if not self.totals.findings:
                self._progress.report("verifying what was archived before")
                self._verify(Batch(tuple(keys), start, end), queues)

    def _count_waiting(self, queues: dict[UUID, str]) -> int | None:
        horizon = self._store.horizon()
        positions = {key: self._positions[key] for key in queues}
        counts = [
            self._store.count(Batch((key,), each.first, horizon), COUNT_MAX)
            for key, each in self._store.waiting(positions, horizon).items()
        ]
        return None if COUNT_MAX in counts else self.totals.messages + sum(counts)

    def _next(self, queues: dict[UUID, str]) -> Batch | None:
        horizon = self._store.horizon()
        positions = {key: self._positions[key] for key in queues}
        batch = next_batch(self._store.waiting(positions, horizon), horizon)
        return None if batch is None else self._store.cut(batch, self._options.max_messages)

    def _check_ahead(self, horizon: int) -> None:
        """Refuse a restored database, because it reuses transaction numbers."""
        furthest = max(self._positions.values(), default=0)
        if furthest > horizon:
            raise StorageRejected(
                f"the lake at {self._options.lake.location} was archived up to transaction"
                f" {furthest}, and the database is at {horizon}: it was restored from a backup;"
                " begin a new lake"
            )

    def _archive(self, batch: Batch, queues: dict[UUID, str]) -> None:
        self._report("writing")
        # Nothing of these queues waits below the start, so verification can skip them.
        self._store.advance(self._lake, self._options.lake.location, batch.queues, batch.start)
        files = write_files(
            self._spark,
            self._options.lake,
            as_rows_of_lake(self._live(batch, queues)),
            [queues[key] for key in batch.queues],
        )
        found = {file.queue for file in files}
        batch = replace(batch, queues=tuple(key for key in batch.queues if queues[key] in found))
        if not files:
            return  # all of it was removed meanwhile
        positions = dict.fromkeys(batch.queues, batch.end)
        self._store.check_lock(self._lake)
        self._table = self._table.commit(files, positions=positions, origin=self._note(batch.end))
        self._positions |= positions
        self.totals.commits += 1
        self.totals.files += len(files)
        for file in files:
            self.totals.messages += file.messages or 0
            self.totals.queues[file.queue] += file.messages or 0
        self._report("verifying")
        self._verify(batch, queues)

    def _note(self, end: int) -> Origin | None:
        """Record the next commit in the database, so that it can be recognised later."""
        continues = self._options.continues_database
        noted = self._store.check_origin(self._table, continues=continues, xid=end)
        return None if noted.mark is None else Origin.of(noted.database, noted.mark)

    def _report(self, what: str) -> None:
        done = self.totals.messages
        # More may have come since they were counted.
        total = None if self._expected is None else max(done, self._expected)
        self._progress.report(f"{what} messages", done, total)

    def _live(self, batch: Batch, queues: dict[UUID, str]) -> DataFrame:
        """Return the messages of a batch as they are in the database."""
        names = [queues[key] for key in batch.queues]
        return (
            self._spark.read.format("queen")
            .options(
                url=self._options.url,
                queue=json.dumps(names),
                startingOffsets=json.dumps({"xid": str(batch.start)}),
                endingOffsets=json.dumps({"xid": str(batch.end)}),
                includeXid="true",
                # The lake gets what the database has: it is to hold nothing that a key protects.
                encryptedPayloads="stored",
                # What is removed while it is read cannot be archived, and no reader asks for it.
                failOnDataLoss="false",
            )
            .load()
        )

    def _verify(self, batch: Batch, queues: dict[UUID, str]) -> None:
        """Compare with the live messages. If they match, record the verification."""
        names = {queues[key]: key for key in batch.queues}
        live = partial(self._live, batch, queues)
        checked = check(self._spark, self._store, self._table, names, batch, live)
        if checked.findings:
            self.totals.findings = checked.findings
            return
        self.totals.removed += checked.removed
        lake = self._options.lake
        manifest.append(lake, checked.entries, start=batch.start, end=batch.end, queues=names)
        partitions = [entry.partition_id for entry in checked.entries]
        self.totals.marks += self._store.mark(self._lake, partitions, batch.end)
        self._store.advance(self._lake, lake.location, batch.queues, batch.end)

    def _take_marks(self, queues: dict[UUID, str]) -> None:
        for key, xid in self._store.positions(self._lake, queues).items():
            for partitions in self._store.partitions(key):
                self.totals.marks += self._store.mark(self._lake, partitions, xid, takes=True)

    def _tidy(self) -> None:
        """Compact files, and delete unreferenced ones."""
        is_thorough = self._options.compact
        groups = list(compaction.small_files(self._table.files(), is_thorough=is_thorough))
        for files in compaction.bundles(groups):
            self._progress.report("compacting")
            self._store.check_lock(self._lake)
            # Files that another writer has replaced meanwhile are left to it.
            with contextlib.suppress(Conflict):
                self._table = compaction.compact(self._spark, self._table, files)
                self.totals.compacted += len(files)
        self._table = open_table(self._options.lake)
        manifest.tidy(self._options.lake)
        if self._options.vacuum_hours is not None:
            self._progress.report("removing files that are not needed any more")
            hours = self._options.vacuum_hours
            self.totals.vacuumed += self._table.vacuum(hours)
            self.totals.vacuumed += manifest.clean_up(self._options.lake, hours)

    def summary(self) -> Summary:
        """Return the summary for people and programs."""
        totals = self.totals
        queues = self._store.queues(self._options.scope)
        holder = self._store.holder(queues, self._store.horizon())
        figures: dict[str, Any] = {
            "lake": self._options.lake.location,
            "messages archived": totals.messages,
            "commits": totals.commits,
            "files written": totals.files,
            "files compacted": totals.compacted,
            "files removed": totals.vacuumed,
            "partitions marked": totals.marks,
            "messages removed from queues before they were verified": totals.removed,
            "messages that wait for an open transaction": holder.messages if holder else 0,
            "open transaction": holder.transaction if holder else None,
        }
        findings = [
            (each.queue, each.partition, each.missing, each.different, each.repeated)
            for each in totals.findings
        ]
        tables = {
            "queues": Table(("queue", "messages"), sorted(totals.queues.items())),
            "findings": Table(("queue", "partition", "missing", "different", "repeated"), findings),
        }
        return Summary("archive", figures, tables, is_ok=not findings)
