"""`queen ops ...`: pushes that wait in the operation queue, and what to do with them."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import typer

from queenmq import wire
from queenmq.cli.display.output import Column, cell
from queenmq.cli.display.times import age
from queenmq.cli.exits import UsageProblem
from queenmq.cli.identifiers import check_id
from queenmq.cli.session import Session, Yes, command, confirm
from queenmq.errors import QueenError

app = typer.Typer(help="Pushes that wait to be stored.", no_args_is_help=True)


class OperationStatus(enum.StrEnum):
    """The status of an operation."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    DISCARDED = "discarded"


_check_id = check_id("an operation", "queen ops list")
OperationId = Annotated[
    str, typer.Argument(help="The operation's id.", metavar="ID", callback=_check_id)
]


def _join(names: Any) -> str:
    return ", ".join(names) if names else cell(None)


_COLUMNS = [
    Column("id", "ID"),
    Column("status", "STATUS"),
    Column("queue", "QUEUE"),
    Column("partition", "PARTITION"),
    Column("seq", "SEQ", rank=2),
    Column("itemCount", "ITEMS", rank=1),
    Column("retryCount", "RETRIES", rank=2),
    Column("error", "ERROR", is_text=True),
]
_ASIDE_COLUMNS = [
    Column("id", "ID"),
    Column("queues", "QUEUE", _join),
    Column("partitions", "PARTITION", _join),
    Column("itemCount", "ITEMS", lambda count: "unreadable" if count is None else cell(count)),
    Column("size", "BYTES"),
    Column("setAsideAt", "SINCE"),
    Column("reason", "WHY"),
]


@command(app, "list")
def list_(
    session: Session,
    status: Annotated[
        OperationStatus | None, typer.Option(help="List operations with this status only.")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="List operations of this queue only.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Print at most this many.")] = 100,
) -> None:
    """List operations, newest first.

    Example: queen ops list --status failed
    """
    found = session.queen.admin.list_operations(
        status=status and status.value, queue=queue, limit=limit
    )
    session.out.rows(found.operations, _COLUMNS)
    if found.total > len(found.operations):
        session.out.note(f"{len(found.operations)} of {found.total}; see --limit")


@command(app)
def show(session: Session, operation_id: OperationId) -> None:
    """Show one operation, with the result of each item once it is completed.

    Example: queen ops show 01a1e27d-ffeb-7ea9-b445-f3dcf83be995
    """
    found = session.queen.admin.get_operation(operation_id)
    session.out.print_fields(found, [Column(name, name) for name in found.keys()])


@command(app)
def stats(session: Session) -> None:
    """Show how many operations wait, their age and how fast they run.

    Example: queen ops stats
    """
    found = session.queen.admin.get_operation_stats()
    columns = [
        Column("depth", "WAITING"),
        Column("oldestAgeSeconds", "OLDEST", age),
        Column("drainRate", "PER SECOND"),
        Column("pressure", "PRESSURE"),
        Column("aside.records", "ASIDE"),
        *(Column(f"byStatus.{name}", name.upper(), _sum) for name in found.by_status),
    ]
    session.out.print_fields(found, columns)


@command(app)
def aside(
    session: Session,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Most lines.")] = 100,
) -> None:
    """List the pushes that this broker accepted, could not store and has set aside.

    They are on the broker's own disk: ask each broker. WHY has the reason from the database.

    Example: queen ops aside
    """
    found = session.queen.admin.list_set_aside(limit=limit)
    session.out.rows(found.records, _ASIDE_COLUMNS)
    if found.total > len(found.records):
        session.out.note(f"{len(found.records)} of {found.total}; see --limit")


@command(app)
def retry(
    session: Session,
    operation_id: Annotated[
        str | None,
        typer.Argument(help="The operation's id.", metavar="ID", callback=_check_id),
    ] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Retry all failed operations and all pushes that this broker set aside."
        ),
    ] = False,
) -> None:
    """Retry a failed operation, or everything that failed.

    Set-aside pushes go behind everything else. Messages that are already stored are not stored
    again. Unreadable records stay where they are.

    Example: queen ops retry 01a1e27d-ffeb-7ea9-b445-f3dcf83be995
    """
    if (operation_id is None) == (not every):
        raise UsageProblem("name one operation, or pass --all to retry everything that failed")
    if operation_id is not None:
        _print_decision(session, session.queen.admin.retry_operation(operation_id))
        return
    done = session.queen.admin.retry_all_operations()
    session.out.done(_format_retried(done), done)
    if done.error:
        raise QueenError(done.error)


@command(app)
def discard(session: Session, operation_id: OperationId, yes: Yes = False) -> None:
    """Drop an operation that is not stored yet, with the messages it would have pushed.

    Example: queen ops discard --yes 01a1e27d-ffeb-7ea9-b445-f3dcf83be995
    """
    confirm(f"Drop operation {operation_id} and its messages for good?", yes=yes)
    _print_decision(session, session.queen.admin.discard_operation(operation_id))


def _format_retried(done: wire.OperationsRetried) -> str:
    text = f"retrying failed operations: {done.operations}, pushes set aside: {done.retried}"
    if done.unreadable:
        text += f"; unreadable records stay: {done.unreadable}, see queen ops aside"
    return text


def _print_decision(session: Session, answer: wire.OperationDecided) -> None:
    session.out.done(f"operation {answer.id} is {answer.status}", answer)


def _sum(value: Any) -> str:
    if not isinstance(value, wire.OperationCounts):
        return cell(value)
    return f"{value.operations} operations, {value.item_count} items"
