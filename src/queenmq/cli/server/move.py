"""`queen db move`: the database, to another PostgreSQL."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from queenmq.cli.display.output import Column, Output
from queenmq.cli.exits import UsageProblem
from queenmq.cli.server.database_url import open_database
from queenmq.cli.session import command
from queenmq.clock import now_ms
from queenmq.errors import SettingsError

if TYPE_CHECKING:
    from queenmq.storage.moving.plan import Progress

#: Between two lines about the progress.
_PROGRESS_MS = 2_000
_COLUMNS = [
    Column("table", "TABLE"),
    Column("rows", "ROWS"),
    Column("checksum", "CHECKSUM", rank=1),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app)(move)


def move(
    out: Output,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="The PostgreSQL to move to.")],
    database_url: Annotated[str | None, typer.Option(help="The PostgreSQL to move from.")] = None,
    data_dir: Annotated[
        str | None,
        typer.Option(help="Or the data directory of `queen serve`.", show_default="as for serve"),
    ] = None,
) -> None:
    """Copy the whole database to another PostgreSQL, and compare both.

    Pauses all brokers: pushes are kept on disk, pops wait. If anything goes wrong, nothing is kept
    on the other side and the brokers go on. When it is done, they stay paused: stop them, and start
    them with --database-url on the new one, with the same data or spool directory.

    Example: queen db move --data-dir ./queen-data --to postgresql://queen@db.example/queen
    """
    import asyncio

    from queenmq.storage.connection.hosts import parse_url
    from queenmq.storage.moving.mover import move

    try:
        parse_url(to)
    except SettingsError as error:
        raise UsageProblem(f"--to cannot be used: {error}") from None
    with open_database(database_url, data_dir) as url:
        compared = asyncio.run(move(url, to, _Progress().tell))
    out.rows(
        (
            {"table": one.table, "rows": one.target.rows, "checksum": one.target.checksum}
            for one in compared
        ),
        _COLUMNS,
    )
    rows = sum(one.target.rows for one in compared)
    print(
        f"moved {rows} rows in {len(compared)} tables, all compared; the old database stays paused:"
        " start the brokers with --database-url on the new one",
        file=sys.stderr,
    )


class _Progress:
    """Says on standard error how far the move has come."""

    def __init__(self) -> None:
        self._next_ms = now_ms() + _PROGRESS_MS

    def tell(self, told: Progress) -> None:
        if now_ms() < self._next_ms:
            return
        self._next_ms = now_ms() + _PROGRESS_MS
        where = f" {told.table} ({told.tables_done} of {told.tables} tables)" if told.table else ""
        size = f", {told.bytes_copied / 1e6:.1f} MB" if told.bytes_copied else ""
        print(f"... {told.phase}{where}{size}", file=sys.stderr, flush=True)
