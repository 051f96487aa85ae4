"""`queen tokens ...`: API tokens for programs."""

from __future__ import annotations

import enum
import sys
from typing import Annotated, Any

import typer

from queenmq.cli.display.columns import Row
from queenmq.cli.display.output import Column, Output, cell
from queenmq.cli.display.times import when
from queenmq.cli.exits import UsageProblem
from queenmq.cli.identifiers import check_id
from queenmq.cli.session import Session, Yes, command, confirm
from queenmq.durations import parse_seconds

app = typer.Typer(help="API tokens for programs.", no_args_is_help=True)


class RoleName(enum.StrEnum):
    """The role of a token."""

    READ_ONLY = "read-only"
    READ_WRITE = "read-write"
    ADMIN = "admin"


class VerbName(enum.StrEnum):
    """A verb of a limited token."""

    PUSH = "push"
    POP = "pop"
    ADMIN = "admin"


def _list(words: Any) -> str:
    return ", ".join(words) if words else "all"


_COLUMNS = [
    Column("id", "ID"),
    Column("name", "NAME"),
    Column("role", "ROLE"),
    Column("queues", "QUEUES", _list),
    Column("verbs", "VERBS", _list, rank=2),
    Column("state", "STATE"),
    Column("expiresAt", "EXPIRES", when, rank=1),
    Column("lastUsedAt", "LAST USED", when, rank=1),
    Column("shown", "BEGINS WITH", rank=3),
]

Name = Annotated[str, typer.Argument(metavar="NAME", help="What the token is for.")]
OfRole = Annotated[RoleName, typer.Option(help="The role.")]
Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", help="Limit it to queues of this name; * stands for any text."),
]
Verbs = Annotated[
    list[VerbName] | None, typer.Option("--verb", help="Limit it to this verb on its queues.")
]
Expires = Annotated[
    str | None, typer.Option("--expires-in", help="Let it expire after this time, such as 90d.")
]
Subject = Annotated[
    str | None, typer.Option(help="The producer that its messages carry.", show_default="NAME")
]


@command(app)
def create(
    session: Session,
    name: Name,
    role: OfRole = RoleName.READ_ONLY,
    queues: Queues = None,
    verbs: Verbs = None,
    expires_in: Expires = None,
    subject: Subject = None,
) -> None:
    """Create a token and print it. It is shown only once and stored as a hash.

    Example: queen tokens create billing --role read-write --queue 'billing.*' --expires-in 90d
    """
    made = session.queen.admin.create_token(
        name,
        role=role.value,
        queues=queues or None,
        verbs=[verb.value for verb in verbs] if verbs else None,
        expires_in_days=days_of(expires_in),
        subject=subject,
    )
    show_once(session.out, made)


@command(app, "list")
def list_(
    session: Session,
    sessions: Annotated[bool, typer.Option(help="Also list browser sessions.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Print at most this many.")] = 100,
) -> None:
    """List tokens, newest first, without the secrets, which are not stored.

    Example: queen tokens list
    """
    found = session.queen.admin.list_tokens(limit=limit, sessions=sessions or None)
    session.out.rows(found["tokens"], _COLUMNS)


@command(app)
def revoke(
    session: Session,
    token_id: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The token's id.",
            callback=check_id("a token", "queen tokens list"),
        ),
    ],
    yes: Yes = False,
) -> None:
    """Revoke a token. All brokers refuse it within seconds.

    Example: queen tokens revoke --yes 0d8f6c52-1c2b-4b7e-9a55-3f6d1d0f7e11
    """
    confirm(f"Revoke token {token_id} on {session.server.url}?", yes=yes)
    ended = session.queen.admin.revoke_token(token_id)
    session.out.done(f"token {ended['name']} is revoked", ended)


def days_of(text: str | None) -> int | None:
    """Return the days of a length of time; the server counts in whole ones."""
    if text is None:
        return None
    seconds = parse_seconds(text)
    if seconds is None or seconds < 86_400:
        raise UsageProblem(f"--expires-in {text!r} must be a day or more; use for example 90d")
    return int(seconds // 86_400)


def show_once(out: Output, made: Row) -> None:
    """Print a new token: alone on standard output, so that a script can take it."""
    if out.is_human:
        if sys.stdout.isatty():
            out.note(
                f"token {cell(made['name'])} ({made['role']}) is shown only once; store it safely"
            )
        out.done(made["token"], made)
    else:
        out.value(made)
