"""`queen partitions ...`: list the partitions of a queue; show, move, clear or delete one."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from queenmq.cli.display.output import Column
from queenmq.cli.display.times import parse_time, when
from queenmq.cli.exits import NothingThere
from queenmq.cli.queues.queues import COUNTERS
from queenmq.cli.session import QueueName, Session, Yes, command, confirm
from queenmq.clock import unix_ms


class _ListByDefault(TyperGroup):
    """Makes `queen partitions QUEUE` list: a word that is not a command names a queue."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["list", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ListByDefault,
    help="Partitions of a queue: list, show, seek, clear, delete.",
    no_args_is_help=True,
)


_COLUMNS = [
    Column("name", "PARTITION"),
    *(column._replace(key=f"stats.{column.key}") for column in COUNTERS),
    Column("oldestMessage", "OLDEST", when, rank=4),
    Column("newestMessage", "NEWEST", when, rank=5),
]


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
    session.out.rows(found[:limit], _COLUMNS)
    if len(found) > limit:
        session.out.note(f"{limit} of {len(found)}; see --limit")


PartitionName = Annotated[str, typer.Argument(help="Name of the partition.", metavar="PARTITION")]


@command(app)
def show(session: Session, queue: QueueName, partition: PartitionName) -> None:
    """Show the counts of one partition.

    Example: queen partitions show orders customer-42
    """
    for one in session.queen.admin.get_queue(queue).partitions:
        if one.name == partition:
            session.out.print_fields(one, [Column("id", "ID"), *_COLUMNS])
            return
    raise NothingThere(f"queue {queue!r} has no partition {partition!r}; see queen partitions list")


@command(app)
def seek(
    session: Session,
    queue: QueueName,
    partition: PartitionName,
    to: Annotated[str, typer.Option(help="1h ago, beginning, end, an ISO time, or the next seq.")],
    group: Annotated[str, typer.Option(help="The group to move.")],
    yes: Yes = False,
) -> None:
    """Move a group on one partition, back or forward.

    Example: queen partitions seek orders customer-42 --group billing --to end --yes
    """
    what = f"group {group} on partition {partition} of queue {queue}"
    confirm(f"Move {what} on {session.server.url} to {to}?", yes=yes)
    answer = session.queen.admin.seek_partition(group, queue, partition, _target(to))
    session.out.done(f"{what} is moved to {to}", answer)


@command(app)
def release(
    session: Session,
    queue: QueueName,
    partition: PartitionName,
    group: Annotated[str, typer.Option(help="The group that holds the lease.")],
    yes: Yes = False,
) -> None:
    """End the lease of a group on one partition, so that its messages can be popped again.

    Example: queen partitions release orders customer-42 --group billing --yes
    """
    what = f"the lease of group {group} on partition {partition} of queue {queue}"
    confirm(f"End {what} on {session.server.url}?", yes=yes)
    answer = session.queen.admin.release_lease(group, queue, partition)
    session.out.done(f"{what} is ended" if answer.ended else f"{what} has already ended", answer)


@command(app)
def clear(session: Session, queue: QueueName, partition: PartitionName, yes: Yes = False) -> None:
    """Drop all messages of a partition.

    Example: queen partitions clear --yes orders customer-42
    """
    what = f"partition {partition} of queue {queue}"
    confirm(f"Drop all messages of {what} on {session.server.url}?", yes=yes)
    answer = session.queen.admin.clear_queue(queue, partition)
    session.out.done(f"{what} is empty", answer)


@command(app)
def delete(
    session: Session,
    queue: QueueName,
    partition: PartitionName,
    yes: Yes = False,
) -> None:
    """Delete a partition with its messages, cursors and dead letters.

    The next push creates it again.

    Example: queen partitions delete --yes orders customer-42
    """
    what = f"partition {partition} of queue {queue}"
    confirm(f"Delete {what} on {session.server.url} with all its messages?", yes=yes)
    answer = session.queen.admin.delete_partition(queue, partition)
    session.out.done(f"{what} is deleted", answer)


def _target(to: str) -> dict[str, Any]:
    if to.isascii() and to.isdigit():
        return {"seq": int(to)}
    return {"toEnd": True} if to == "end" else {"timestamp": parse_time(to, now_ms=unix_ms())}
