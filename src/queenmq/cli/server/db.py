"""`queen db ...`: the database behind the broker."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from queenmq.cli.display.output import Column, Output
from queenmq.cli.display.safe import say
from queenmq.cli.display.times import age, when
from queenmq.cli.exits import FOUND, UsageProblem
from queenmq.cli.server import db_access, db_reencrypt, move
from queenmq.cli.server.database_url import (
    embedded_url,
    explaining_rights,
    load_settings,
    open_database,
)
from queenmq.cli.session import command
from queenmq.clock import now_ms
from queenmq.errors import QueenError

if TYPE_CHECKING:
    from queenmq.storage.schema.lookup_care import Finding, Resynced

app = typer.Typer(help="The database behind the broker.", no_args_is_help=True)
db_access.register(app)
move.register(app)
db_reencrypt.register(app)

#: Between two lines about the progress of a long run.
_PROGRESS_MS = 2_000

_DATABASE_URL = typer.Option(None, help="The PostgreSQL to inspect.")
_DATA_DIR = typer.Option(
    None, help="Or the data directory of `queen serve`.", show_default="as for serve"
)


@app.command()
def url(
    data_dir: str | None = typer.Option(
        None, help="Data directory of `queen serve`.", show_default="as for serve"
    ),
    socket: bool = typer.Option(False, help="Print the URL of the private socket instead of TCP."),
) -> None:
    """Print the URL of the embedded PostgreSQL, for a second broker, psql or Spark.

    Example: queen db url --data-dir ./queen-data
    """
    loaded = load_settings({"data_dir": data_dir})
    print(embedded_url(loaded.data_dir, socket=socket))


@app.command()
def migrate(
    database_url: str | None = typer.Option(None, help="The PostgreSQL to bring up to date."),
) -> None:
    """Bring the schema of a database up to date, as every start of a broker does.

    Example: queen db migrate --database-url "$(queen db url)"
    """
    import asyncio

    from queenmq.storage.schema import migrator

    applied = asyncio.run(migrator.migrate(_url_to_migrate(database_url)))
    print("\n".join(applied) if applied else "nothing to do: the schema is up to date")


@app.command("finish-upgrade")
def finish_upgrade(
    database_url: str | None = typer.Option(None, help="The PostgreSQL that was upgraded."),
) -> None:
    """End an upgrade: remove what only brokers of the release before need.

    Run it when all brokers are of the new release. Older ones do not start any more then.

    Example: queen db finish-upgrade --database-url "$(queen db url)"
    """
    import asyncio

    from queenmq.storage.schema import migrator

    done = asyncio.run(migrator.finish_upgrade(_url_to_migrate(database_url)))
    print("\n".join([*done, "the upgrade is finished"]))


def _url_to_migrate(database_url: str | None) -> str:
    url = load_settings({"database_url": database_url}).database_url
    if url is None:
        raise UsageProblem("no database: pass --database-url, or set QUEEN_DATABASE_URL")
    return url


@command(app)
def check(
    out: Output, database_url: str | None = _DATABASE_URL, data_dir: str | None = _DATA_DIR
) -> None:
    """Look for rows that do not fit together; changes nothing and disturbs no broker.

    Exit code 0 when all is well, 6 when something was found, any other when it could not look.

    Example: queen db check --data-dir ./queen-data
    """
    import asyncio

    from queenmq.storage.schema import lookup_care

    with open_database(database_url, data_dir) as url, explaining_rights(url):
        findings = asyncio.run(lookup_care.check(url))
    if out.is_human:
        say(_as_text(findings))
    else:
        out.value(_as_value(findings))
    if any(finding.total for finding in findings):
        raise typer.Exit(FOUND)


@command(app, "vacuum-report")
def vacuum_report(
    out: Output, database_url: str | None = _DATABASE_URL, data_dir: str | None = _DATA_DIR
) -> None:
    """Show dead rows, autovacuum and sizes of the tables, and what keeps dead rows alive.

    Example: queen db vacuum-report --data-dir ./queen-data
    """
    import asyncio

    from queenmq.storage.schema.vacuum_report import vacuum_report

    with open_database(database_url, data_dir) as url, explaining_rights(url):
        found = asyncio.run(vacuum_report(url))
    if not out.is_human:
        out.value(found)
        return
    out.rows(found["tables"], _VACUUM_COLUMNS)
    if estimates := [table["table"] for table in found["tables"] if table["isEstimate"]]:
        say(
            "PostgreSQL lost its counters, as in a crash: ROWS are estimates of the last vacuum or"
            f" analyze for {', '.join(estimates)}"
        )
    if not found["server"]["isAutovacuumOn"]:
        print("autovacuum is off; turn it on, or dead rows are never removed")
    for holder in found["holders"]:
        since = f", open for {age(holder['seconds'])}" if holder["seconds"] is not None else ""
        say(f"{holder['what']} keeps dead rows of {holder['xidAge']} transactions{since}")


@app.command(name="resync-lookup")
def resync_lookup(
    database_url: str | None = _DATABASE_URL, data_dir: str | None = _DATA_DIR
) -> None:
    """Repair the lookup rows of all partitions from their messages, beside running brokers.

    Exit code 1 when partitions were left out because other transactions hold them.

    Example: queen db resync-lookup --data-dir ./queen-data
    """
    import asyncio

    from queenmq.storage.schema import lookup_care

    with open_database(database_url, data_dir) as url, explaining_rights(url):
        done = asyncio.run(lookup_care.resync(url, _Progress().show))
    print(
        f"checked {done.checked} partitions:"
        f" {done.created} lookup rows created, {done.repaired} repaired"
    )
    if done.held:
        raise QueenError(
            f"{done.held} partitions were skipped because other transactions hold them;"
            " run this again when those have ended"
        )


class _Progress:
    """Says on standard error how far a long run has come; a short one is silent."""

    def __init__(self) -> None:
        self._next_ms = now_ms() + _PROGRESS_MS

    def show(self, done: Resynced) -> None:
        if now_ms() >= self._next_ms:
            self._next_ms = now_ms() + _PROGRESS_MS
            seen = done.checked + done.held
            print(f"... {seen} of {done.partitions} partitions", file=sys.stderr, flush=True)


def _as_text(findings: list[Finding]) -> str:
    from queenmq.storage.schema.lookup_care import EXAMPLES_MAX

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


def _as_value(findings: list[Finding]) -> dict[str, object]:
    kinds = {
        kind.name: {
            "what": kind.what,
            "total": total,
            "examples": examples,
            "isResynced": kind.is_resynced,
        }
        for kind, total, examples in findings
    }
    return {"isWell": not any(found.total for found in findings), "kinds": kinds}


def _bytes(count: int) -> str:
    """Return a size for people."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"


_VACUUM_COLUMNS = [
    Column("table", "TABLE"),
    Column("liveRows", "ROWS"),
    Column("deadRows", "DEAD"),
    Column("vacuumAtDeadRows", "VACUUM AT", rank=2),
    Column("vacuums", "VACUUMS", rank=3),
    Column("lastVacuum", "LAST VACUUM", when, rank=1),
    Column("tableBytes", "TABLE SIZE", _bytes),
    Column("indexBytes", "INDEXES", _bytes),
    Column("updates", "UPDATES", rank=5),
    Column("hotUpdates", "HOT", rank=5),
    Column("xidAge", "XID AGE", rank=4),
]
