"""`queen pipeline analytics`: how queues and their consumers did."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from queenmq.cli.pipeline.checks import check_new_lake
from queenmq.cli.pipeline.choosing import (
    Namespace,
    PartitionNames,
    Pattern,
    QueueNames,
    Task,
    choose_queues,
)
from queenmq.cli.pipeline.frame import Common, job_command
from queenmq.clock import utc_now
from queenmq.errors import InvalidRequest
from queenmq.spark.jobs.job import Job


@job_command
def analytics(
    common: Common,
    queue: QueueNames = None,
    pattern: Pattern = None,
    namespace: Namespace = None,
    task: Task = None,
    partition: PartitionNames = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Start: a time, or how long ago, such as 24h. Default: a day before --to.",
        ),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="End, in the same form. Default: the running bucket.")
    ] = None,
    bucket: Annotated[str, typer.Option(help="Length of a bucket: 90s, 5m, 1h.")] = "5m",
    top: Annotated[
        int, typer.Option(min=1, max=1_000, help="Show this many partitions, producers and errors.")
    ] = 20,
    lake: Annotated[
        str | None, typer.Option(help="Also write all results to <lake>/analytics.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write an HTML report with charts to this file.", dir_okay=False),
    ] = None,
) -> Job:
    """Measure throughput, backlog, latencies, failures and skew of queues.

    Example: queen pipeline analytics --queue orders --from 24h --report report.html
    """
    from queenmq.spark.jobs.analytics.job import Analytics
    from queenmq.spark.jobs.ranges import make_range

    if report is not None and not report.absolute().parent.is_dir():
        raise InvalidRequest(f"--report {report} names a folder that does not exist; create it")
    times = make_range(start, end, bucket, now=utc_now())
    if lake is not None:
        check_new_lake(lake)
    return Analytics(
        choose_queues(common, queue, pattern, namespace, task, partition),
        times,
        top=top,
        lake=lake,
        report=report,
    )
