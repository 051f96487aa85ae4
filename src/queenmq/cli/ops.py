"""`queen ops ...`: pushes that wait in the operation queue, and what to do with failed ones."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from queenmq.cli.output import Column, cell
from queenmq.cli.session import Session, Yes, command, confirm
from queenmq.cli.times import age

app = typer.Typer(help="Pushes that wait to be stored.", no_args_is_help=True)

OperationId = Annotated[str, typer.Argument(help="The operation's id.", metavar="ID")]

_COLUMNS = [
    Column("id", "ID"),
    Column("status", "STATUS"),
    Column("queue", "QUEUE"),
    Column("partition", "PARTITION"),
    Column("seq", "SEQ"),
    Column("itemCount", "ITEMS"),
    Column("retryCount", "RETRIES"),
    Column("error", "ERROR"),
]


@command(app, "list")
def list_(
    session: Session,
    status: Annotated[
        str | None, typer.Option(help="pending, processing, completed, failed or discarded.")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Of this queue only.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Most lines.")] = 100,
) -> None:
    """List operations, newest first.

    Example: queen ops list --status failed
    """
    found = session.queen.admin.list_operations(status=status, queue=queue, limit=limit)
    session.out.rows(found["operations"], _COLUMNS)
    if found["total"] > len(found["operations"]):
        session.out.note(f"{len(found['operations'])} of {found['total']}; see --limit")


@command(app)
def show(session: Session, operation_id: OperationId) -> None:
    """Show one operation, with the result of each item once it is completed.

    Example: queen ops show 01a1e27d-ffeb-7ea9-b445-f3dcf83be995
    """
    found = session.queen.admin.get_operation(operation_id)
    session.out.thing(found, [Column(name, name) for name in found])


@command(app)
def stats(session: Session) -> None:
    """Show how many wait, how old they are and how fast they are run.

    Example: queen ops stats
    """
    found = session.queen.admin.get_operation_stats()
    columns = [
        Column("depth", "WAITING"),
        Column("oldestAgeSeconds", "OLDEST", age),
        Column("drainRate", "PER SECOND"),
        Column("pressure", "PRESSURE"),
        *(Column(f"byStatus.{name}", name.upper(), _sum) for name in found["byStatus"]),
    ]
    session.out.thing(found, columns)


@command(app)
def retry(session: Session, operation_id: OperationId) -> None:
    """Let a failed operation run again.

    Example: queen ops retry 01a1e27d-ffeb-7ea9-b445-f3dcf83be995
    """
    _tell(session, session.queen.admin.retry_operation(operation_id))


@command(app)
def discard(session: Session, operation_id: OperationId, yes: Yes = False) -> None:
    """Drop a failed operation with the messages it would have pushed.

    Example: queen ops discard --yes 01a1e27d-ffeb-7ea9-b445-f3dcf83be995
    """
    confirm(f"Drop operation {operation_id} and its messages for good?", yes=yes)
    _tell(session, session.queen.admin.discard_operation(operation_id))


def _tell(session: Session, answer: Any) -> None:
    session.out.done(f"operation {answer['id']} is {answer['status']}", answer)


def _sum(value: Any) -> str:
    if not isinstance(value, dict):
        return cell(value)
    return f"{value['operations']} operations, {value['items']} items"
