"""`queen pipeline stream`: runs a stream that a file declares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from queenmq.cli.pipeline.checks import check_keys, check_queues
from queenmq.cli.pipeline.frame import Common, job_command
from queenmq.spark.jobs.job import Job

if TYPE_CHECKING:
    from queenmq.spark.source.options import Scope
    from queenmq.spark.streams.definition import Definition


@job_command
def stream(
    common: Common,
    file: Annotated[Path, typer.Argument(help="TOML file that defines the stream.")],
    once: Annotated[
        bool,
        typer.Option("--once", help="Process what is there and exit; otherwise run until stopped."),
    ] = False,
    fail_on_late: Annotated[
        bool,
        typer.Option(
            "--fail-on-late", help="Exit with 6 if messages were late or could not be used."
        ),
    ] = False,
    encryption_keys: Annotated[
        str | None, typer.Option(help="The file with the keys of encrypted queues.")
    ] = None,
) -> Job:
    """Run a declared stream: filter, windows and sums of queues into a queue or a table.

    Example: queen pipeline stream large-orders.toml --once
    """
    from queenmq.spark.streams.definition import load_definition

    definition = load_definition(file)
    from queenmq.spark.jobs.stream import StreamJob

    check_queues(common.url(), _scope(definition))
    check_keys(common.url(), [definition.sink.queue, definition.late.queue], encryption_keys)
    return StreamJob(
        definition,
        str(file),
        common.url(),
        is_once=once,
        fail_on_late=fail_on_late,
        key_file=encryption_keys,
    )


def _scope(definition: Definition) -> Scope:
    """Return the queues that the stream reads."""
    from queenmq.spark.source.options import Scope

    source = definition.source
    names = [source.queue] if isinstance(source.queue, str) else source.queue
    return Scope(
        queues=tuple(names) if names else None,
        pattern=source.pattern,
        namespace=source.namespace,
        task=source.task,
        partitions=None,
    )
