"""`queen pipeline archive` as people run it: a summary, an exit code, a clean stop."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from queenmq.cli import main
from tests.support.archive import archived, live
from tests.support.feed import Feed
from tests.support.waiting import wait_until

COMMAND = [sys.executable, "-m", "queenmq", "pipeline", "archive"]
QUICK = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.mark.jobs
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_continuous_run_archives_what_comes_and_stops_cleanly(
    spark: SparkSession, database_url: str, feed: Feed, tmp_path: Path
) -> None:
    feed.push("orders", 1)
    lake = tmp_path / "lake"
    options = ["--database-url", database_url, "--lake", str(lake), "--pattern", ".*"]
    more = ["--continuous", "--interval", "0.2", "--conf", QUICK, "-o", "json"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*COMMAND, *options, *more], stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:

        def is_marked(seq: int) -> bool:
            assert process.poll() is None, (tmp_path / "log").read_text()[-3000:]
            found = feed.rows("SELECT archived_seq FROM queen.archive_marks")
            return [row[0] for row in found] == [seq]

        wait_until(lambda: is_marked(1), timeout_s=180, what="the first message")
        feed.push("orders", 2)
        wait_until(lambda: is_marked(2), timeout_s=60, what="the second message")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    summary = json.loads(output)
    assert summary["isOk"] and summary["figures"]["messages archived"] == 2
    assert summary["queues"] == [{"queue": "orders", "messages": 2}]
    assert archived(spark, str(lake)) == live(feed)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "nothing to archive: give --queue, --pattern, --namespace or --task"),
        (["--queue", "a", "--pattern", "b"], "queue and queuePattern exclude each other"),
        (["--pattern", "("], "queuePattern '(' is not a regular expression"),
    ],
)
def test_a_mistake_is_told_before_spark_starts(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--database-url", "postgresql://nobody@localhost/none", "--lake", "lake"]
    assert main.run(["pipeline", "archive", *place, *options]) == 2
    told = capsys.readouterr().err
    assert sentence in told and told.count("\n") == 1
