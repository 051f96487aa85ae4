"""Real runs of jobs: written down in the database, and shown by the Pipeline view."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

from queenmq.clock import utc_now
from queenmq.errors import QueenError
from queenmq.spark.jobs.analytics.job import Analytics
from queenmq.spark.jobs.choice import Choice
from queenmq.spark.jobs.job import Silent
from queenmq.spark.jobs.ranges import Range
from tests.support.archive import archive_job, run_archive
from tests.support.broker import SOON_S, running_broker
from tests.support.browser import Watched, running_browser
from tests.support.feed import Feed
from tests.support.shared_postgres import SharedPostgres

_RUNS = "SELECT job, outcome, figures::text, error FROM queen.pipeline_runs ORDER BY started_at"


def test_an_archive_and_an_analytics_run_are_shown(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    for number in range(3):
        feed.push("orders", {"n": number})
    run_archive(spark, feed.url, str(tmp_path / "lake"))
    hour = utc_now().replace(minute=0, second=0, microsecond=0)
    span = Range(hour, hour + timedelta(hours=1), 3_600)
    Analytics(Choice(feed.url, queue="orders"), span).run(spark, Silent())
    rows = feed.rows(_RUNS)
    assert [(row["job"], row["outcome"]) for row in rows] == [
        ("archive", "done"), ("analytics", "done"),
    ]  # fmt: skip
    assert json.loads(rows[0]["figures"])["messages archived"] == 3

    with running_broker(database_url=feed.url) as broker, running_browser() as browser:
        listed = httpx.get(f"{broker.url}/api/v1/analytics/runs", timeout=SOON_S).json()["runs"]
        assert [one["job"] for one in listed] == ["analytics", "archive"]
        watched = Watched(browser.new_page(), broker.url)
        watched.page.set_default_timeout(SOON_S * 1000)
        page = watched.open("#/pipeline")
        runs = page.get_by_role("table", name="Runs of jobs")
        runs.get_by_role("row", name="archive").get_by_text("messages archived 3").wait_for()
        page.get_by_text("all archived").wait_for()
        runs.get_by_role("link", name="analytics").click()
        page.get_by_role("heading", level=1, name="Run of analytics").wait_for()
        page.get_by_role("link", name="Open results").click()
        page.get_by_text("Skew: hottest partitions").wait_for()
        watched.check()


def test_a_run_that_fails_is_listed_with_its_error(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    job = archive_job(feed.url, str(tmp_path / "lake"), queue="nowhere")
    with pytest.raises(QueenError, match="nowhere"):
        job.run(spark, Silent())
    (row,) = feed.rows(_RUNS)
    assert (row["job"], row["outcome"]) == ("archive", "failed")
    assert "nowhere" in row["error"]


def test_a_role_that_may_not_list_its_runs_does_its_work(
    spark: SparkSession, feed: Feed, postgres: SharedPostgres
) -> None:
    feed.push("orders", 1)
    hour = utc_now().replace(minute=0, second=0, microsecond=0)
    span = Range(hour, hour + timedelta(hours=1), 3_600)
    with postgres.role("spark_reader", feed.url) as url:
        postgres.grant_documented(feed.execute, "spark.md", "A role for reading")
        postgres.grant_documented(
            feed.execute, "pipeline-analytics-audit.md", "A role for both jobs"
        )
        feed.execute(
            "REVOKE EXECUTE ON FUNCTION queen.start_pipeline_run, queen.note_pipeline_run"
            " FROM spark_reader"
        )
        summary = Analytics(Choice(url, queue="orders"), span).run(spark, Silent())
    assert summary.is_ok and summary.figures["messages"] == 1
    assert feed.rows(_RUNS) == []
