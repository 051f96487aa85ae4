"""The README's section about Spark, after all that comes before it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.support.readme import blocks, cloned

#: Five jobs with a Spark of their own each.
_ALL_S = 1200.0


@pytest.mark.jobs
@pytest.mark.timeout(1500)
def test_the_jobs_of_the_readme_have_something_to_show() -> None:
    path = Path(tempfile.mkdtemp(prefix="queen-test-"))
    path.chmod(0o755)
    everything = blocks()
    (starter,) = [block for block in everything if block.mark == "in the background"]
    chosen = [block for block in everything if block.is_run and block != starter]
    commands, program = (block.number for block in chosen if block.mark == "make jobs")
    try:
        with cloned(path, starter) as clone:
            printed = clone.run(chosen, timeout_s=_ALL_S)
        report = (path / "orders.html").read_text()
    finally:
        shutil.rmtree(path, ignore_errors=True)
    # An order of the SQL example, and those of the file.
    assert printed[commands].count('"customer":"anna"') >= 1
    assert "keeps no ack history" not in report and "<svg" in report
    assert "carla" in printed[program]
