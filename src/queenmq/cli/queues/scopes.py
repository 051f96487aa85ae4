"""`queen namespaces` and `queen tasks`: queues by their labels."""

from __future__ import annotations

from queenmq.cli.display.output import Column
from queenmq.cli.session import Session

_COUNTS = [
    Column("queues", "QUEUES"),
    Column("partitions", "PARTITIONS"),
    Column("messages.total", "MESSAGES"),
    Column("messages.pending", "PENDING"),
]


def namespaces(session: Session) -> None:
    """List the namespaces that queues name, with their counts.

    Example: queen namespaces
    """
    found = session.queen.admin.get_namespaces().namespaces
    session.out.rows(found, [Column("namespace", "NAMESPACE"), *_COUNTS])


def tasks(session: Session) -> None:
    """List the tasks that queues name, with their counts.

    Example: queen tasks
    """
    found = session.queen.admin.get_tasks().tasks
    session.out.rows(found, [Column("task", "TASK"), *_COUNTS])
