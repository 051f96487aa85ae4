"""The `queen` command. Each group of commands has its own module; server code is imported inside
them.
"""

from __future__ import annotations

import sys

import typer

from queenmq import __version__
from queenmq.cli import db, demo, ops, pipeline, serve
from queenmq.errors import QueenError

app = typer.Typer(
    help="Queen: a partitioned message queue on PostgreSQL.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
app.command(name="serve")(serve.serve)
app.command(name="demo")(demo.demo)
app.add_typer(db.app, name="db")
app.add_typer(ops.app, name="ops")
app.add_typer(pipeline.app, name="pipeline")


@app.callback(invoke_without_command=True)
def root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    """Handle what belongs to no command."""
    if version:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """Run a command; an error we know is one line on standard error and exit code 1."""
    try:
        app()
    except QueenError as error:
        print(f"queen: {error}", file=sys.stderr)
        sys.exit(1)
