"""`queen queues ...`: what there is, and how it is set up."""

from __future__ import annotations

from typing import Annotated

import typer

from queenmq import wire
from queenmq.cli.display.output import Column, format_count
from queenmq.cli.exits import NothingThere, UsageProblem
from queenmq.cli.queues import options as queue_options
from queenmq.cli.session import QueueName, Session, Yes, command, confirm

app = typer.Typer(help="Queues: list, set up, empty, delete.", no_args_is_help=True)

_COLUMNS = [
    Column("name", "QUEUE"),
    Column("namespace", "NAMESPACE", rank=2),
    Column("task", "TASK", rank=3),
    Column("partitions", "PARTITIONS"),
    Column("messages.total", "MESSAGES"),
    Column("messages.pending", "PENDING"),
    Column("messages.processing", "LEASED"),
]
COUNTERS = [
    Column("total", "MESSAGES"),
    Column("pending", "PENDING"),
    Column("processing", "LEASED"),
    Column("completed", "COMPLETED", rank=2),
    Column("failed", "FAILED", rank=3),
    Column("deadLetter", "DEAD LETTERS", rank=1),
]


def _complete_option(incomplete: str) -> list[str]:
    return [f"{name}=" for name in queue_options.FIELDS if name.startswith(incomplete)]


Namespace = Annotated[str | None, typer.Option(help="For pops by namespace.")]
Task = Annotated[str | None, typer.Option(help="For pops by task.")]
Pairs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="OPTION=VALUE",
        help="Options such as leaseTime=60; see docs/api.md.",
        autocompletion=_complete_option,
    ),
]


@command(app, "list")
def list_(
    session: Session,
    search: Annotated[
        str | None, typer.Option(help="Only queues with this in their names.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Print at most this many.")] = 1000,
) -> None:
    """List queues with their counts, newest first.

    Example: queen queues list --search ord
    """
    found = session.queen.admin.list_queues(search=search, limit=limit)
    session.out.rows(found.queues, _COLUMNS)


@command(app)
def show(session: Session, queue: QueueName) -> None:
    """Show a queue: its counts and options.

    Example: queen queues show orders
    """
    found = session.queen.admin.get_queue(queue)
    shown = {**found, "partitions": len(found.partitions)}
    columns = [
        *_COLUMNS[:4],
        Column("createdAt", "CREATED"),
        *(column._replace(key=f"totals.{column.key}") for column in COUNTERS),
        *(Column(f"options.{name}", name) for name in queue_options.FIELDS),
    ]
    session.out.print_fields(shown, columns)


@command(app)
def create(
    session: Session,
    queue: QueueName,
    options: Pairs = None,
    namespace: Namespace = None,
    task: Task = None,
) -> None:
    """Create a queue. An option that is left out has its default; retryDelay is 1000 then.

    Example: queen queues create invoices leaseTime=60 retryLimit=5 --namespace billing
    """
    chosen = queue_options.parse_pairs(options or ())
    if find_queue(session, queue) is not None:
        raise UsageProblem(f"queue {queue!r} already exists; change it with queen queues configure")
    answer = session.queen.create_queue(queue, namespace=namespace, task=task, **chosen)
    session.out.done(f"queue {queue} is created", answer)


@command(app)
def configure(
    session: Session,
    queue: QueueName,
    options: Pairs = None,
    namespace: Namespace = None,
    task: Task = None,
) -> None:
    """Change options of a queue; the others stay as they are.

    Example: queen queues configure orders leaseTime=120 onPoison=block
    """
    chosen = queue_options.parse_pairs(options or ())
    before = find_queue(session, queue)
    if before is None:
        raise NothingThere(f"queue {queue!r} does not exist; create it with queen queues create")
    answer = session.queen.create_queue(
        queue,
        namespace=before.namespace if namespace is None else namespace,
        task=before.task if task is None else task,
        **{**before.options, **chosen},
    )
    changed = queue_options.changes({**before.options, **before}, {**answer.options, **answer})
    words = ", ".join(
        f"{name} {queue_options.shown(old)} -> {queue_options.shown(new)}"
        for name, (old, new) in changed.items()
    )
    session.out.done(f"queue {queue}: {words or 'nothing to change'}", answer)


@command(app)
def delete(session: Session, queue: QueueName, yes: Yes = False) -> None:
    """Delete a queue with its messages, dead letters and groups.

    Example: queen queues delete --yes old-orders
    """
    confirm(f"Delete queue {queue} on {session.server.url} with all its messages?", yes=yes)
    answer = session.queen.delete_queue(queue)
    if not answer.existed:
        raise NothingThere(f"queue {queue!r} does not exist; check its name")
    session.out.done(f"queue {queue} is deleted", answer)


@command(app)
def clear(
    session: Session,
    queue: QueueName,
    partition: Annotated[
        str | None, typer.Option("--partition", "-p", help="This partition only.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Drop all messages and dead letters of a queue, or of one partition. The queue stays.

    Example: queen queues clear --yes old-orders --partition Default
    """
    what = f"queue {queue}" if partition is None else f"partition {partition} of queue {queue}"
    confirm(f"Drop all messages of {what} on {session.server.url}?", yes=yes)
    answer = session.queen.admin.clear_queue(queue, partition)
    session.out.done(
        f"dropped {format_count(answer.messages_deleted, 'message')} of {what}", answer
    )


def find_queue(session: Session, queue: str) -> wire.QueueDetail | None:
    """Return the queue with its options, or None if there is none."""
    from queenmq.client.errors import ResourceNotFound

    try:
        return session.queen.admin.get_queue(queue)
    except ResourceNotFound:
        return None
