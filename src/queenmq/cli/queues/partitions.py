"""`queen partitions ...`: list the partitions of a queue, delete one."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from queenmq.cli.display.output import Column
from queenmq.cli.display.times import when
from queenmq.cli.queues.queues import COUNTERS, LONG_MS
from queenmq.cli.session import QueueName, Session, Yes, command, confirm


class _ListByDefault(TyperGroup):
    """`queen partitions QUEUE` lists: what is not the name of a command is that of a queue."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["list", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ListByDefault, help="Partitions of a queue: list, delete.", no_args_is_help=True
)


@command(app, "list")
def list_(
    session: Session,
    queue: QueueName,
    limit: Annotated[int, typer.Option(min=1, help="Print at most this many.")] = 1000,
    pending: Annotated[
        bool, typer.Option("--pending", help="Only partitions with pending or leased messages.")
    ] = False,
) -> None:
    """List the partitions of a queue with their counts.

    The word list may be left out.

    Example: queen partitions list orders --pending
    """
    found = session.queen.admin.get_queue(queue).partitions
    if pending:
        found = [one for one in found if one.stats.pending or one.stats.processing]
    columns = [
        Column("name", "PARTITION"),
        *(column._replace(key=f"stats.{column.key}") for column in COUNTERS),
        Column("oldestMessage", "OLDEST", when, rank=4),
        Column("newestMessage", "NEWEST", when, rank=5),
    ]
    session.out.rows(found[:limit], columns)
    if len(found) > limit:
        session.out.note(f"{limit} of {len(found)}; see --limit")


@command(app)
def delete(
    session: Session,
    queue: QueueName,
    partition: Annotated[str, typer.Argument(help="Name of the partition.", metavar="PARTITION")],
    yes: Yes = False,
) -> None:
    """Delete a partition with its messages, cursors and dead letters. The next push makes it anew.

    Example: queen partitions delete --yes orders customer-42
    """
    what = f"partition {partition} of queue {queue}"
    confirm(f"Delete {what} on {session.server.url} with all its messages?", yes=yes)
    answer = session.open(timeout_millis=LONG_MS).admin.delete_partition(queue, partition)
    session.out.done(f"{what} is deleted", answer)
