"""The demo's part on Spark: a declared stream, an archive and a report, in one session."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queenmq import Message, SyncQueen
from queenmq.cli.demo.traffic import QUEUE, Traffic
from queenmq.clock import utc_now
from queenmq.errors import QueenError

if TYPE_CHECKING:
    from queenmq.spark.jobs.job import Job, Summary

_RESULTS = "demo.turnover"


class Story:
    """The steps of the demo beside the traffic, one after the other."""

    def __init__(self, traffic: Traffic, home: Path, report: Path) -> None:
        self._traffic = traffic
        self._home = home
        self._report = report
        self._begin = utc_now()

    def run(self, seconds: int) -> None:
        """Run a stream while orders come in, then archive and write the report."""
        from queenmq.spark.runtime.session import CALM, session
        from queenmq.storage.embedded import read_url

        url = read_url(self._home)
        spark = None
        try:
            with self._traffic.running(seconds):
                print("Spark starts beside it", flush=True)
                spark = session("queen-demo", config=CALM, quick=True)
                self._stream(spark, url)
            self._archive(spark, url)
            self._analyse(spark, url)
        finally:
            if spark is not None:
                spark.stop()

    def _stream(self, spark: Any, url: str) -> None:
        from queenmq.spark.jobs.stream import StreamJob
        from queenmq.spark.streams.definition import load_definition

        file = self._home / "turnover.toml"
        text = resources.files("queenmq.cli.demo") / "turnover.toml"
        file.write_text(text.read_text(encoding="utf-8"), encoding="utf-8")
        done = _run(spark, StreamJob(load_definition(file), str(file), url, is_once=True))
        results = list(_pop_all(self._traffic.url))
        orders = sum(result.data["orders"] for result in results)
        print(
            f"Stream: read {done['messages']} orders meanwhile and pushed {len(results)} windows"
            f" of a second and a customer, with {orders} orders, to {_RESULTS}",
            flush=True,
        )

    def _archive(self, spark: Any, url: str) -> None:
        from queenmq.spark.jobs.archive.job import ArchiveJob, ArchiveOptions
        from queenmq.spark.lake.layout import Lake
        from queenmq.spark.source.options import read_options

        scope = read_options({"url": url, "queue": QUEUE}, is_stream=False).scope
        lake = Lake.at(str(self._home / "lake"))
        done = _run(spark, ArchiveJob(ArchiveOptions(url, lake, scope)))
        archived = done["messages archived"]
        print(f"Archive: {archived} orders in a Delta table, compared with the queue", flush=True)
        if archived != self._traffic.pushed:
            raise QueenError(
                f"{archived} of {self._traffic.pushed} orders were archived; this is a bug, please"
                " report it"
            )

    def _analyse(self, spark: Any, url: str) -> None:
        from queenmq.spark.jobs.analytics.job import Analytics
        from queenmq.spark.jobs.choice import Choice
        from queenmq.spark.jobs.ranges import make_range

        now = utc_now()
        span = make_range(self._begin.isoformat(), now.isoformat(), "1s", now=now)
        _run(spark, Analytics(Choice(url, queue=QUEUE), span, report=self._report))
        print(f"Report: {self._report}", flush=True)


def _pop_all(url: str) -> Iterator[Message[Any]]:
    with SyncQueen(url) as queen:
        while messages := queen.pop(_RESULTS, batch=1_000, auto_ack=True):
            yield from messages


def _run(spark: Any, job: Job) -> dict[str, Any]:
    from queenmq.spark.jobs.job import Silent

    done: Summary = job.run(spark, Silent())
    if not done.is_ok:
        raise QueenError(f"{done.job} found something wrong: {dict(done.figures)}")
    return dict(done.figures)
