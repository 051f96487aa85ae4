"""`queen maintenance ...`: pushes kept on disk, pops paused."""

from __future__ import annotations

from typing import Annotated

import typer

from queenmq.cli.display.output import Column
from queenmq.cli.session import Session, command

app = typer.Typer(help="Hold pushes back, or pause pops.", no_args_is_help=True)

Pops = Annotated[bool, typer.Option("--pops", help="Pause pops instead of holding pushes back.")]

_COLUMNS = [
    Column("maintenanceMode", "PUSHES HELD BACK"),
    Column("popMaintenanceMode", "POPS PAUSED"),
    Column("bufferedMessages", "PUSHES ON DISK"),
    Column("bufferHealthy", "SET ASIDE", lambda is_healthy: "no" if is_healthy else "yes"),
    Column("bufferStats.dbHealthy", "DATABASE ANSWERS"),
]


@command(app)
def show(session: Session) -> None:
    """Show what is held back, and the pushes on this broker's disk.

    Example: queen maintenance show
    """
    session.out.print_fields(session.queen.admin.get_maintenance_mode(), _COLUMNS)


@command(app)
def on(session: Session, pops: Pops = False) -> None:
    """Make all brokers keep pushes on disk, or with --pops pause all pops.

    Example: queen maintenance on --pops
    """
    _switch(session, pops, enabled=True)


@command(app)
def off(session: Session, pops: Pops = False) -> None:
    """End maintenance: store the kept pushes, or with --pops serve pops again.

    Example: queen maintenance off --pops
    """
    _switch(session, pops, enabled=False)


def _switch(session: Session, pops: bool, *, enabled: bool) -> None:
    admin = session.queen.admin
    if pops:
        text = "pops are paused" if enabled else "pops are served"
        session.out.done(text, admin.set_pop_maintenance_mode(enabled))
    else:
        text = "pushes are kept on disk" if enabled else "pushes are stored"
        session.out.done(text, admin.set_maintenance_mode(enabled))
