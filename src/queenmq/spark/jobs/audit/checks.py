"""The checks of the audit. Each returns its number of checked rows and its findings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyspark.sql import Window
from pyspark.sql import functions as F

from queenmq.spark.database.connection import Database
from queenmq.spark.database.sql_text import Sql, fill, load
from queenmq.spark.jobs.audit.findings import KEPT_MAX, SCHEMA, Checked, Finding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from queenmq.spark.jobs.audit.picture import Picture

#: Suspects are checked again one by one, up to this number. More means a broken table.
RECHECKED_MAX = 1_000
_KEY = ["partition_id", "seq"]
#: What makes a message; where and when it was stored is part of it.
_CONTENT = (
    "message_id",
    "transaction_id",
    "trace_id",
    "payload",
    "created_at",
    "producer_sub",
    "is_encrypted",
)


def check_lookups(picture: Picture, partitions: int) -> Checked:
    """Check that lookup rows agree with the messages."""
    rows = picture.rows("lookups", SCHEMA, "some_partitions", "partition_part")
    return _make_checked("lookup", partitions, rows)


def cursors(picture: Picture, partitions: int) -> Checked:
    """Check that no cursor and no lease is beyond the end of its partition."""
    rows = picture.rows("cursors_ahead", SCHEMA, "some_rows", "row_part")
    return _make_checked("cursor", partitions, rows)


def check_dead_letters(picture: Picture, partitions: int, lake: DataFrame | None) -> Checked:
    """Check that a dead letter leads to its message, live or in the lake, or is a copy."""
    rows = picture.rows("letters", SCHEMA, "some_rows", "row_part")
    if lake is not None:
        kept = lake.select("partition_id", "seq").distinct()
        gone = F.col("detail").startswith("the message is gone")
        rows = rows.where(~gone).unionByName(rows.where(gone).join(kept, _KEY, "left_anti"))
    return _make_checked("dead letter", partitions, rows)


def _make_checked(name: str, checked: int, rows: DataFrame) -> Checked:
    found = rows.limit(KEPT_MAX + 1).collect()
    total = rows.count() if len(found) > KEPT_MAX else len(found)
    findings = tuple(
        Finding(
            row.check_name,
            row.queue,
            row.partition,
            row.consumer_group,
            row.seq,
            row.detail,
            row.partition_id,
        )
        for row in sorted(found[:KEPT_MAX], key=lambda row: tuple(map(str, row)))
    )
    return Checked(name, checked, findings, total)


def join_places(live: DataFrame, places: DataFrame) -> DataFrame:
    """Return the live messages that can be compared, with facts about their partition."""
    known = places.select("partition_id", "first_seq", "safe_seq", "archived_seq")
    return live.join(F.broadcast(known), "partition_id", "inner").where(
        F.col("seq").between(F.col("first_seq"), F.col("safe_seq"))
    )


def density(places: DataFrame, tallies: DataFrame, url: str, removed: Sql) -> Checked:
    """Check that numbers have no gap from the first message that is left to the end.

    `tallies` counts the messages of each partition. A third read, in one snapshot, distinguishes
    gaps from messages that retention removed between the two reads.
    """
    wanted = F.col("safe_seq") - F.col("first_seq") + 1 - F.col("removed")
    gaps = (
        places.where("safe_seq >= first_seq")
        .join(tallies, "partition_id", "left")
        .where(F.coalesce("messages", F.lit(0)) != wanted)
    )
    suspects = gaps.orderBy("queue", "partition").limit(RECHECKED_MAX).collect()
    findings = []
    if suspects:
        with Database(url) as database:
            findings = [f for row in suspects for f in _recount(database, row, removed)]
    checked = places.count()
    return Checked("dense seq", checked, tuple(findings))


def _recount(database: Database, row: Any, removed: Sql) -> Iterable[Finding]:
    statement = fill(
        load("audit")["recount"],
        removed=removed,
        partition=UUID(row.partition_id),
        safe_seq=row.safe_seq,
    )
    for seen in database.rows(statement):
        if seen["found"] != seen["wanted"]:
            gap = seen["gap_seq"]
            where = "at the end" if gap is None else f"before number {gap}"
            detail = (
                f"{seen['found']} messages from {seen['first_seq']} to {row.safe_seq}, where there"
                f" should be {seen['wanted']}; a gap is {where}"
            )
            yield Finding(
                "dense seq", row.queue, row.partition, None, gap, detail, row.partition_id
            )


def deliveries(kept: DataFrame, steps: DataFrame, url: str) -> Checked:
    """Check that no message below a cursor was passed without a step of the history.

    It starts at the oldest step that is left, because older ones were swept.
    """
    pair = ["queue", "partition", "partition_id", "consumer_group"]
    gaps = _gaps(kept, steps, pair)
    suspects = gaps.orderBy(*pair, "first").limit(RECHECKED_MAX).collect()
    findings = []
    if suspects:
        with Database(url) as database:
            findings = [f for row in suspects for f in _check_again(database, row)]
    return Checked("delivered", kept.count(), tuple(findings))


def _gaps(kept: DataFrame, steps: DataFrame, pair: list[str]) -> DataFrame:
    """Return numbers at or below the cursor, above the first step, in no step."""
    own = steps.join(
        kept.select("partition_id", "consumer_group", "cursor_seq", "since"),
        ["partition_id", "consumer_group"],
        "inner",
    ).where("passed_at >= since AND first_seq <= cursor_seq")
    before = (
        Window.partitionBy(*pair)
        .orderBy("first_seq", "last_seq")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    inner = (
        own.withColumn("reached", F.max("last_seq").over(before))
        .where("first_seq > reached + 1")
        .select(
            *pair, (F.col("reached") + 1).alias("first"), (F.col("first_seq") - 1).alias("last")
        )
    )
    tail = (
        own.groupBy(*pair)
        .agg(F.max("last_seq").alias("reached"), F.max("cursor_seq").alias("last"))
        .where("reached < last")
        .select(*pair, (F.col("reached") + 1).alias("first"), "last")
    )
    return inner.unionByName(tail)


def _check_again(database: Database, row: Any) -> Iterable[Finding]:
    parameter = {
        "partition": row.partition_id,
        "group": row.consumer_group,
        "first": row.first,
        "last": row.last,
    }
    (seen,) = database.rows(load("audit")["undelivered"], parameter)
    if seen["messages"]:
        yield Finding(
            "delivered",
            row.queue,
            row.partition,
            row.consumer_group,
            seen["first_seq"],
            f"{seen['messages']} messages from {seen['first_seq']} on are below the cursor, and no"
            " step of the history has passed them",
            row.partition_id,
        )


def fingerprint() -> Any:
    """Return a hash of a message. Equal hashes mean equal messages, in all likelihood."""
    content = [F.coalesce(F.col(name).cast("string"), F.lit("\0")) for name in _CONTENT]
    return F.xxhash64(*content)


def archive(live: DataFrame, lake: DataFrame) -> Checked:
    """Check that each live message marked as archived is in the lake, once and unchanged.

    It checks one direction only. Messages that only the lake has were removed by retention, or are
    gaps, which `density` finds.
    """
    marked = live.where("seq <= archived_seq").select(
        "queue", "partition", *_KEY, fingerprint().alias("own")
    )
    copies = (
        lake.select(*_KEY, fingerprint().alias("print"))
        .groupBy(*_KEY)
        .agg(F.count("*").alias("copies"), F.min("print").alias("print"))
    )
    content = (
        F.when(F.col("copies").isNull(), "not in the lake")
        .when(F.col("copies") > 1, "in the lake more than once")
        .when(F.col("print") != F.col("own"), "another message in the lake")
    )
    wrong = (
        marked.join(copies, _KEY, "left")
        .withColumn("what", content)
        .groupBy("queue", "partition", "partition_id", "what")
        .agg(F.count("*").alias("messages"), F.min("seq").alias("seq"))
    )
    rows = wrong.persist()
    try:
        (sums,) = rows.agg(F.sum("messages").alias("messages")).collect()
        found = rows.where("what IS NOT NULL").orderBy("queue", "partition").limit(KEPT_MAX)
        findings = tuple(
            Finding(
                "archive",
                row.queue,
                row.partition,
                None,
                row.seq,
                f"{row.messages} messages from {row.seq} on are marked as archived and are"
                f" {row.what}",
                row.partition_id,
            )
            for row in found.collect()
        )
    finally:
        rows.unpersist()
    return Checked("archive", sums.messages or 0, findings)


def marks(places: DataFrame, lake: DataFrame, manifest: DataFrame) -> Checked:
    """Check that the lake reaches up to the mark of each partition, and has all that was verified.

    A gap by itself says nothing: a message may have been removed before it was archived.
    """
    marked = places.where("archived_seq > 0")
    ours = F.broadcast(marked.select("partition_id"))
    held = (
        lake.select(*_KEY)
        .join(ours, "partition_id", "inner")
        .groupBy("partition_id")
        .agg(
            F.countDistinct("seq").alias("held"),
            F.min("seq").alias("low"),
            F.max("seq").alias("high"),
        )
    )
    verified = manifest.groupBy("partition_id").agg(F.sum("messages").alias("verified"))
    rows = (
        marked.join(held, "partition_id", "left")
        .join(verified, "partition_id", "left")
        .where(
            "held IS NULL OR high + removed < archived_seq OR verified IS NULL OR held < verified"
        )
        .orderBy("queue", "partition")
        .limit(KEPT_MAX)
        .collect()
    )
    findings = tuple(
        Finding(
            "marks",
            row.queue,
            row.partition,
            None,
            row.archived_seq,
            f"marked up to {row.archived_seq}, {row.verified or 0} messages were verified, but the"
            " lake has "
            + (
                "none of them"
                if row.held is None
                else f"{row.held} messages from {row.low} to {row.high}"
            ),
            row.partition_id,
        )
        for row in rows
    )
    return Checked("marks", marked.count(), findings)
