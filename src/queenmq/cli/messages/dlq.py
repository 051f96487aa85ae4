"""`queen dlq ...`: dead letters, messages that failed too often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from queenmq.cli.display.output import Column, format_count, progress
from queenmq.cli.display.times import parse_duration, when
from queenmq.cli.exits import NothingThere
from queenmq.cli.messages.pop import Partition
from queenmq.cli.session import QueueName, Session, Yes, command, confirm
from queenmq.errors import QueenError

if TYPE_CHECKING:
    from queenmq import DeadLetter

app = typer.Typer(help="Dead letters: list, show, retry, purge.", no_args_is_help=True)

#: Letters of one request; more take several.
_RETRY_STEP = 500
_PURGE_STEP = 5_000
_PAGE = 1_000
#: Pages that are searched for one letter.
_PAGES_MAX = 100

OfGroup = Annotated[
    str | None, typer.Option("--group", "-g", help="Only dead letters of this group.")
]
OlderThan = Annotated[
    str | None, typer.Option(help="Only dead letters older than this, such as 7d.")
]
Most = Annotated[
    int | None,
    typer.Option(
        "--limit", "-n", min=1, help="At most this many dead letters.", show_default="all"
    ),
]

_COLUMNS = [
    Column("queue", "QUEUE"),
    Column("partition", "PARTITION"),
    Column("consumerGroup", "GROUP"),
    Column("transactionId", "TRANSACTION ID"),
    Column("retryCount", "RETRIES", rank=2),
    Column("failedAt", "FAILED", when, rank=1),
    Column("errorMessage", "ERROR", is_text=True),
]


@command(app, "list")
def list_(
    session: Session,
    queue: Annotated[
        str | None, typer.Argument(metavar="QUEUE", help="Only dead letters of this queue.")
    ] = None,
    group: OfGroup = None,
    partition: Partition = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=10_000, help="Print at most this many.")
    ] = 100,
) -> None:
    """List dead letters, latest failure first.

    Example: queen dlq list orders
    """
    if queue is not None:
        session.require_queue(queue)
    found = session.queen.admin.list_dead_letters(
        queue=queue, consumerGroup=group, partition=partition, limit=limit
    )
    session.out.rows(found.messages, _COLUMNS)
    if found.total > len(found.messages):
        session.out.note(f"{len(found.messages)} of {found.total}; see --limit")


@command(app)
def show(
    session: Session,
    queue: QueueName,
    transaction_id: Annotated[
        str, typer.Argument(metavar="TRANSACTION_ID", help="The message's transaction id.")
    ],
) -> None:
    """Show a dead letter with its payload and its error, for each group.

    Example: queen dlq show orders order-8
    """
    found = [one for one in _dead_letters(session, queue) if one.transaction_id == transaction_id]
    if not found:
        session.require_queue(queue)
        raise NothingThere(f"queue {queue!r} has no dead letter {transaction_id!r}")
    columns = [
        *_COLUMNS,
        Column("createdAt", "CREATED"),
        Column("partitionId", "PARTITION ID"),
        Column("data", "DATA"),
    ]
    if not session.out.is_human:
        session.out.rows(found, columns)
        return
    for number, one in enumerate(found):
        if number:
            print()
        session.out.print_fields(one, columns)


@command(app)
def retry(
    session: Session,
    queue: QueueName,
    group: OfGroup = None,
    partition: Partition = None,
    older_than: OlderThan = None,
    limit: Most = None,
) -> None:
    """Push dead letters of a queue again, oldest failure first, at the end of their partitions.

    Example: queen dlq retry orders --limit 1
    """
    which = _which(queue, group, partition, older_than)

    refused = 0

    def step(most: int) -> tuple[int, bool]:
        nonlocal refused
        answer = session.queen.admin.retry_dead_letters(**which, limit=min(most, _RETRY_STEP))
        # What a full queue refuses stays dead; asking again would not end.
        refused += answer.refused
        return answer.pushed, answer.remaining and not refused

    session.require_queue(queue)
    done = _repeat_step("pushing again", step, limit)
    session.out.done(f"pushed {format_count(done, 'message')} of {queue} again", {"pushed": done})
    if refused:
        raise QueenError(f"queue {queue!r} is full; retry the rest when it has room")


@command(app)
def purge(
    session: Session,
    queue: QueueName,
    group: OfGroup = None,
    partition: Partition = None,
    older_than: OlderThan = None,
    limit: Most = None,
    yes: Yes = False,
) -> None:
    """Delete dead letters of a queue, oldest failure first. Their messages are lost then.

    Example: queen dlq purge orders --older-than 30d --yes
    """
    which = _which(queue, group, partition, older_than)
    session.require_queue(queue)
    confirm(f"Delete dead letters of queue {queue} on {session.server.url}?", yes=yes)

    def step(most: int) -> tuple[int, bool]:
        answer = session.queen.admin.purge_dead_letters(**which, limit=min(most, _PURGE_STEP))
        return answer.purged, answer.remaining

    done = _repeat_step("forgetting", step, limit)
    session.out.done(f"deleted {format_count(done, 'dead letter')} of {queue}", {"purged": done})


def _which(
    queue: str, group: str | None, partition: str | None, older_than: str | None
) -> dict[str, Any]:
    seconds = None if older_than is None else int(parse_duration(older_than))
    return {
        "queue": queue,
        "group": group,
        "partition": partition,
        "older_than_seconds": seconds,
    }


def _dead_letters(session: Session, queue: str) -> Iterator[DeadLetter[Any]]:
    """Yield the dead letters of a queue, as far as one looks."""
    for page in range(_PAGES_MAX):
        found = session.queen.admin.list_dead_letters(
            queue=queue, limit=_PAGE, offset=page * _PAGE
        ).messages
        yield from found
        if len(found) < _PAGE:
            return


def _repeat_step(title: str, step: Callable[[int], tuple[int, bool]], limit: int | None) -> int:
    """Work in steps while something is left. Return how many were done."""
    done, is_rest = 0, True
    with progress() as bar:
        task = bar.add_task(title, total=limit, note="")
        while is_rest and (limit is None or done < limit):
            count, is_rest = step(_PURGE_STEP if limit is None else limit - done)
            done += count
            is_rest = is_rest and count > 0
            bar.update(task, completed=done, note=str(done))
    return done
