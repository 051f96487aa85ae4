"""`queen pipeline audit`: checks invariants."""

from __future__ import annotations

from typing import Annotated

import typer

from queenmq.cli.pipeline.checks import check_lake
from queenmq.cli.pipeline.choosing import (
    Namespace,
    PartitionNames,
    Pattern,
    QueueNames,
    Task,
    choose_queues,
)
from queenmq.cli.pipeline.frame import Common, job_command
from queenmq.spark.jobs.job import Job


@job_command
def audit(
    common: Common,
    queue: QueueNames = None,
    pattern: Pattern = None,
    namespace: Namespace = None,
    task: Task = None,
    partition: PartitionNames = None,
    lake: Annotated[str | None, typer.Option(help="Also compare with this lake.")] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the findings to <lake>/audit.")
    ] = False,
) -> Job:
    """Check messages, cursors, dead letters, history and archive; exit code 6: something is wrong.

    Example: queen pipeline audit --lake ./lake
    """
    from queenmq.spark.jobs.audit.job import Audit

    if lake is not None:
        check_lake(lake)
    choice = choose_queues(common, queue, pattern, namespace, task, partition)
    return Audit(choice, lake=lake, writes=write)
