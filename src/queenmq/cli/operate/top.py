"""`queen top`: queues, rates, lag and leases, as they change."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from queenmq import clock, wire
from queenmq.cli.display import tables
from queenmq.cli.display.keys import Keys
from queenmq.cli.display.output import Column, cell, console, print_lines, print_table, style_line
from queenmq.cli.display.times import age
from queenmq.cli.operate.switches import Switches, read_maintenance
from queenmq.cli.session import Session
from queenmq.errors import QueenError

if TYPE_CHECKING:
    from rich.console import RenderableType


#: Columns of a name: two of them and all numbers fit 80.
_NAME_MAX = 26


class Sample(NamedTuple):
    """The server at one moment."""

    at_ms: float
    queues: dict[str, wire.QueueSummary]
    groups: dict[tuple[str, str], wire.ConsumerGroup]
    #: None: the token may not read them.
    operations: wire.OperationStats | None
    maintenance: wire.MaintenanceState | Switches


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def _name(value: Any) -> str:
    """Cut a long name, because people do not copy from a live screen."""
    return tables.cut(cell(value), _NAME_MAX)


_QUEUES = [
    Column("queue", "QUEUE", _name),
    Column("partitions", "PARTITIONS", rank=1),
    Column("messages", "MESSAGES", rank=2),
    Column("pending", "PENDING"),
    Column("leased", "LEASED"),
    Column("pushedPerSecond", "PUSHED/S", _rate),
    Column("completedPerSecond", "DONE/S", _rate),
]
_GROUPS = [
    Column("group", "GROUP", _name),
    Column("queue", "QUEUE", _name),
    Column("lag", "LAG"),
    Column("oldestSeconds", "AGE", age),
    Column("consumedPerSecond", "READ/S", _rate, rank=1),
    Column("state", "STATE"),
]


def top(
    session: Session,
    interval: Annotated[
        float, typer.Option(min=0.2, max=60, help="Seconds between two refreshes.")
    ] = 2.0,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, help="Show at most this many queues and groups.")
    ] = 20,
    once: Annotated[
        bool, typer.Option("--once", help="Sample twice, print the result and exit.")
    ] = False,
) -> None:
    """Watch queues, rates, lag and leases. The key q or Ctrl-C ends it.

    The busiest come first, as many as the screen has room for. Rates are differences between two
    samples.

    Example: queen top --once --interval 0.5
    """
    if once or not sys.stdout.isatty() or not session.out.is_human:
        before = take(session)
        threading.Event().wait(interval)
        _print(session, view(before, take(session)), lines)
        return
    try:
        _watch(session, interval, lines)
    except KeyboardInterrupt:
        return


def _watch(session: Session, interval: float, lines: int) -> None:
    from rich.live import Live
    from rich.text import Text

    before = take(session)
    terminal = console()
    with (
        Keys() as keys,
        Live(Text("looking ..."), console=terminal, screen=True, auto_refresh=False) as live,
    ):
        while keys.wait(interval) not in ("q", "Q"):
            try:
                now = take(session)
            except QueenError as error:
                live.update(Text(f"{error}\n\nRetrying. Press q to quit."), refresh=True)
                continue
            shown = view(before, now)
            live.update(_screen(session, shown, lines, terminal.height), refresh=True)
            before = now


def take(session: Session) -> Sample:
    """Take one sample."""
    admin = session.queen.admin
    queues = admin.list_queues().queues
    groups = admin.list_consumer_groups()
    return Sample(
        clock.now_ms(),
        {queue.name: queue for queue in queues},
        {(group.name, group.queue_name): group for group in groups},
        session.read_if_allowed(admin.get_operation_stats),
        read_maintenance(session),
    )


def view(before: Sample, now: Sample) -> dict[str, Any]:
    """Build the screen from two samples. Pure."""
    seconds = max(now.at_ms - before.at_ms, 1) / 1000
    queues = [_queue(one, before.queues.get(name), seconds) for name, one in now.queues.items()]
    pushed = {one["queue"]: one["pushedPerSecond"] for one in queues}
    groups = [
        _group(one, before.groups.get(key), seconds, pushed.get(key[1]))
        for key, one in now.groups.items()
    ]
    queues.sort(key=lambda one: (-(one["pushedPerSecond"] or 0), -one["pending"], one["queue"]))
    groups.sort(key=lambda one: (-one["lag"], one["group"], one["queue"]))
    totals = ("messages", "pending", "leased")
    return {
        "totals": {
            **{name: sum(one[name] for one in queues) for name in totals},
            "pushedPerSecond": sum(one["pushedPerSecond"] or 0 for one in queues),
            "operationsWaiting": now.operations.depth if now.operations else None,
            "pressure": now.operations.pressure if now.operations else None,
            "pushesOnDisk": now.maintenance.buffered_messages,
            "isPushPaused": now.maintenance.maintenance_mode,
            "isPopPaused": now.maintenance.pop_maintenance_mode,
        },
        "queues": queues,
        "groups": groups,
    }


def _queue(
    now: wire.QueueSummary, before: wire.QueueSummary | None, seconds: float
) -> dict[str, Any]:
    counts = now.messages
    old = before.messages if before is not None else None
    return {
        "queue": now.name,
        "partitions": now.partitions,
        "messages": counts.total,
        "pending": counts.pending,
        "leased": counts.processing,
        "pushedPerSecond": _growth(counts.total, None if old is None else old.total, seconds),
        "completedPerSecond": _growth(_done(counts), None if old is None else _done(old), seconds),
    }


def _done(counts: wire.MessageCounts) -> int:
    return counts.total - counts.pending - counts.processing


def _group(
    now: wire.ConsumerGroup,
    before: wire.ConsumerGroup | None,
    seconds: float,
    pushed: float | None,
) -> dict[str, Any]:
    read = None
    if before is not None and pushed is not None:
        # What was pushed and does not lag more has been read.
        read = max(0.0, pushed - (now.total_lag - before.total_lag) / seconds)
    return {
        "group": now.name,
        "queue": now.queue_name,
        "lag": now.total_lag,
        "oldestSeconds": now.max_time_lag,
        "consumedPerSecond": read,
        "state": now.state,
    }


def _growth(now: int, before: int | None, seconds: float) -> float | None:
    """Return the growth per second, or None if the count shrank, as after clearing a queue."""
    return None if before is None or now < before else (now - before) / seconds


def _headline(session: Session, shown: Mapping[str, Any]) -> list[str]:
    totals = shown["totals"]
    parts = [
        session.server.url,
        f"{len(shown['queues'])} queues",
        f"{totals['messages']} messages",
        f"{totals['pending']} pending",
        f"{totals['leased']} leased",
        f"{_rate(totals['pushedPerSecond'])} pushed/s",
    ]
    waiting, pressure = totals["operationsWaiting"], totals["pressure"]
    if waiting or (pressure or 0) >= 0.5:
        parts.append(f"{waiting} operations wait, pressure {pressure:.2f}")
    if totals["pushesOnDisk"]:
        parts.append(f"{totals['pushesOnDisk']} pushes on disk")
    parts += ["PUSHES HELD BACK"] if totals["isPushPaused"] else []
    parts += ["POPS PAUSED"] if totals["isPopPaused"] else []
    return tables.fold_text("  ".join(parts), tables.terminal_width())


def _print(session: Session, shown: dict[str, Any], lines: int) -> None:
    if not session.out.is_human:
        session.out.value(shown)
        return
    print_lines(tables.Line(one) for one in _headline(session, shown))
    print()
    print_table(shown["queues"][:lines], _QUEUES)
    print()
    print_table(shown["groups"][:lines], _GROUPS)


def share_lines(room: int, queues: int, groups: int) -> tuple[int, int]:
    """Return how many queues and groups to show in so many lines: half each, and what one leaves
    over.
    """
    half = room // 2
    for_groups = min(groups, max(half, room - queues))
    return min(queues, room - for_groups), for_groups


def _screen(session: Session, shown: Mapping[str, Any], lines: int, height: int) -> RenderableType:
    from rich.console import Group

    width = tables.terminal_width()
    head = [tables.Line(one) for one in _headline(session, shown)]
    queues, groups = shown["queues"][:lines], shown["groups"][:lines]
    # Beside the rows: two lines of titles, two empty ones, and the keys.
    for_queues, for_groups = share_lines(height - len(head) - 5, len(queues), len(groups))
    return Group(
        *(
            style_line(line)
            for line in [
                *head,
                tables.Line(""),
                *tables.lay_out(queues[:for_queues], _QUEUES, width=width),
                tables.Line(""),
                *tables.lay_out(groups[:for_groups], _GROUPS, width=width),
                tables.Line("", "q quits"),
            ][:height]
        )
    )
