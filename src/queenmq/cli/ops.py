"""`queen ops ...`: pushes that wait in the operation queue, and what to do with failed ones."""

from __future__ import annotations

import json
from typing import Any

import typer

from queenmq.client.sync import SyncQueen

app = typer.Typer(help="Pushes that wait to be stored.", no_args_is_help=True)

_URL = typer.Option("http://127.0.0.1:6632", help="The broker to ask.", envvar="QUEEN_URL")
_JSON = typer.Option(False, "--json", help="The answer as JSON.")
_ID = typer.Argument(help="The operation's id.", metavar="ID")

_COLUMNS = ("id", "status", "queue", "partition", "seq", "itemCount", "retryCount", "error")


@app.command(name="list")
def list_(
    url: str = _URL,
    status: str | None = typer.Option(
        None, help="pending, processing, completed, failed or discarded."
    ),
    queue: str | None = typer.Option(None, help="Of this queue only."),
    limit: int = typer.Option(100, help="Most lines."),
    as_json: bool = _JSON,
) -> None:
    """List operations, newest first.

    Example: queen ops list --status failed
    """
    with SyncQueen(url) as queen:
        answer = queen.admin.list_operations(status=status, queue=queue, limit=limit)
    if as_json:
        print(json.dumps(answer, indent=2))
        return
    print_table(_COLUMNS, answer["operations"])
    print(f"{len(answer['operations'])} of {answer['total']}")


@app.command()
def show(operation_id: str = _ID, url: str = _URL) -> None:
    """Show one operation, with the result of each item once it is completed.

    Example: queen ops show 01a1e27d-ffeb-7ea9-b445-f3dcf83be995
    """
    with SyncQueen(url) as queen:
        print(json.dumps(queen.admin.get_operation(operation_id), indent=2))


@app.command()
def stats(url: str = _URL) -> None:
    """Show how many wait, how old they are and how fast they are run.

    Example: queen ops stats
    """
    with SyncQueen(url) as queen:
        print(json.dumps(queen.admin.get_operation_stats(), indent=2))


@app.command()
def retry(operation_id: str = _ID, url: str = _URL) -> None:
    """Let a failed operation run again.

    Example: queen ops retry 01a1e27d-ffeb-7ea9-b445-f3dcf83be995
    """
    with SyncQueen(url) as queen:
        _print_status(queen.admin.retry_operation(operation_id))


@app.command()
def discard(
    operation_id: str = _ID,
    url: str = _URL,
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
) -> None:
    """Drop a failed operation with the messages it would have pushed.

    Example: queen ops discard --yes 01a1e27d-ffeb-7ea9-b445-f3dcf83be995
    """
    if not yes:
        typer.confirm(f"Drop operation {operation_id} and its messages for good?", abort=True)
    with SyncQueen(url) as queen:
        _print_status(queen.admin.discard_operation(operation_id))


def _print_status(answer: Any) -> None:
    print(f"operation {answer['id']} is {answer['status']}")


def print_table(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """Columns as wide as they need to be."""
    lines = [columns, *([_text(row[name]) for name in columns] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def _text(value: Any) -> str:
    return "" if value is None else str(value).replace("\n", " ")
