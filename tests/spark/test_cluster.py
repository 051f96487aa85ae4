"""Jobs on a cluster: executors in processes of their own, which know nothing but the wheel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.archive import archived, live
from tests.support.feed import Feed
from tests.support.spark_processes import CLUSTER

ROWS = 3_000


def pipeline(job: str, *arguments: str) -> Any:
    """The summary of a job."""
    command = [sys.executable, "-m", "queenmq", "pipeline", job, "--master", CLUSTER, "-o", "json"]
    ended = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout)


@pytest.mark.jobs
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cluster_loads_a_queue_and_archives_it(
    spark: SparkSession, database_url: str, feed: Feed, tmp_path: Path
) -> None:
    files = tmp_path / "orders"
    files.mkdir()
    for part in range(4):
        lines = (
            json.dumps({"n": n, "customer": f"c{n % 20}"})
            for n in range(part * ROWS // 4, (part + 1) * ROWS // 4)
        )
        (files / f"{part}.jsonl").write_text("\n".join(lines))
    place = ["--database-url", database_url]
    where = ["--queue", "orders", "--partition-column", "customer"]
    loaded = pipeline("load", str(files), "--format", "json", *place, *where)
    assert loaded["isOk"], loaded
    stored = feed.rows(
        "SELECT p.name, (m.payload->>'n')::int AS n FROM queen.messages m"
        " JOIN queen.partitions p ON p.id = m.partition_id ORDER BY p.name, m.seq"
    )
    expected = sorted((f"c{n % 20}", n) for n in range(ROWS))
    assert [(row["name"], row["n"]) for row in stored] == expected, "in the order of the files"
    lake = tmp_path / "lake"
    summary = pipeline("archive", *place, "--lake", str(lake), "--pattern", ".*")
    assert summary["isOk"] and summary["figures"]["messages archived"] == ROWS
    assert archived(spark, str(lake)) == live(feed)
