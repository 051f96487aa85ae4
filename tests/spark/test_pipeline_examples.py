"""The examples in the help of `queen pipeline`, one after the other, in the session of the run."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from queenmq.cli.main import run
from tests.cli.test_examples import examples
from tests.support.broker import running_broker
from tests.tidy.repo import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.feed import Feed

LAKE = ("describe", "verify", "optimize", "vacuum")
#: The replay reads what the archive wrote.
ORDER = ("load", "archive", "replay", "analytics", "audit", "stream", *LAKE)


@pytest.mark.jobs
def test_every_example_of_a_job_works(
    spark: SparkSession,
    feed: Feed,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUEEN_DATABASE_URL", database_url)
    shutil.copy(ROOT / "examples" / "streams" / "filter.toml", "large-orders.toml")
    orders = [{"customer": f"c{n % 3}", "total": n * 400} for n in range(6)]
    Path("old-orders.jsonl").write_text("\n".join(map(json.dumps, orders)))
    lines = {e.command.rpartition(" ")[2]: e.line for e in examples() if "pipeline" in e.command}
    assert sorted(lines) == sorted([*ORDER, "runs"])
    for job in ORDER:
        # Spark's Java was started in another folder.
        line = lines[job].replace("old-orders.jsonl", str(tmp_path / "old-orders.jsonl"))
        flags = ["-o", "json", *([] if job in LAKE else ["--quiet"])]
        code = run([*shlex.split(line)[1:], *flags])
        shown = capsys.readouterr()
        assert code == 0, (job, shown)
        assert json.loads(shown.out)["isOk"], (job, shown.out)
    # The session is not the command's, so it is left running.
    read = spark.read.format("queen").option("url", database_url)
    counts = read.option("queuePattern", ".*orders.*").load().groupBy("queue").count().collect()
    assert {row["queue"]: row["count"] for row in counts} == {
        "orders": 6,
        "orders-again": 6,
        "large-orders": 3,
    }
    assert "<svg" in Path("report.html").read_text()
    with running_broker(database_url=database_url) as broker:
        monkeypatch.setenv("QUEEN_URL", broker.url)
        assert run([*shlex.split(lines["runs"])[1:], "-o", "json"]) == 0
        (audit,) = json.loads(capsys.readouterr().out)
        assert (audit["job"], audit["outcome"]) == ("audit", "done"), audit


def test_the_quick_start_of_the_guide_is_made_of_these_examples() -> None:
    guide = (ROOT / "docs" / "spark.md").read_text()
    lines = guide.partition("```sh\n")[2].partition("```")[0].splitlines()
    assert lines and set(lines) <= {example.line for example in examples()}
