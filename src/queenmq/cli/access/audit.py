"""`queen audit`: what administrators did."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from queenmq.cli.display.output import Column, cell
from queenmq.cli.display.times import when
from queenmq.cli.session import Session

_COLUMNS = [
    Column("at", "AT", when),
    Column("who", "WHO", lambda who: cell(who) or "anonymous"),
    Column("action", "ACTION"),
    Column("status", "STATUS"),
    Column("address", "FROM", rank=1),
    Column("how", "HOW", rank=3),
    Column("details", "DETAILS", rank=2),
    Column("target", "TARGET", is_text=True),
]


def audit(
    session: Session,
    who: Annotated[str | None, typer.Option(help="Only entries of this subject.")] = None,
    action: Annotated[
        str | None, typer.Option(help="Only this action, or all of a kind: queue, token.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="From this time on, in ISO 8601.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Up to this time.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Print at most this many.")] = 100,
) -> None:
    """List administrative actions, newest first: who, what, from where, when.

    Example: queen audit --action queue --limit 20
    """
    query: dict[str, Any] = {"who": who, "action": action, "from": since, "to": until}
    found = session.queen.admin.get_audit(limit=limit, **query)
    session.out.rows(found["entries"], _COLUMNS)
