"""The data source over Spark Connect, where the session is but a client of a server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.feed import Feed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: In a process of its own: one that has a session of its own cannot have a remote one.
SCRIPT = """
import sys
import queenmq.spark
from pyspark.sql import functions as F

url, checkpoint = sys.argv[1:]
spark = queenmq.spark.session(remote="local[1]")
orders = spark.read.format("queen").options(url=url, queue="orders").load()
print("read", orders.count())
rows = orders.select(F.lit("copy").alias("queue"), "partition", "payload")
rows.write.format("queen").mode("append").options(url=url).save()
stream = spark.readStream.format("queen").options(url=url, queue="copy", startingOffsets="earliest")
writer = stream.load().writeStream.format("queen").trigger(availableNow=True)
query = writer.options(url=url, queue="again", checkpointLocation=checkpoint).start()
query.awaitTermination()
print("done", type(spark).__module__)
spark.stop()
"""


@pytest.mark.jobs
def test_a_remote_session_reads_writes_and_streams(feed: Feed, tmp_path: Path) -> None:
    feed.push_all("orders", ["a", "b"], times=3)
    source = str(Path(__file__).parents[2] / "src")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, feed.url, str(tmp_path / "checkpoint")],
        # The server's Python starts elsewhere and would not find a path relative to here.
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert "read 6" in run.stdout and "done pyspark.sql.connect" in run.stdout
    stored = feed.rows(
        "SELECT q.name, count(*) AS n FROM queen.messages m JOIN queen.queues q"
        " ON q.id = m.queue_id GROUP BY q.name"
    )
    assert {row["name"]: row["n"] for row in stored} == {"orders": 6, "copy": 6, "again": 6}
