"""`queen lease extend` and `queen tx`: leases and transactions by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from queenmq.cli.display.output import Column, format_count
from queenmq.cli.exits import UsageProblem
from queenmq.cli.session import Session, command
from queenmq.errors import QueenError

app = typer.Typer(help="Leases: extend.", no_args_is_help=True)


@command(app)
def extend(
    session: Session,
    lease_id: Annotated[str, typer.Argument(metavar="LEASE_ID", help="The lease.")],
    seconds: Annotated[int, typer.Option(min=1, help="From now.")] = 60,
) -> None:
    """Extend a live lease, so that its messages are not redelivered meanwhile.

    Example: queen lease extend 019a2b3c-0000-7000-8000-000000000001 --seconds 300
    """
    answer = session.queen.admin.extend_lease(lease_id, seconds=seconds)
    columns = [Column("leaseId", "LEASE"), Column("expiresAt", "EXPIRES")]
    session.out.print_fields(answer, columns)


def tx(
    session: Session,
    file: Annotated[
        str, typer.Option("--file", "-f", help="JSON with operations; - is standard input.")
    ],
) -> None:
    """Run a transaction: all of its pushes and acks, or none.

    The file has the body of POST /api/v1/transaction: {"operations": [...]}, or the list alone.

    Example: queen tx -f transaction.json
    """
    answer = session.queen.admin.run_transaction(_read(file))
    if not answer.success:
        raise QueenError(f"Nothing was done: {answer.error}")
    session.out.done(f"committed {format_count(len(answer.results), 'operation')}", answer)


def _read(file: str) -> dict[str, Any]:
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        body = msgspec.json.decode(text)
    except OSError as error:
        raise UsageProblem(f"{file} cannot be read: {error.strerror}. Check the path.") from None
    except msgspec.DecodeError as error:
        raise UsageProblem(f"{file} is not JSON: {error}. Correct it.") from None
    body = {"operations": body} if isinstance(body, list) else body
    if not isinstance(body, dict) or not isinstance(body.get("operations"), list):
        raise UsageProblem(f'{file} has no "operations". Use {{"operations": [...]}}.')
    return body
