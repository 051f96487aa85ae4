"""`queen pipeline archive`: queues into a lake."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from queenmq.cli.pipeline.checks import check_new_lake, check_queues
from queenmq.cli.pipeline.choosing import Namespace, Pattern, QueueNames, Task
from queenmq.cli.pipeline.frame import Common, job_command
from queenmq.errors import InvalidRequest
from queenmq.spark.jobs.job import Job

if TYPE_CHECKING:
    from queenmq.spark.source.options import Scope


@job_command
def archive(
    common: Common,
    lake: Annotated[str, typer.Option(help="Folder or URL of the lake; created if it is missing.")],
    queue: QueueNames = None,
    pattern: Pattern = None,
    namespace: Namespace = None,
    task: Task = None,
    max_messages: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Commit at most this many messages at once.")
    ] = 500_000,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Run until SIGTERM or SIGINT.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option(min=0.1, max=86_400, help="With --continuous: seconds between two polls."),
    ] = 60.0,
    compact: Annotated[
        bool, typer.Option("--compact", help="Compact small files even where there are few.")
    ] = False,
    vacuum_hours: Annotated[
        int | None,
        typer.Option(min=1, help="Delete files that no version of the last N hours uses."),
    ] = None,
    take_marks: Annotated[
        bool,
        typer.Option("--take-marks", help="Make retention rely on this lake instead of another."),
    ] = False,
    continues_database: Annotated[
        str | None,
        typer.Option(help="This database continues the lake's, as after pg_upgrade."),
    ] = None,
) -> Job:
    """Archive messages of queues in a lake, each once, verified.

    Example: queen pipeline archive --queue orders --lake ./lake
    """
    from queenmq.spark.jobs.archive.job import ArchiveJob, ArchiveOptions
    from queenmq.spark.lake.layout import Lake

    scope = _scope(common.url(), queue, pattern, namespace, task)
    check_new_lake(lake)
    check_queues(common.url(), scope)
    return ArchiveJob(
        ArchiveOptions(
            url=common.url(),
            lake=Lake.at(lake),
            scope=scope,
            max_messages=max_messages,
            interval_s=interval if continuous else None,
            compact=compact,
            vacuum_hours=vacuum_hours,
            take_marks=take_marks,
            continues_database=continues_database,
        )
    )


def _scope(
    url: str, queue: list[str] | None, pattern: str | None, namespace: str | None, task: str | None
) -> Scope:
    """Return the queues to read, chosen as a Spark read chooses them."""
    from queenmq.spark.source.options import read_options

    values = {
        "queue": json.dumps(queue) if queue else None,
        "queuePattern": pattern,
        "namespace": namespace,
        "task": task,
    }
    given = {name: value for name, value in values.items() if value is not None}
    if not given:
        raise InvalidRequest(
            "nothing to archive: give --queue, --pattern, --namespace or --task;"
            " --pattern '.*' selects all queues"
        )
    return read_options({"url": url, **given}, is_stream=False).scope
