"""`queen metrics`, `queen analytics`, `queen version`: what brokers did and are."""

from __future__ import annotations

from typing import Annotated

import typer

from queenmq import __version__
from queenmq.cli.display.output import Column
from queenmq.cli.display.safe import say
from queenmq.cli.display.times import parse_time, when
from queenmq.cli.exits import NothingThere
from queenmq.cli.session import QueueName, Session
from queenmq.clock import unix_ms

_OPS = [
    Column("bucket", "FROM", when),
    Column("queueName", "QUEUE"),
    Column("pushMessages", "PUSHED"),
    Column("popMessages", "POPPED"),
    Column("ackSuccess", "ACKED"),
    Column("ackFailed", "FAILED", rank=2),
    Column("dlqCount", "DEAD", rank=2),
    Column("avgLagMs", "LAG MS", rank=3),
    Column("parkedCount", "PARKED", rank=4),
]
Since = Annotated[
    str | None, typer.Option("--from", help="Start of the span: 6h ago, or an ISO time.")
]
Until = Annotated[str | None, typer.Option("--to", help="End of the span; now if left out.")]


def metrics(
    session: Session,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Only series whose name has this in it.")
    ] = None,
) -> None:
    """Print the series of the broker that answers, for all of its workers.

    Example: queen metrics queen_messages
    """
    series = [
        line for line in session.queen.admin.get_series().splitlines() if not line.startswith("#")
    ]
    found = [line for line in series if name is None or name in line.partition("{")[0]]
    if not found:
        raise NothingThere(f"no series has {name!r} in its name; queen metrics prints them all")
    for line in found:
        say(line)


def analytics(
    session: Session,
    queue: QueueName = "",
    start: Since = None,
    end: Until = None,
    limit: Annotated[int, typer.Option(min=1, help="Print at most this many rows.")] = 100,
) -> None:
    """Print the history of one queue, or of the busiest ones, step by step. Newest first.

    Example: queen analytics orders
    """
    if queue:
        session.require_queue(queue)
    series = session.queen.admin.get_queue_ops(
        queue=queue or None, from_=_time(start), to=_time(end)
    ).series
    session.out.rows(series[::-1][:limit], _OPS)
    if len(series) > limit:
        session.out.note(f"{limit} of {len(series)}; see --limit")


def _time(text: str | None) -> str | None:
    return parse_time(text, now_ms=unix_ms()) if text else None


def version(session: Session) -> None:
    """Print the version of this command and of the server.

    Example: queen version
    """
    found = {"client": __version__, "server": session.queen.admin.health().version}
    session.out.print_fields(found, [Column("client", "CLIENT"), Column("server", "SERVER")])
