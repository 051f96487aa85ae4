"""Audits whether database and lake belong together, and the lake matches its manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from queenmq.spark.database.connection import Database
from queenmq.spark.database.sql_text import fill, load
from queenmq.spark.jobs.audit.findings import KEPT_MAX, Checked, Finding
from queenmq.spark.lake.origin import check_origin
from queenmq.spark.lake.reading import tallies
from queenmq.spark.source.history import HistoryChanged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from queenmq.spark.jobs.audit.picture import Ground
    from queenmq.spark.lake.table import MessageTable

#: What makes an entry of the manifest; the same twice is one.
_ENTRY = ["partition_id", "first_seq", "last_seq", "messages", "checksum"]


def history(ground: Ground, table: MessageTable | None) -> Checked:
    """Check that the database was not restored: no number is ahead of it, and it knows the lake."""
    findings = []
    with Database(ground.choice.url) as database:
        if ground.found.ids:
            statement = fill(load("history")["ahead"], queues=ground.found.ids)
            findings = [
                _make_finding(
                    f"{row['messages']} messages have numbers of transactions up to {row['xid']}"
                    " that this server has not run: they came with a dump, and streams do not see"
                    " them yet",
                    row["queue"],
                )
                for row in database.rows(statement)
            ]
        if table is not None:
            try:
                check_origin(database, table)
            except HistoryChanged as error:
                findings.append(_make_finding(str(error)))
    return Checked("history", len(ground.found.ids), tuple(findings))


def _make_finding(detail: str, queue: str | None = None) -> Finding:
    return Finding("history", queue, None, None, None, detail, None)


def manifest(lake: DataFrame, entries: DataFrame) -> Checked:
    """Check that the lake has the messages that were verified, each once and unchanged.

    It uses the checksums of the manifest, so it also covers messages that are no longer live.
    """
    noted = (
        entries.dropDuplicates(_ENTRY)
        .groupBy("queue", "partition", "partition_id")
        .agg(
            F.sum("messages").alias("verified"),
            F.sum("checksum").cast("string").alias("noted"),
            F.max("end_xid").alias("end"),
        )
        .persist()
    )
    # What was committed since waits to be verified.
    ends = F.broadcast(noted.select("partition_id", "end"))
    held = tallies(lake.join(ends, "partition_id").where("xid < end"), "partition_id")
    try:
        rows = (
            noted.join(held, "partition_id", "left")
            .where("messages IS NULL OR messages <> verified OR checksum <> noted")
            .orderBy("queue", "partition")
            .limit(KEPT_MAX)
            .collect()
        )
        checked = noted.count()
    finally:
        noted.unpersist()
    findings = tuple(
        Finding(
            "manifest",
            row.queue,
            row.partition,
            None,
            row.first_seq,
            f"{row.verified} messages were verified, and the lake has "
            + (
                "as many, but not the same"
                if row.messages == row.verified
                else f"{row.messages or 0}"
            ),
            row.partition_id,
        )
        for row in rows
    )
    return Checked("manifest", checked, findings)
