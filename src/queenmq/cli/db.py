"""`queen db ...`: the database behind the broker."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from queenmq import settings
from queenmq.cli.database_url import find_url
from queenmq.clock import now_ms
from queenmq.errors import QueenError, SettingsError

if TYPE_CHECKING:
    from queenmq.storage.lookup_care import Finding, Resynced

app = typer.Typer(help="The database behind the broker.", no_args_is_help=True)

#: Between two lines about the progress of a long run.
_PROGRESS_MS = 2_000

_DATABASE_URL = typer.Option(None, help="The PostgreSQL to look at.")
_DATA_DIR = typer.Option(
    None, help="Or the data directory of `queen serve`.", show_default="as for serve"
)


@app.command()
def url(
    data_dir: str | None = typer.Option(
        None, help="Data directory of `queen serve`.", show_default="as for serve"
    ),
    socket: bool = typer.Option(False, help="The form that uses the private socket, not TCP."),
) -> None:
    """Print the URL of the embedded PostgreSQL, for a second broker, psql or Spark.

    Example: psql "$(queen db url --data-dir ./queen-data)"
    """
    from queenmq.storage.embedded import read_url

    loaded = settings.load({"data_dir": data_dir})
    print(read_url(Path(loaded.data_dir), socket=socket))


@app.command()
def migrate(
    database_url: str | None = typer.Option(None, help="The PostgreSQL to bring up to date."),
) -> None:
    """Bring the schema of a database up to date, as every start of a broker does.

    Example: queen db migrate --database-url postgresql://localhost/queen
    """
    import asyncio

    from queenmq.storage import migrator

    url = settings.load({"database_url": database_url}).database_url
    if url is None:
        raise SettingsError("--database-url is required; or set QUEEN_DATABASE_URL")
    applied = asyncio.run(migrator.migrate(url))
    print("\n".join(applied) if applied else "nothing to do: the schema is up to date")


@app.command()
def check(
    database_url: str | None = _DATABASE_URL,
    data_dir: str | None = _DATA_DIR,
    as_json: bool = typer.Option(False, "--json", help="One JSON object instead of text."),
) -> None:
    """Look for rows that do not fit together; changes nothing and disturbs no broker.

    Exit code 0 when all is well, 1 when something was found, 2 when it could not look.

    Example: queen db check --data-dir ./queen-data
    """
    import asyncio

    from queenmq.storage import lookup_care

    try:
        findings = asyncio.run(lookup_care.check(find_url(database_url, data_dir)))
    except QueenError as error:
        print(f"queen: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    print(_as_json(findings) if as_json else _as_text(findings))
    if any(finding.total for finding in findings):
        raise typer.Exit(1)


@app.command(name="resync-lookup")
def resync_lookup(
    database_url: str | None = _DATABASE_URL, data_dir: str | None = _DATA_DIR
) -> None:
    """Repair the lookup rows of all partitions from their messages, beside running brokers.

    Exit code 1 when partitions were left out because other transactions hold them.

    Example: queen db resync-lookup --data-dir ./queen-data
    """
    import asyncio

    from queenmq.storage import lookup_care

    done = asyncio.run(lookup_care.resync(find_url(database_url, data_dir), _Progress().tell))
    print(
        f"looked at {done.looked_at} partitions:"
        f" {done.created} lookup rows created, {done.repaired} repaired"
    )
    if done.held:
        raise QueenError(
            f"{done.held} partitions were left out because other transactions hold them;"
            " run this again when those have ended"
        )


class _Progress:
    """Says on standard error how far a long run has come; a short one is silent."""

    def __init__(self) -> None:
        self._next_ms = now_ms() + _PROGRESS_MS

    def tell(self, done: Resynced) -> None:
        if now_ms() >= self._next_ms:
            self._next_ms = now_ms() + _PROGRESS_MS
            seen = done.looked_at + done.held
            print(f"... {seen} of {done.partitions} partitions", file=sys.stderr, flush=True)


def _as_text(findings: list[Finding]) -> str:
    from queenmq.storage.lookup_care import EXAMPLES_MAX

    lines = []
    for kind, total, examples in findings:
        lines.append(f"{kind.name}: {total} {kind.what}")
        lines += [f"    {example}" for example in examples]
        if total > len(examples) == EXAMPLES_MAX:
            lines.append("    ...")
    found = [finding.kind for finding in findings if finding.total]
    if not found:
        return "\n".join([*lines, "all is well"])
    names = [kind.name for kind in found if kind.is_resynced]
    if names:
        lines.append(f"queen db resync-lookup repairs {', '.join(names)}")
    return "\n".join(lines)


def _as_json(findings: list[Finding]) -> str:
    kinds = {
        kind.name: {
            "what": kind.what,
            "total": total,
            "examples": examples,
            "isResynced": kind.is_resynced,
        }
        for kind, total, examples in findings
    }
    return json.dumps({"isWell": not any(found.total for found in findings), "kinds": kinds})
