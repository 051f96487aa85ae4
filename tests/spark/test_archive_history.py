"""The archive knows its database: a restored one is refused, a queue made again is another one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from queenmq.spark.jobs.audit.job import Audit
from queenmq.spark.jobs.choice import Choice
from queenmq.spark.jobs.job import Silent
from queenmq.spark.lake import Lake
from queenmq.spark.lake.manifest import read_manifest
from queenmq.spark.source.history import HistoryChanged
from tests.support.archive import archived, run_archive
from tests.support.feed import Feed
from tests.support.own_postgres import OwnPostgres

pytestmark = pytest.mark.timeout(300)


def test_a_queue_made_again_is_entered_once(
    spark: SparkSession, database_url: str, feed: Feed, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    # Waits from the beginning, so that a later batch reaches back to the time of the first queue.
    feed.push("bills", 1)
    feed.push("orders", 1)
    run_archive(spark, database_url, lake, queue="orders")
    feed.execute("SELECT queen.delete_queue('orders')")
    feed.push("orders", 2)
    summary = run_archive(spark, database_url, lake)
    assert summary.is_ok
    assert summary.figures["messages removed from queues before they were verified"] == 0
    entries = read_manifest(spark, Lake.at(lake)).groupBy("partition_id").count().collect()
    assert [row["count"] for row in entries] == [1, 1, 1]
    assert len(archived(spark, lake)) == 3


@pytest.mark.jobs
def test_a_restored_database_does_not_go_on_with_its_lake(
    spark: SparkSession, server: OwnPostgres, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    data, copy = server.home / "data", server.home / "copy"
    push(server, *range(3))
    run_archive(spark, server.url, lake)
    server.stop()
    subprocess.run(["cp", "-a", str(data), str(copy)], check=True)
    server.start()
    # A copy that has all that the lake has is no reason to stop.
    push(server, 3)
    assert run_archive(spark, server.url, lake).figures["messages archived"] == 1
    server.stop()
    subprocess.run(["rm", "-r", str(data)], check=True)
    copy.rename(data)
    server.start()
    push(server, *range(100, 160))
    with pytest.raises(HistoryChanged, match="restored from a copy that is older than the lake"):
        run_archive(spark, server.url, lake)
    union = {"url": server.url, "queue": "orders", "includeArchive": "true", "archivePath": lake}
    with pytest.raises(AnalysisException, match="does not go with this database"):
        spark.read.format("queen").options(**union).load().count()
    audit = Audit(Choice(server.url), lake=lake).run(spark, Silent())
    found = [row for row in audit.tables["first findings"].rows if row[0] == "history"]
    assert len(found) == 1 and "older than the lake" in found[0][5]
    assert run_archive(spark, server.url, f"{lake}-new").figures["messages archived"] == 63


def push(server: OwnPostgres, *payloads: int) -> None:
    with Feed(server.url) as feed:
        for payload in payloads:
            feed.push("orders", payload)


def test_an_audit_reports_numbers_that_the_server_has_not_given_out(
    spark: SparkSession, database_url: str, feed: Feed
) -> None:
    feed.push("orders", 1)
    feed.execute("UPDATE queen.messages SET xid = (xid::text::bigint + 1000000)::text::xid8")
    audit = Audit(Choice(database_url)).run(spark, Silent())
    assert not audit.is_ok
    (found,) = [row for row in audit.tables["first findings"].rows if row[0] == "history"]
    assert found[1] == "orders" and "1 messages" in found[5]
    assert json.dumps(found)
