"""`queen db ...`: the database behind the broker."""

from __future__ import annotations

from pathlib import Path

import typer

from queenmq import settings
from queenmq.errors import SettingsError

app = typer.Typer(help="The database behind the broker.", no_args_is_help=True)


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
