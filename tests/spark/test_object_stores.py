"""Lakes in an object store: all jobs and commands, against a server that speaks S3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from queenmq.spark.jobs.audit.job import Audit
from queenmq.spark.jobs.choice import Choice
from queenmq.spark.jobs.job import Silent
from queenmq.spark.lake import read_messages
from tests.support.archive import archived, live, run_archive
from tests.support.command_line import Cli
from tests.support.feed import Feed
from tests.support.s3_server import S3Port

pytestmark = pytest.mark.timeout(300)

BUCKET = "queen-lakes"
#: What a path or a URL would make something else of.
ODD = "a b/\u00fc%41~+.c"


@pytest.fixture(scope="module")
def bucket(s3_port: S3Port) -> Iterator[str]:
    with s3_port.serve(BUCKET):
        yield f"s3://{BUCKET}"


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(monkeypatch, capsys, "")


def _lake(cli: Cli, command: str, lake: str, *more: str) -> Any:
    """The figures of a command that works on a lake."""
    ended = cli("pipeline", "lake", command, "--lake", lake, *more, "-o", "json")
    assert ended.code == 0, ended
    return ended.value["figures"]


def test_a_lake_in_a_store_is_written_read_and_kept_in_order_without_a_jar(
    spark: SparkSession,
    read: Callable[..., DataFrame],
    feed: Feed,
    database_url: str,
    bucket: str,
    cli: Cli,
) -> None:
    lake = f"{bucket}/first/lake"
    feed.push_all("orders", ["a", "b"], times=4)
    feed.push_all(ODD, ["a"], times=4)
    assert run_archive(spark, database_url, lake).is_ok
    stored = live(feed)
    # As another name for the same place.
    assert archived(spark, lake.replace("s3://", "s3a://")) == stored
    assert Audit(Choice(database_url), lake=lake, writes=True).run(spark, Silent()).is_ok
    assert DeltaTable(f"{lake}/audit").version() == 0

    feed.execute("DELETE FROM queen.messages WHERE seq <= 3")
    feed.push_all("orders", ["a"], times=1)
    union = read(queuePattern=".*", includeArchive="true", archivePath=lake, where="seq > 1")
    counts = Counter(row["queue"] for row in union.select("queue").collect())
    assert counts == {"orders": 7, ODD: 3}

    described = _lake(cli, "describe", lake)
    assert (described["queues"], described["files"], described["messages"]) == (2, 2, 12)
    assert _lake(cli, "verify", lake)["messages"] == 12
    assert _lake(cli, "optimize", lake, "--z-order")["files"] == 2
    assert _lake(cli, "vacuum", lake, "--hours", "1")["files removed"] == 0
    assert _lake(cli, "verify", lake)["messages"] == 12
    # Another writer has named the files anew.
    rows = read_messages(spark, lake, queues=[ODD]).orderBy("seq")
    assert [tuple(row)[:15] for row in rows.collect()] == stored[:4]


def test_what_is_wrong_with_a_store_is_said_before_spark_starts(
    s3_port: S3Port,
    database_url: str,
    bucket: str,
    feed: Feed,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed.push("orders", 1)

    def fails(code: int, *words: str, job: str = "archive", lake: str = f"{bucket}/x") -> None:
        more = ("--queue", "orders") if job == "archive" else ()
        place = ("--lake", lake, "--database-url", database_url)
        # Were Spark asked first, it would not start.
        ended = cli("pipeline", job, *place, *more, "--conf", "spark.executor.cores=none")
        assert ended.code == code, ended
        assert all(word in ended.err for word in words), ended.err
        assert len(ended.err.splitlines()) <= 3 and "\x1b" not in ended.err, ended.err

    fails(4, "queen-missing does not exist; create it", lake="s3://queen-missing/lake")
    fails(4, "queen-missing does not exist", job="audit", lake="s3://queen-missing/lake")
    fails(3, "there is no lake at s3://queen-lakes/none", job="replay", lake=f"{bucket}/none")
    fails(2, "not a supported store", "s3://", lake="ftp://store/lake")
    fails(2, "AWS_ACCESS_KEY_ID", lake="s3:///lake")
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        fails(4, "no server answers at http://127.0.0.1:1; check the network")
        patch.setenv("AWS_ALLOW_HTTP", "false")
        fails(4, "AWS_ALLOW_HTTP=true")
    with monkeypatch.context() as patch:
        # Where a machine of the cloud would ask for its own.
        patch.setenv("AWS_METADATA_ENDPOINT", f"{s3_port.url}/none")
        patch.delenv("AWS_ACCESS_KEY_ID")
        fails(4, "there are no credentials; set AWS_ACCESS_KEY_ID")
        patch.delenv("AWS_SECRET_ACCESS_KEY")
        fails(4, "there are no credentials; set AWS_ACCESS_KEY_ID")


def test_what_needs_a_jar_says_which(
    spark: SparkSession, database_url: str, bucket: str, cli: Cli
) -> None:
    for place, jar in (
        ("s3a://queen-lakes/orders.jsonl", "org.apache.hadoop:hadoop-aws"),
        ("gs://queen-lakes/orders.jsonl", "org.apache.hadoop:hadoop-gcp"),
        ("abfss://c@a.dfs.core.windows.net/orders.jsonl", "org.apache.hadoop:hadoop-azure"),
    ):
        load = ("pipeline", "load", place, "--queue", "q", "--database-url", database_url)
        ended = cli(*load, "--quiet")
        assert ended.code == 2, ended
        scheme = place.partition("://")[0]
        assert f"Spark cannot open {scheme}:// without the jar {jar}" in ended.err, ended.err
