"""Plain scripts and shells, which know nothing of Queen, find the data source by themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from queenmq.spark.runtime.java import find_java_home
from tests.support.feed import Feed

pytestmark = [pytest.mark.jobs, pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAMS = Path(pyspark.__file__).parent / "bin"
SCRIPT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").getOrCreate()
frame = spark.read.format("queen").option("url", {url!r}).load("orders")
print("found", frame.count(), "messages")
spark.stop()
"""


def launch(command: list[str], feed: Feed, *, stdin: str | None = None) -> str:
    """The output of a program that is told of this Python by one variable, and of nothing else."""
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": os.environ.get("HOME", "/"),
        "JAVA_HOME": str(find_java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    run = subprocess.run(
        command,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


def test_a_script_started_by_the_path_of_its_interpreter(feed: Feed, tmp_path: Path) -> None:
    feed.push_all("orders", ["a"], times=3)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(url=feed.url))
    assert "found 3 messages" in launch([sys.executable, str(script)], feed)


def test_a_script_given_to_spark_submit(feed: Feed, tmp_path: Path) -> None:
    feed.push_all("orders", ["a"], times=3)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(url=feed.url))
    command = [str(PROGRAMS / "spark-submit"), "--master", "local[1]", str(script)]
    assert "found 3 messages" in launch(command, feed)


def test_the_shell_of_spark(feed: Feed) -> None:
    feed.push_all("orders", ["a"], times=3)
    typed = SCRIPT.format(url=feed.url)
    told = launch([str(PROGRAMS / "pyspark"), "--master", "local[1]"], feed, stdin=typed)
    assert "found 3 messages" in told
