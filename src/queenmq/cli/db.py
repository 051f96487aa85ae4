"""`queen db ...`: the database behind the broker."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(help="The database behind the broker.", no_args_is_help=True)


@app.command()
def url(
    data_dir: Path = typer.Option(Path("queen-data"), help="Data directory of `queen serve`."),
    socket: bool = typer.Option(False, help="The form that uses the private socket, not TCP."),
) -> None:
    """Print the URL of the embedded PostgreSQL, for a second broker, psql or Spark.

    Example: psql "$(queen db url --data-dir ./queen-data)"
    """
    from queenmq.storage.embedded import read_url

    print(read_url(data_dir, socket=socket))


@app.command()
def migrate(
    database_url: str = typer.Option(..., help="The PostgreSQL to bring up to date."),
) -> None:
    """Bring the schema of a database up to date, as every start of a broker does.

    Example: queen db migrate --database-url postgresql://localhost/queen
    """
    import asyncio

    from queenmq.storage import migrator

    applied = asyncio.run(migrator.migrate(database_url))
    print("\n".join(applied) if applied else "nothing to do: the schema is up to date")
