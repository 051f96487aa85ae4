"""`queen status` and `queen why`: is it well, and if a queue does not move, why not."""

from __future__ import annotations

from typing import Annotated

import typer

from queenmq.cli.output import Column
from queenmq.cli.pop import Group
from queenmq.cli.session import QueueName, Session, command
from queenmq.cli.times import age


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app)(status)
    command(app)(why)


def status(session: Session) -> None:
    """Show how a server is: health, counts, rates, lag, and what is held back.

    Exit code 4 when it does not answer or its database does not.

    Example: queen status
    """
    admin = session.queen.admin
    found = {
        "url": session.server.url,
        "health": admin.health(),
        "overview": admin.get_overview(),
        "operations": admin.get_operation_stats(),
        "maintenance": admin.get_maintenance_mode(),
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
        Column("maintenance.maintenanceMode", "PUSHES KEPT ON DISK"),
        Column("maintenance.popMaintenanceMode", "POPS PAUSED"),
    ]
    session.out.thing(found, columns)


def why(
    session: Session,
    queue: QueueName,
    partition: Annotated[
        str | None, typer.Argument(metavar="PARTITION", help="This partition only.")
    ] = None,
    group: Group = None,
) -> None:
    """Say why a queue does not move for a group, and what to do.

    Example: queen why orders --group billing

    Example: queen why orders customer-42
    """
    found = session.queen.admin.why(queue, partition=partition, group=group)
    if not session.out.is_human:
        session.out.value(found)
        return
    for number, finding in enumerate(found["findings"], start=1):
        print(f"{number}. {finding['message']}")
        print(f"   -> {finding['action']}")
    if found["partitions"]:
        print()
        columns = [
            Column("partition", "PARTITION"),
            Column("state", "STATE"),
            Column("backlog", "BACKLOG"),
            Column("oldestMessage", "OLDEST"),
            Column("leaseExpiresAt", "LEASED UNTIL"),
            Column("leaseId", "LEASE"),
            Column("retryCount", "FAILURES"),
            Column("expiredLeases", "EXPIRED LEASES"),
            Column("lastConsumedAt", "LAST READ"),
        ]
        session.out.rows(found["partitions"], columns)
