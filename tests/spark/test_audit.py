"""`queen pipeline audit`: every kind of damage is found, and running brokers cause no finding."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from queenmq.errors import InvalidRequest
from queenmq.spark.jobs.audit.job import Audit
from queenmq.spark.jobs.choice import Choice
from queenmq.spark.jobs.job import Silent, Summary
from queenmq.spark.lake import Lake
from queenmq.spark.lake.layout import FILE_COLUMNS, VARIANT
from queenmq.spark.lake.table import open_table
from tests.isolation.sessions import Want, ack, acks_of, pop
from tests.support.archive import run_archive
from tests.support.feed import Feed

_ID = "(SELECT p.id FROM queen.partitions p WHERE p.name = $1)"


def found(summary: Summary) -> set[tuple[str, str]]:
    """Check and partition of each finding."""
    table = summary.tables["first findings"]
    check, partition = table.columns.index("check"), table.columns.index("partition")
    return {(row[check], row[partition]) for row in table.rows}


def detail(summary: Summary, partition: str, check: str | None = None) -> str:
    table = summary.tables["first findings"]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    (row,) = [
        row for row in rows if row["partition"] == partition and check in (None, row["check"])
    ]
    return str(row["detail"])


async def consume(session: asyncpg.Connection, partition_id: UUID, steps: int) -> None:
    """So many steps of two messages each."""
    for _ in range(steps):
        (popped,) = await pop(session, Want([partition_id], "g", batch=2))
        await ack(session, *acks_of(popped, group="g"))


def fill(feed: Feed, *partitions: str) -> None:
    """Six messages in each partition, the first four consumed by group g in two steps."""
    feed.execute("SELECT queen.ensure_partitions(ARRAY['orders'], ARRAY['Default'], NULL)")
    feed.execute("UPDATE queen.queues SET ack_history = true")
    session = feed.session()
    for partition in partitions:
        for _ in range(6):
            feed.push("orders", {"n": 1}, partition=partition)
        ((partition_id,),) = feed.rows(f"SELECT {_ID}", partition)
        feed.run(consume(session, partition_id, 2))


DAMAGE = {
    "gap": ("dense seq", f"DELETE FROM queen.messages WHERE partition_id = {_ID} AND seq = 3"),
    "end": ("dense seq", f"DELETE FROM queen.messages WHERE partition_id = {_ID} AND seq = 6"),
    "unlisted": ("lookup", f"DELETE FROM queen.partition_lookup WHERE partition_id = {_ID}"),
    "behind": (
        "lookup",
        f"UPDATE queen.partition_lookup SET last_seq = 5 WHERE partition_id = {_ID}",
    ),
    "newest": (
        "lookup",
        "UPDATE queen.partition_lookup SET last_message_id = gen_random_uuid()"
        f" WHERE partition_id = {_ID}",
    ),
    "stray": (
        "lookup",
        f"UPDATE queen.partition_lookup SET first_seq = 3 WHERE partition_id = {_ID}",
    ),
    "ahead": (
        "cursor",
        f"UPDATE queen.partition_consumers SET cursor_seq = 99 WHERE partition_id = {_ID}",
    ),
    "skipped": (
        "delivered",
        "WITH d AS (DELETE FROM queen.ack_history"
        f" WHERE partition_id = {_ID} AND first_seq = 3) UPDATE queen.partition_consumers"
        f" SET cursor_seq = 6 WHERE partition_id = {_ID}",
    ),
    "jumped": (
        "delivered",
        f"UPDATE queen.partition_consumers SET cursor_seq = 5 WHERE partition_id = {_ID}",
    ),
    "letter": (
        "dead letter",
        "INSERT INTO queen.dead_letter_queue (queue_id, partition_id, consumer_group, message_id,"
        " seq, transaction_id, payload, error_message, retry_count, created_at, failed_at)"
        " SELECT queue_id, id, 'g', gen_random_uuid(), 77, 't', 'null', 'no', 0, now(), now()"
        f" FROM queen.partitions WHERE id = {_ID}",
    ),
    "impostor": (
        "dead letter",
        "INSERT INTO queen.dead_letter_queue (queue_id, partition_id, consumer_group, message_id,"
        " seq, transaction_id, payload, error_message, retry_count, created_at, failed_at)"
        " SELECT queue_id, id, 'g', gen_random_uuid(), 2, 't', 'null', 'no', 0, now(), now()"
        f" FROM queen.partitions WHERE id = {_ID}",
    ),
}


@pytest.mark.timeout(300)
def test_each_damage_is_found_where_it_is_and_nothing_else(
    feed: Feed, spark: SparkSession, database_url: str
) -> None:
    fill(feed, "fine", "sought", *DAMAGE)
    for time in ("now()", "'2000-01-01'", "NULL"):
        feed.execute(f"SELECT queen.seek_group('g', 'orders', 'sought', {time}::timestamptz)")
    feed.push("orders", partition="sought")
    for partition, (_, statement) in DAMAGE.items():
        feed.execute(statement, partition)
    summary = Audit(Choice(database_url)).run(spark, Silent())
    assert not summary.is_ok
    expected = {(check, partition) for partition, (check, _) in DAMAGE.items()}
    # A cursor beyond the end has passed what nobody got, too.
    assert found(summary) == expected | {("delivered", "ahead")}
    assert detail(summary, "gap").endswith("a gap is before number 4")
    assert detail(summary, "end").endswith("a gap is at the end")
    assert "4 messages from 3 on" in detail(summary, "skipped")
    assert "1 messages from 5 on" in detail(summary, "jumped")
    assert summary.figures["findings"] == len(DAMAGE) + 1


async def traffic(url: str, seed: int, stop: asyncio.Event) -> int:
    """Consumes, seeks, and removes what is old, until it is told to stop; how many steps."""
    chance = random.Random(seed)
    session = await asyncpg.connect(url)
    steps = 0
    try:
        while not stop.is_set():
            steps += 1
            rows = await session.fetch("SELECT partition_id FROM queen.partition_lookup")
            place = chance.choice(rows)[0]
            what = chance.random()
            if what < 0.7:
                auto = chance.random() < 0.5
                answers = await pop(session, Want([place], "g", batch=3, auto_ack=auto))
                for popped in answers:
                    if popped.outcome == "granted" and not auto:
                        await ack(session, *acks_of(popped, group="g"))
            elif what < 0.8:
                await session.execute(
                    "SELECT queen.seek_group('g', 'orders', NULL, $1::timestamptz)",
                    None if chance.random() < 0.5 else await session.fetchval("SELECT now()"),
                )
            else:
                await session.execute(
                    "WITH l AS (UPDATE queen.partition_lookup SET first_seq = first_seq + 1"
                    " WHERE partition_id = $1 AND first_seq < last_seq - 20"
                    " RETURNING partition_id, first_seq)"
                    " DELETE FROM queen.messages m USING l"
                    " WHERE m.partition_id = l.partition_id AND m.seq < l.first_seq",
                    place,
                )
    finally:
        await session.close()
    return steps


@pytest.fixture
def busy(feed: Feed, database_url: str) -> Iterator[None]:
    """Producers, in transactions that overlap and roll back, and consumers, all the while."""
    feed.push_all("orders", [f"p{seed}-{n}" for seed in range(3) for n in range(3)], times=30)
    feed.execute("UPDATE queen.queues SET ack_history = true")
    stop = asyncio.Event()

    async def produce(seed: int) -> int:
        rounds = 0
        while not stop.is_set():
            rounds += 1
            await feed.write("orders", f"p{seed}", 5, seed=seed + rounds)
        return rounds

    working = [feed.start(produce(seed)) for seed in range(3)]
    working += [feed.start(traffic(database_url, seed, stop)) for seed in range(2)]
    yield

    async def end() -> None:
        stop.set()

    feed.run(end())
    counts = [work.result(60) for work in working]
    assert all(count > 3 for count in counts), "they did not get to work"


@pytest.mark.timeout(300)
def test_running_producers_and_consumers_cause_no_finding(
    busy: None, feed: Feed, spark: SparkSession, database_url: str
) -> None:
    early = feed.begin()
    early.push("orders", partition="open")
    for number in range(2):
        summary = Audit(Choice(database_url)).run(spark, Silent())
        assert summary.is_ok, summary.tables["first findings"].rows
        looked_at = dict(row[:2] for row in summary.tables["checks"].rows)
        assert looked_at["dense seq"] >= 9 and looked_at["delivered"] > 0
        if number == 0:
            early.commit()


@pytest.fixture
def lake(feed: Feed, spark: SparkSession, database_url: str, tmp_path: Path) -> str:
    """A lake with all of three partitions."""
    fill(feed, "same", "changed", "removed")
    place = str(tmp_path / "lake")
    run_archive(spark, database_url, place)
    return place


@pytest.mark.timeout(300)
def test_the_lake_has_what_its_marks_promise(
    lake: str, feed: Feed, spark: SparkSession, database_url: str
) -> None:
    audit = Audit(Choice(database_url), lake=lake, writes=True)
    feed.push("orders", partition="same")
    feed.execute(
        f"UPDATE queen.partition_lookup SET first_seq = 4 WHERE partition_id = {_ID}", "removed"
    )
    feed.execute(f"DELETE FROM queen.messages WHERE seq < 4 AND partition_id = {_ID}", "removed")
    clean = audit.run(spark, Silent())
    assert clean.is_ok, clean.tables["first findings"].rows
    assert dict(row[:2] for row in clean.tables["checks"].rows)["archive"] == 6 + 6 + 3

    feed.execute(
        f"UPDATE queen.messages SET payload = '2' WHERE seq = 5 AND partition_id = {_ID}", "changed"
    )
    feed.execute(
        f"UPDATE queen.archive_marks SET archived_seq = 7 WHERE partition_id = {_ID}", "same"
    )
    summary = audit.run(spark, Silent())
    assert found(summary) == {("archive", "changed"), ("archive", "same"), ("marks", "same")}
    assert "another message in the lake" in detail(summary, "changed")
    written = DeltaTable(f"{lake}/audit").to_pyarrow_table().to_pylist()
    assert len(written) == 4, "one that says that nothing was found, three findings"


@pytest.mark.timeout(300)
def test_a_message_removed_before_it_was_archived_is_no_finding_and_one_lost_later_is(
    lake: str, feed: Feed, spark: SparkSession, database_url: str
) -> None:
    audit = Audit(Choice(database_url), lake=lake)
    fill(feed, "holed")
    remove = f"SELECT queen.delete_message({_ID}, id::text, 0) FROM queen.messages"
    feed.execute(f"{remove} WHERE seq = 3 AND partition_id = {_ID}", "holed")
    run_archive(spark, database_url, lake)
    # As retention does; what was removed one by one is forgotten with it.
    feed.execute(f"DELETE FROM queen.messages WHERE partition_id = {_ID}", "holed")
    feed.execute(
        f"UPDATE queen.partition_lookup SET first_seq = last_seq + 1 WHERE partition_id = {_ID}",
        "holed",
    )
    feed.execute("DELETE FROM queen.removed_messages")
    clean = audit.run(spark, Silent())
    assert clean.is_ok, clean.tables["first findings"].rows

    DeltaTable(f"{lake}/manifest").update({"messages": "6"}, predicate="partition = 'holed'")
    summary = audit.run(spark, Silent())
    assert found(summary) == {("marks", "holed"), ("manifest", "holed")}
    assert "6 messages were verified, but the lake has 5" in detail(summary, "holed", "marks")

    shutil.rmtree(f"{lake}/manifest")
    assert found(audit.run(spark, Silent())) == {
        ("marks", name) for name in ("same", "changed", "removed", "holed")
    }
    feed.execute("DELETE FROM queen.archive_marks")
    assert audit.run(spark, Silent()).is_ok, "what is not marked need not be verified"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["altered", "twice"])
def test_a_lake_that_changed_is_found_also_when_the_live_messages_are_gone(
    lake: str, feed: Feed, spark: SparkSession, database_url: str, tmp_path: Path, fault: str
) -> None:
    feed.execute(
        "UPDATE queen.partition_lookup SET first_seq = last_seq + 1, last_message_id = NULL"
    )
    feed.execute("DELETE FROM queen.messages")
    (file,) = open_table(Lake.at(lake)).files()
    path = f"{lake}/messages/{file.path}"
    columns = (*FILE_COLUMNS, (VARIANT, "variant"))
    schema = ", ".join(f"`{name}` {kind}" for name, kind in columns)
    rows = spark.read.schema(schema).parquet(path)
    one = (F.col("partition") == "changed") & (F.col("seq") == 2)
    if fault == "twice":
        rows = rows.unionAll(rows.where(one))
    else:
        rows = rows.withColumn("payload", F.when(one, F.lit("0")).otherwise(F.col("payload")))
    rows.coalesce(1).write.parquet(str(tmp_path / "new"))
    (new,) = (tmp_path / "new").glob("*.parquet")
    # Spark trusts the checksum beside a file.
    Path(path).with_name(f".{Path(path).name}.crc").unlink(missing_ok=True)
    shutil.move(new, path)
    summary = Audit(Choice(database_url), lake=lake).run(spark, Silent())
    assert found(summary) == {("manifest", "changed")}


def test_findings_cannot_be_written_without_a_lake(database_url: str) -> None:
    with pytest.raises(InvalidRequest, match="--write needs --lake"):
        Audit(Choice(database_url), writes=True)
