"""`queen status` and `queen why`: is it well, and if a queue does not move, why not."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

from queenmq import wire
from queenmq.cli.display import tables
from queenmq.cli.display.output import Column
from queenmq.cli.display.safe import printable, say
from queenmq.cli.display.times import age, when
from queenmq.cli.exits import NotNow
from queenmq.cli.messages.pop import Group
from queenmq.cli.operate.switches import read_maintenance
from queenmq.cli.session import QueueName, Session


def status(session: Session) -> None:
    """Show the state of a server: health, counts, rates, lag, and what is held back.

    What the token may not read stays empty. Exit code 4 when it does not answer or its database
    does not.

    Example: queen status
    """
    admin = session.queen.admin
    found: dict[str, Any] = {
        "url": session.server.url,
        "health": _health(session),
        "overview": session.read_if_allowed(admin.get_overview),
        "operations": session.read_if_allowed(admin.get_operation_stats),
        "maintenance": read_maintenance(session),
    }
    columns = [
        Column("url", "SERVER"),
        Column("health.status", "HEALTH"),
        Column("health.version", "VERSION"),
        Column("health.database", "DATABASE"),
        Column("overview.queues", "QUEUES"),
        Column("overview.partitions", "PARTITIONS"),
        Column("overview.messages.total", "MESSAGES"),
        Column("overview.messages.pending", "PENDING"),
        Column("overview.messages.processing", "LEASED"),
        Column("overview.messages.deadLetter", "DEAD LETTERS"),
        Column("overview.throughput.ingestedPerSecond", "PUSHED/S"),
        Column("overview.throughput.processedPerSecond", "DONE/S"),
        Column("overview.lag.time.max", "LONGEST LAG", age),
        Column("operations.depth", "OPERATIONS WAITING"),
        Column("operations.pressure", "PRESSURE"),
        Column("maintenance.bufferedMessages", "PUSHES ON DISK"),
        Column("maintenance.maintenanceMode", "PUSHES HELD BACK"),
        Column("maintenance.popMaintenanceMode", "POPS PAUSED"),
    ]
    session.out.print_fields(found, columns)
    if found["overview"] is None:
        session.out.note("queen: the token may not read the counts of all queues")


def _health(session: Session) -> wire.Health:
    """Return the server's own report. An unhealthy server sends it with 503."""
    from queenmq.client.errors import ServerBusy

    try:
        return session.queen.admin.health()
    except ServerBusy as error:
        raise NotNow(
            f"the server at {session.server.url} answers {error.status}: it is up, but cannot use"
            " its database. queen maintenance show says how many pushes it keeps on disk"
        ) from None


def why(
    session: Session,
    queue: QueueName,
    partition: Annotated[
        str | None, typer.Argument(metavar="PARTITION", help="This partition only.")
    ] = None,
    group: Group = None,
) -> None:
    """Explain why a queue does not move for a group, and what to do.

    Example: queen why orders --group billing

    Example: queen why orders customer-42
    """
    found = session.queen.admin.why(queue, partition=partition, group=group)
    if not session.out.is_human:
        session.out.value(found)
        return
    for number, finding in enumerate(found.findings, start=1):
        _print_folded(f"{number}. ", finding.message)
        _print_folded("   -> ", _command_for(finding, found))
    if found.partitions:
        print()
        columns = [
            Column("partition", "PARTITION"),
            Column("state", "STATE"),
            Column("backlog", "BACKLOG"),
            Column("oldestMessage", "OLDEST", when),
            Column("leaseExpiresAt", "LEASE ENDS", when, rank=1),
            Column("leaseId", "LEASE", rank=4),
            Column("retryCount", "FAILURES", rank=2),
            Column("expiredLeases", "EXPIRED LEASES", rank=5),
            Column("lastConsumedAt", "LAST READ", when, rank=3),
        ]
        session.out.rows(found.partitions, columns)


def _command_for(finding: wire.Finding, found: wire.Diagnosis) -> str:
    """Return what to do, as commands where the server names routes."""
    place = f"{shlex.quote(found.queue)} --group {shlex.quote(found.consumer_group)}"
    commands = {
        "pops_paused": "queen maintenance off --pops when the work is done",
        "pushes_buffered": "queen maintenance off when the work is done",
        "last_dead_letter": f"see queen dlq list {place}; when the cause is gone, queen dlq retry"
        f" {place}",
    }
    return commands.get(finding.code, finding.action)


def _print_folded(start: str, text: str) -> None:
    """Print a sentence behind its mark, folded to the terminal."""
    width = tables.terminal_width()
    first, *more = tables.fold_text(printable(text), None if width is None else width - len(start))
    say(f"{start}{first}")
    for line in more:
        say(" " * len(start) + line)
