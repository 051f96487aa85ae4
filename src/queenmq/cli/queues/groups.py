"""`queen groups ...`, `queen lag` and `queen replay`: consumer groups, and where they are."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from queenmq import clock
from queenmq.cli.display.output import Column, format_count
from queenmq.cli.display.times import BEGINNING, age, parse_time, when
from queenmq.cli.exits import FOUND, NothingThere
from queenmq.cli.session import QueueName, Session, Yes, command, complete_queues, confirm

app = typer.Typer(help="Consumer groups: list, show, seek, pause, delete.", no_args_is_help=True)

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]
OfQueue = Annotated[
    str | None,
    typer.Option("--queue", help="Only this queue.", autocompletion=complete_queues),
]
To = Annotated[
    str,
    typer.Option(help="Where to: '15m ago', beginning, end, or 2030-01-31T12:00:00Z."),
]

_COLUMNS = [
    Column("name", "GROUP"),
    Column("queueName", "QUEUE"),
    Column("members", "PARTITIONS", rank=2),
    Column("partitionsWithLag", "LAGGING", rank=1),
    Column("totalLag", "LAG"),
    Column("maxTimeLag", "AGE", age),
    Column("state", "STATE"),
    Column("subscriptionMode", "START", rank=3),
]
_LAG_COLUMNS = [
    Column("consumer_group", "GROUP"),
    Column("queue_name", "QUEUE"),
    Column("partition_name", "PARTITION"),
    Column("offset_lag", "LAG"),
    Column("time_lag_seconds", "AGE", age),
    Column("oldest_unconsumed_at", "OLDEST", when, rank=1),
]


@command(app, "list")
def list_(session: Session, queue: OfQueue = None) -> None:
    """List groups with their lag, a line for each queue.

    Example: queen groups list --queue orders
    """
    if queue is not None:
        session.require_queue(queue)
    rows = session.queen.admin.list_consumer_groups()
    session.out.rows([row for row in rows if queue in (None, row.queue_name)], _COLUMNS)


@command(app)
def show(session: Session, group: GroupName, queue: OfQueue = None) -> None:
    """Show a group, partition by partition.

    Example: queen groups show billing
    """
    found = session.queen.admin.get_consumer_group(group)
    rows: list[dict[str, Any]] = [
        {"queue": name, **one}
        for name, part in found.items()
        if queue in (None, name)
        for one in part.partitions
    ]
    if not rows:
        where = "anywhere" if queue is None else f"on queue {queue!r}"
        raise NothingThere(f"group {group!r} has no partition {where}; check its name")
    columns = [
        Column("queue", "QUEUE"),
        Column("partition", "PARTITION"),
        Column("offsetLag", "LAG"),
        Column("timeLagSeconds", "AGE", age),
        Column("leaseActive", "LEASED"),
        Column("totalConsumed", "CONSUMED", rank=2),
        Column("lastConsumedAt", "LAST", when, rank=1),
    ]
    session.out.rows(rows, columns)


@command(app)
def seek(session: Session, group: GroupName, queue: QueueName, to: To, yes: Yes = False) -> None:
    """Move a group on a queue: back, so that messages come again, or forward past them.

    Example: queen groups seek billing orders --to end --yes
    """
    move(session, group, queue, to, yes=yes)


@command(app)
def delete(
    session: Session,
    group: GroupName,
    queue: OfQueue = None,
    keep_start: Annotated[
        bool, typer.Option("--keep-start", help="Keep its start for new partitions.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete a group with its cursors and leases. The next pop of that name starts over.

    Example: queen groups delete --yes old-group
    """
    where = "all queues" if queue is None else f"queue {queue}"
    _require_group(session, group, queue)
    confirm(f"Delete group {group} on {where} of {session.server.url}?", yes=yes)
    answer = session.queen.delete_consumer_group(group, not keep_start, queue=queue)
    session.out.done(
        f"deleted group {group} in {format_count(answer.deleted_partitions, 'partition')}"
        f" of {where}",
        answer,
    )


@command(app)
def pause(session: Session, group: GroupName) -> None:
    """Hand out nothing to a group, on all queues and brokers. Leases go on; acks are taken.

    Example: queen groups pause billing
    """
    answer = session.queen.admin.pause_consumer_group(group)
    text = f"paused group {group}; queen groups resume {group} serves it again"
    if not _is_known(session, group, None):
        text += "; no queue knows this group yet"
    session.out.done(text, answer)


@command(app)
def resume(session: Session, group: GroupName) -> None:
    """Serve a paused group again.

    Example: queen groups resume billing
    """
    answer = session.queen.admin.resume_consumer_group(group)
    session.out.done(f"group {group} is served again", answer)


def lag(
    session: Session,
    min_seconds: Annotated[
        int | None,
        typer.Option(min=0, help="Only what is at least this old; exit code 6 if there is any."),
    ] = None,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only this group.")] = None,
    queue: OfQueue = None,
) -> None:
    """List partitions with messages that a group has not passed, worst first.

    With --min-seconds it is a check: exit code 6 if something is that late, else 0. A queue or
    group that does not exist is exit code 3.

    Example: queen lag --min-seconds 3600 --queue orders
    """
    if queue is not None:
        session.require_queue(queue)
    if group is not None:
        _require_group(session, group, queue)
    rows = [
        row
        for row in session.queen.admin.get_lagging_consumers(min_seconds or 0)
        if queue in (None, row.queue_name) and group in (None, row.consumer_group)
    ]
    session.out.rows(rows, _LAG_COLUMNS)
    if rows and min_seconds is not None:
        raise typer.Exit(FOUND)


def replay(
    session: Session,
    queue: QueueName,
    group: Annotated[str, typer.Option("--group", "-g", help="The consumer group.")],
    to: To,
    yes: Yes = False,
) -> None:
    """Give a group messages of a queue again, from a time on.

    Example: queen replay orders --group billing --to '15m ago'
    """
    move(session, group, queue, to, yes=yes)


def move(session: Session, group: str, queue: str, to: str, *, yes: bool) -> None:
    """Move a group; going forward skips messages, so that is asked for."""
    if to.strip().lower() == "end":
        confirm(f"Skip all messages of queue {queue} that group {group} has not read?", yes=yes)
        answer = session.queen.seek(queue, group, to_end=True)
    else:
        time = parse_time(to, now_ms=clock.unix_ms())
        answer = session.queen.seek(queue, group, timestamp=time)
        to = "the beginning" if time == BEGINNING else time
    if not answer.partitions_updated:
        raise NothingThere(
            f"group {group!r} has not popped from queue {queue!r} yet; pop once, then move it"
        )
    session.out.done(
        f"moved group {group} to {to} in {format_count(answer.partitions_updated, 'partition')}"
        f" of {queue}",
        answer,
    )


def _is_known(session: Session, group: str, queue: str | None) -> bool:
    rows = session.queen.admin.list_consumer_groups()
    return any(row.name == group and queue in (None, row.queue_name) for row in rows)


def _require_group(session: Session, group: str, queue: str | None) -> None:
    if not _is_known(session, group, queue):
        nowhere = "any queue" if queue is None else f"queue {queue!r}"
        raise NothingThere(f"group {group!r} has no cursor on {nowhere}; check its name")
