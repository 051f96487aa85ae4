"""The `queen` command: it finds what a command line names, runs it, and says what went wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from queenmq import __version__
from queenmq.cli.commands import register_all
from queenmq.cli.display.help import prepare, wrong_number
from queenmq.cli.display.safe import say
from queenmq.cli.exits import ERROR, INTERRUPTED, OK, PIPE_CLOSED, USAGE, code_of, line_of
from queenmq.errors import QueenError


def make_app(arguments: Sequence[str] = ()) -> typer.Typer:
    """Return the commands that a command line can mean: the one that it names, or else all."""
    app = typer.Typer(
        help="Queen: a partitioned message queue on PostgreSQL.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback(invoke_without_command=True)(_root)
    register_all(app, arguments)
    return app


def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    """Handle what belongs to no command."""
    if version:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command of this process."""
    code = run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _end_for_closed_pipe()
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code. What went wrong is one line on standard error."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        command = prepare(typer.main.get_command(make_app(arguments)))
        code = command(arguments, prog_name="queen", standalone_mode=False)
        return code if isinstance(code, int) else OK
    except QueenError as error:
        return _print_error(line_of(error), code_of(error))
    except typer.TyperException as error:
        return _refuse(error, arguments)
    except typer.Abort:
        return _print_error("stopped; nothing was done", ERROR)
    except SystemExit as error:
        # Typer ends so when the reader of the output has gone.
        if isinstance(error.__context__, BrokenPipeError):
            return _end_for_closed_pipe()
        raise
    except KeyboardInterrupt:
        return INTERRUPTED


def _refuse(error: typer.TyperException, arguments: Sequence[str]) -> int:
    """Print why a command line cannot be used, or the help if it has no command."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return USAGE
    ctx = getattr(error, "ctx", None)
    where = ctx.command_path if ctx is not None else "queen"
    number = wrong_number(getattr(error, "param", None), arguments)
    text = number or " ".join(error.format_message().split()).rstrip(".")
    see = f"See {where} --help" if text.endswith("?") else f"see {where} --help"
    return _print_error(f"{text}{' ' if text.endswith('?') else '; '}{see}", error.exit_code)


def _print_error(line: str, code: int) -> int:
    say(f"queen: {line}", is_error=True)
    return code


def _end_for_closed_pipe() -> int:
    # What is still buffered has no reader; the interpreter would complain about it at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
