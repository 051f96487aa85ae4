"""The options by which jobs choose queues, named as those of the source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from queenmq.cli.pipeline.checks import check_queues

if TYPE_CHECKING:
    from queenmq.cli.pipeline.frame import Common
    from queenmq.spark.jobs.choice import Choice

QueueNames = Annotated[
    list[str] | None, typer.Option("--queue", help="A queue by its name; repeatable.")
]
Pattern = Annotated[
    str | None, typer.Option(help="Queues by a regular expression for the whole name.")
]
Namespace = Annotated[str | None, typer.Option(help="Queues of a namespace.")]
Task = Annotated[str | None, typer.Option(help="Queues of a task.")]
PartitionNames = Annotated[
    list[str] | None, typer.Option("--partition", help="Only partitions of this name; repeatable.")
]


def choose_queues(
    common: Common,
    queue: list[str] | None,
    pattern: str | None,
    namespace: str | None,
    task: str | None,
    partition: list[str] | None,
) -> Choice:
    """Return the choice of queues, which exist; none of the options: all queues."""
    from queenmq.spark.jobs.choice import Choice

    choice = Choice(
        common.url(),
        queue=json.dumps(queue) if queue else None,
        queue_pattern=pattern,
        namespace=namespace,
        task=task,
        partitions=json.dumps(partition) if partition else None,
    )
    check_queues(choice.url, choice.scope())
    return choice
