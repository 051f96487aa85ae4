"""`queen messages ...` and `queen trace ...`: single messages, and what was recorded about them."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Annotated

import typer

from queenmq import clock, wire
from queenmq.cli.display.output import Column
from queenmq.cli.display.times import parse_time, when
from queenmq.cli.exits import NothingThere
from queenmq.cli.identifiers import check_id
from queenmq.cli.messages.pop import Partition
from queenmq.cli.session import QueueName, Session, Yes, command, confirm

app = typer.Typer(
    help="Single messages: list, show, retry, bury (dead-letter), delete.", no_args_is_help=True
)
trace = typer.Typer(help="What consumers recorded about messages.", no_args_is_help=True)

PartitionId = Annotated[
    str,
    typer.Argument(
        metavar="PARTITION_ID",
        help="The message's partition id.",
        callback=check_id("a partition", "queen messages list QUEUE"),
    ),
]
TransactionId = Annotated[
    str, typer.Argument(metavar="TRANSACTION_ID", help="The message's transaction id.")
]
Limit = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=1000, help="Print at most this many.")
]


class State(enum.StrEnum):
    """The state of a message."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    DEAD_LETTER = "dead_letter"


@command(app, "list")
def list_(
    session: Session,
    queue: QueueName,
    partition: Partition = None,
    status: Annotated[State | None, typer.Option(help="List messages in this state only.")] = None,
    since: Annotated[
        str, typer.Option(help="List messages pushed since this time, such as '15m ago'.")
    ] = "beginning",
    limit: Limit = 50,
) -> None:
    """List messages of a queue without their payloads, newest first.

    Example: queen messages list orders --status pending --since '1h ago'
    """
    found = session.queen.admin.list_messages(
        queue=queue,
        partition=partition,
        status=status.value if status is not None else None,
        limit=limit,
        from_=parse_time(since, now_ms=clock.unix_ms()),
    )
    if not found.messages:
        session.require_queue(queue)
    columns = [
        Column("partition", "PARTITION"),
        Column("transactionId", "TRANSACTION ID"),
        Column("status", "STATUS"),
        Column("createdAt", "CREATED", when, rank=1),
        Column("leaseExpiresAt", "LEASE ENDS", when, rank=2),
        Column("partitionId", "PARTITION ID"),
    ]
    session.out.rows(found.messages, columns)
    if found.is_cut:
        session.out.note("there may be older messages; narrow the list with --partition")


@command(app)
def show(session: Session, partition_id: PartitionId, transaction_id: TransactionId) -> None:
    """Show a message with its payload, and which groups have read it.

    Example: queen messages show 6ccda5df-06f8-4941-ad87-08c067dee57b order-7
    """
    found = session.queen.admin.get_message(partition_id, transaction_id)
    columns = [
        Column("queue", "QUEUE"),
        Column("partition", "PARTITION"),
        Column("transactionId", "TRANSACTION ID"),
        Column("id", "ID"),
        Column("status", "STATUS"),
        Column("createdAt", "CREATED"),
        Column("retryCount", "RETRIES"),
        Column("errorMessage", "ERROR"),
        Column("traceId", "TRACE"),
        Column("consumerGroups", "GROUPS", _groups),
        Column("payload", "DATA"),
    ]
    session.out.print_fields(found, columns)


@command(app)
def retry(session: Session, partition_id: PartitionId, transaction_id: TransactionId) -> None:
    """Push a dead message again, at the end of its partition.

    Example: queen messages retry 6ccda5df-06f8-4941-ad87-08c067dee57b order-8
    """
    answer = session.queen.admin.retry_message(partition_id, transaction_id)
    session.out.done(f"{transaction_id} was pushed again", answer)


@command(app)
def bury(
    session: Session,
    partition_id: PartitionId,
    transaction_id: TransactionId,
    yes: Yes = False,
) -> None:
    """Make a message a dead letter of the groups that have not read it.

    Example: queen messages bury 6ccda5df-06f8-4941-ad87-08c067dee57b order-9 --yes
    """
    confirm(f"Make {transaction_id} a dead letter?", yes=yes)
    answer = session.queen.admin.move_message_to_dlq(partition_id, transaction_id)
    session.out.done(f"{transaction_id} is a dead letter", answer)


@command(app)
def delete(
    session: Session,
    partition_id: PartitionId,
    transaction_id: TransactionId,
    yes: Yes = False,
) -> None:
    """Delete a message with its dead letters and traces.

    Example: queen messages delete 6ccda5df-06f8-4941-ad87-08c067dee57b order-10 --yes
    """
    confirm(f"Delete {transaction_id} for good?", yes=yes)
    answer = session.queen.admin.delete_message(partition_id, transaction_id)
    session.out.done(f"{transaction_id} is deleted", answer)


_TRACE_COLUMNS = [
    Column("created_at", "TIME", when),
    Column("event_type", "EVENT"),
    Column("consumer_group", "GROUP", rank=2),
    Column("trace_names", "NAMES", lambda value: ", ".join(value or ()), rank=1),
    Column("data", "DATA", is_text=True),
]


@command(trace, "show")
def show_trace(session: Session, partition_id: PartitionId, transaction_id: TransactionId) -> None:
    """Show what was recorded about a message, oldest first.

    Example: queen trace show 6ccda5df-06f8-4941-ad87-08c067dee57b order-7
    """
    found = session.queen.admin.get_traces_for_message(partition_id, transaction_id).traces
    if not found:
        raise NothingThere(f"nothing was recorded about message {transaction_id!r}")
    session.out.rows(found, _TRACE_COLUMNS)


@command(trace)
def find(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The trace's name.")],
    limit: Limit = 100,
) -> None:
    """Find what was recorded under a name, newest first.

    Example: queen trace find checkout
    """
    found = session.queen.admin.get_traces_by_name(name, limit=limit)
    if not found.traces:
        raise NothingThere(f"nothing was recorded under the name {name!r}; see queen trace names")
    columns = [
        Column("queue_name", "QUEUE"),
        Column("partition_name", "PARTITION"),
        Column("transaction_id", "TRANSACTION ID"),
        *_TRACE_COLUMNS,
    ]
    session.out.rows(found.traces, columns)
    if found.total > len(found.traces):
        session.out.note(f"{len(found.traces)} of {found.total}; see --limit")


@command(trace)
def names(session: Session, limit: Limit = 100) -> None:
    """List the names under which something was recorded, last used first.

    Example: queen trace names
    """
    found = session.queen.admin.get_trace_names(limit=limit)
    columns = [
        Column("trace_name", "NAME"),
        Column("trace_count", "TRACES"),
        Column("message_count", "MESSAGES"),
        Column("last_seen", "LAST", when),
    ]
    session.out.rows(found.trace_names, columns)


def _groups(groups: Iterable[wire.MessageGroup]) -> str:
    states = (f"{one.name} ({'read' if one.consumed else 'not read'})" for one in groups)
    return ", ".join(states)
