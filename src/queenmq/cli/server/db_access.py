"""`queen db roles` and `queen db create-token`: access that needs the database, not a broker."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from queenmq.cli.access.tokens import (
    Expires,
    Name,
    OfRole,
    Queues,
    RoleName,
    Subject,
    Verbs,
    days_of,
    show_once,
)
from queenmq.cli.display.output import Column, Output
from queenmq.cli.server.database_url import open_database
from queenmq.cli.session import command

_DATABASE_URL = typer.Option(None, help="The PostgreSQL to change.")
_DATA_DIR = typer.Option(
    None, help="Or the data directory of `queen serve`.", show_default="as for serve"
)
_COLUMNS = [Column("role", "ROLE"), Column("purpose", "PURPOSE", is_text=True)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app)(roles)
    command(app, "create-token")(create_token)


def roles(
    out: Output,
    prefix: Annotated[str, typer.Option(help="What the names begin with.")] = "queen_",
    database_url: str | None = _DATABASE_URL,
    data_dir: str | None = _DATA_DIR,
) -> None:
    """Create roles for brokers, producers, readers and operators, each with what it needs.

    Run it as a superuser, or as a role with CREATEROLE that owns the schema. They have no
    password yet: give each its own with ALTER ROLE. Run again, it grants what is missing.

    Example: queen db roles --database-url "$(queen db url)"
    """
    from queenmq.storage.schema.roles import PARTS, make_roles

    with open_database(database_url, data_dir) as url:
        names = asyncio.run(make_roles(url, prefix))
    rows = [
        {"role": name, "purpose": purpose}
        for name, purpose in zip(names, PARTS.values(), strict=True)
    ]
    out.rows(rows, _COLUMNS)


def create_token(
    out: Output,
    name: Name,
    role: OfRole = RoleName.READ_ONLY,
    queues: Queues = None,
    verbs: Verbs = None,
    expires_in: Expires = None,
    subject: Subject = None,
    database_url: str | None = _DATABASE_URL,
    data_dir: str | None = _DATA_DIR,
) -> None:
    """Make an API token directly in the database: the first one, or when all are lost.

    Example: queen db create-token operator --role admin --data-dir ./queen-data
    """
    from queenmq import wire
    from queenmq.auth.identity import Kind
    from queenmq.auth.tokens import make_token
    from queenmq.server.routes.access.tokens import make_row, new_token_of
    from queenmq.storage.schema.first_token import store_token

    body = wire.TokenRequest(
        name,
        role.value,
        queues or None,
        [verb.value for verb in verbs] if verbs else None,
        subject,
        days_of(expires_in),
    )
    secret = make_token(Kind.TOKEN)
    made = make_row(body, secret, "queen db create-token")
    with open_database(database_url, data_dir) as url:
        row = asyncio.run(store_token(url, made, target=f"token {name}"))
    show_once(out, new_token_of(row, secret))
