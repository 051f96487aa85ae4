"""`queen context ...`: names for servers and their tokens."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from queenmq.cli import contexts, keyrings
from queenmq.cli.contexts import Server
from queenmq.cli.display.output import Column, Output
from queenmq.cli.exits import UsageProblem
from queenmq.cli.session import Yes, command, confirm

app = typer.Typer(help="Names for servers and their tokens.", no_args_is_help=True)


def _complete(incomplete: str) -> list[str]:
    try:
        known = contexts.load(contexts.config_path()).contexts
    except UsageProblem:
        # An error here would end up in the middle of the line that is being typed.
        return []
    return [name for name in known if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(metavar="NAME", help="The context.", autocompletion=_complete)]

_COLUMNS = [
    Column("isCurrent", "", lambda value: "*" if value else ""),
    Column("name", "NAME"),
    Column("url", "URL"),
    Column("hasToken", "TOKEN"),
]


@command(app, "list")
def list_(out: Output) -> None:
    """List contexts; the star marks the one in use.

    Example: queen context list
    """
    path = contexts.config_path()
    found = contexts.load(path)
    if contexts.is_readable_by_others(path):
        out.note(f"others can read {path}, which has tokens; run chmod 600 on it")
    rows = [_row(found, name) for name in sorted(found.contexts)]
    out.rows(rows, _COLUMNS)


@command(app, "set")
def set_(
    out: Output,
    name: Name,
    url: Annotated[str | None, typer.Option(help="The server.")] = None,
    token: Annotated[
        str | None, typer.Option(help="The server's token; - reads it from standard input.")
    ] = None,
    token_file: Annotated[
        str | None, typer.Option(help="A file with the token, read when it is needed.")
    ] = None,
    ca_file: Annotated[
        str | None, typer.Option(help="PEM file with the authorities of an https server.")
    ] = None,
    cert_file: Annotated[
        str | None, typer.Option(help="PEM file with the client certificate.")
    ] = None,
    key_file: Annotated[str | None, typer.Option(help="Its key.")] = None,
) -> None:
    """Add a context, or change one. The first one is used from then on.

    A token is kept in the system's keyring if the package keyring is installed and one is
    open, otherwise in the file of contexts, which only you can read.

    Example: queen context set local --url http://127.0.0.1:6632
    """
    path = contexts.config_path()
    found = contexts.load(path)
    if token == "-":  # noqa: S105 - stands for standard input
        token = sys.stdin.readline().strip()
    before = found.contexts.get(name)
    if before is None and url is None:
        raise UsageProblem(f"context {name!r} does not exist yet; pass --url to create it")
    if token is not None and token_file is not None:
        raise UsageProblem("--token and --token-file exclude each other; pass one of them")
    server = contexts.check_server(name, before or Server(url or ""))
    if url is not None:
        server = contexts.check_server(name, msgspec.structs.replace(server, url=url))
    tls = {"ca_file": ca_file, "cert_file": cert_file, "key_file": key_file}
    given = {option: file for option, file in tls.items() if file is not None}
    server = contexts.check_server(name, msgspec.structs.replace(server, **given))
    if token is not None or token_file is not None:
        replaced = msgspec.structs.replace(
            server, token=token, token_file=token_file, keyring=False
        )
        server = contexts.check_server(name, replaced)
        if server.token is not None and keyrings.store(name, server.token):
            server = msgspec.structs.replace(server, token=None, keyring=True)
    found.contexts[name] = server
    found.current = found.current or name
    contexts.save(path, found)
    out.done(f"context {name} is {server.url}", _row(found, name))


@command(app)
def use(out: Output, name: Name) -> None:
    """Use a context from now on.

    Example: queen context use local
    """
    path = contexts.config_path()
    found = contexts.load(path)
    found.find_server(name)
    found.current = name
    contexts.save(path, found)
    out.done(f"using {name}, {found.contexts[name].url}", _row(found, name))


@command(app)
def show(
    out: Output,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The context.")] = None,
    with_token: Annotated[bool, typer.Option(help="Also print the token.")] = False,
) -> None:
    """Show a context, by default the one in use.

    Example: queen context show
    """
    found = contexts.load(contexts.config_path())
    name = name or found.current
    if name is None:
        out.done(f"no context is in use; the server is {contexts.DEFAULT_URL}", None)
        return
    server = found.find_server(name)
    secret = keyrings.read(name) if with_token and server.keyring else server.token
    token = {"token": secret} if with_token else {}
    columns = [*_COLUMNS[1:], Column("token", "SECRET")] if with_token else _COLUMNS[1:]
    out.print_fields({**_row(found, name), **token}, columns)


@command(app)
def delete(out: Output, name: Name, yes: Yes = False) -> None:
    """Delete a context and its token.

    Example: queen context delete --yes local
    """
    path = contexts.config_path()
    found = contexts.load(path)
    found.find_server(name)
    confirm(f"Delete context {name} and its token?", yes=yes)
    row = _row(found, name)
    if found.contexts[name].keyring:
        keyrings.forget(name)
    del found.contexts[name]
    if found.current == name:
        found.current = None
    contexts.save(path, found)
    out.done(f"context {name} is deleted", row)


def _row(found: contexts.Contexts, name: str) -> dict[str, object]:
    server = found.find_server(name)
    return {
        "name": name,
        "url": server.url,
        "hasToken": server.keyring or (server.token or server.token_file) is not None,
        "isCurrent": found.current == name,
    }
