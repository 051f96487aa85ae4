"""Owns what all commands that talk to a server share: their options, the client, questions."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import typer

from queenmq.cli import contexts
from queenmq.cli.contexts import Server
from queenmq.cli.display.output import SHAPES, Output, Shape, parse_shape
from queenmq.cli.display.safe import printable
from queenmq.cli.exits import UsageProblem
from queenmq.cli.messages.verbatim import Verbatim
from queenmq.cli.server.declaring import Command, declare, parameter

if TYPE_CHECKING:
    from queenmq.client.options import Options
    from queenmq.client.sync.client import SyncQueen

T = TypeVar("T")

#: The status of an answer to a token with too few rights.
FORBIDDEN = 403
_PANEL = "Server and output"

_OUTPUT = Annotated[
    Shape,
    typer.Option(
        "--output",
        "-o",
        help=f"How to print results: {SHAPES}.",
        parser=parse_shape,
        metavar="FORMAT",
        show_default="table",
        rich_help_panel=_PANEL,
    ),
]
_SERVER = {
    "url": Annotated[
        str | None,
        typer.Option(
            help="The server's URL.",
            envvar="QUEEN_URL",
            show_default=contexts.DEFAULT_URL,
            rich_help_panel=_PANEL,
        ),
    ],
    "token": Annotated[
        str | None,
        typer.Option(help="The server's token.", envvar="QUEEN_TOKEN", rich_help_panel=_PANEL),
    ],
    "token_file": Annotated[
        str | None,
        typer.Option(
            help="A file with the token.", envvar="QUEEN_TOKEN_FILE", rich_help_panel=_PANEL
        ),
    ],
    "ca_file": Annotated[
        str | None,
        typer.Option(
            help="PEM file with the authorities of an https server.",
            envvar="QUEEN_CA_FILE",
            rich_help_panel=_PANEL,
        ),
    ],
    "cert_file": Annotated[
        str | None,
        typer.Option(
            help="PEM file with the client certificate.",
            envvar="QUEEN_CERT_FILE",
            rich_help_panel=_PANEL,
        ),
    ],
    "key_file": Annotated[
        str | None,
        typer.Option(help="Its key.", envvar="QUEEN_KEY_FILE", rich_help_panel=_PANEL),
    ],
    "context": Annotated[
        str | None,
        typer.Option(
            help="A server by its name; see queen context.",
            envvar="QUEEN_CONTEXT",
            rich_help_panel=_PANEL,
        ),
    ],
}


class Session:
    """A command at work: the client, opened when it is needed, and the output."""

    def __init__(self, server: Server, out: Output) -> None:
        self.server = server
        self.out = out
        self._queen: SyncQueen | None = None

    @property
    def queen(self) -> SyncQueen:
        return self.open()

    def open(self, **options: Any) -> SyncQueen:
        """Return the client; options count the first time."""
        if self._queen is None:
            from queenmq.client.sync.client import SyncQueen

            options = {"json": Verbatim(), **self.options(), **options}
            try:
                self._queen = SyncQueen(self.server.url, **options)
            except ValueError as error:
                # A URL or a file that cannot be used.
                raise UsageProblem(str(error)) from None
        return self._queen

    def options(self) -> Options:
        """Return the client's options, for commands that make their own."""
        server = self.server
        given: Options = {}
        if server.token_file is not None:
            given["token_file"] = server.token_file
        elif server.token is not None:
            given["bearer_token"] = server.token
        if server.ca_file is not None:
            given["ca_file"] = server.ca_file
        if server.cert_file is not None:
            given["cert_file"] = server.cert_file
        if server.key_file is not None:
            given["key_file"] = server.key_file
        return given

    def read_if_allowed(self, read: Callable[[], T]) -> T | None:
        """Return what a call reads, or None if the token may not read it."""
        from queenmq.client.errors import NotAllowed

        try:
            return read()
        except NotAllowed as error:
            # Without a valid token nothing else would be answered either.
            if error.status != FORBIDDEN:
                raise
            return None

    def require_queue(self, name: str) -> None:
        """Raise if there is no queue of this name, because an empty result may be a typo."""
        self.queen.admin.get_queue_detail(name, limit=1)

    def may_delete(self, *verbs: str) -> bool:
        """Return whether the token may delete queues and groups, and has these verbs as well."""
        me = self.queen.admin.get_me()
        return me.role == "admin" and (me.verbs is None or {"admin", *verbs} <= {*me.verbs})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._queen is not None:
            self._queen.close()


def command(app: typer.Typer, name: str | None = None) -> Callable[[Command], Command]:
    """Make a function a command with the shared options.

    Its first parameter is a `session`, or `out` alone if it needs no server.
    """

    def register(function: Command) -> Command:
        app.command(name=name)(_with_options(function))
        return function

    return register


def _with_options(function: Command) -> Command:
    first, *own = inspect.signature(function, eval_str=True).parameters.values()
    has_server = first.name == "session"

    def run(ctx: typer.Context, **values: Any) -> None:
        out = Output(values.pop("output"))
        if not has_server:
            function(out, **values)
            return
        given = contexts.given_by(ctx, **{key: values.pop(key) for key in _SERVER})
        with Session(contexts.choose_server(given, contexts.config_path()), out) as session:
            function(session, **values)

    shared: dict[str, tuple[Any, Any]] = {"output": (_OUTPUT, Shape())}
    if has_server:
        shared |= {key: (kind, None) for key, kind in _SERVER.items()}
    parameters = [
        parameter("ctx", typer.Context),
        *own,
        *(parameter(key, kind, default) for key, (kind, default) in shared.items()),
    ]
    return declare(run, parameters, like=function)


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is lost; without a terminal, `--yes` is needed."""
    if yes:
        return
    question = printable(question)
    if not sys.stdin.isatty():
        raise UsageProblem(f"{question} Refused without confirmation; pass --yes.")
    try:
        is_wanted = typer.confirm(question, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None
    if not is_wanted:
        raise typer.Abort


def complete_queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return names of queues for the shell, or none if the server does not answer at once."""
    try:
        given = contexts.given_by(ctx, **{key: ctx.params.get(key) for key in _SERVER})
        server = contexts.choose_server(given, contexts.config_path())
        with Session(server, Output()) as session:
            queen = session.open(timeout_millis=1000, retry_attempts=1)
            found = queen.admin.list_queues(search=incomplete or None, limit=200)
    except Exception:
        # An error here would end up in the middle of the line that is being typed.
        return []
    return [queue.name for queue in found.queues if queue.name.startswith(incomplete)]


QueueName = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The queue.", autocompletion=complete_queues)
]
