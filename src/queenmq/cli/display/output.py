"""Owns what commands print: tables for people, JSON for programs.

On a terminal tables fit its width and have bold titles; in a pipe they are plain and whole. Results
go to standard output, everything about the work itself to standard error.
"""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from queenmq.cli.display import tables
from queenmq.cli.display.columns import Column as Column
from queenmq.cli.display.columns import Row
from queenmq.cli.display.columns import cell as cell
from queenmq.cli.display.columns import value_at as value_at
from queenmq.cli.display.safe import printable, say
from queenmq.cli.display.tables import Line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text


class Format(enum.StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"


def counted(number: int, noun: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def encode(value: Any, *, indent: int = 0) -> str:
    """A value as JSON in one line, or indented."""
    content = msgspec.json.encode(value)
    if indent:
        # A payload that came in by SQL may be more than a parser takes.
        with contextlib.suppress(ValueError, RecursionError):
            content = msgspec.json.format(content, indent=indent)
    return content.decode()


class Output:
    """Prints the results of one command."""

    def __init__(self, format: Format = Format.TABLE) -> None:
        self.format = format

    @property
    def is_human(self) -> bool:
        return self.format is Format.TABLE

    def rows(self, rows: Iterable[Row], columns: Sequence[Column]) -> None:
        """Print a list of things."""
        if self.format is Format.NDJSON:
            for row in rows:
                self.line(row)
        elif self.format is Format.JSON:
            print(encode(list(rows), indent=2))
        else:
            print_table(rows, columns)

    def thing(self, value: Row, columns: Sequence[Column]) -> None:
        """Print one thing, a line for each of its fields."""
        if self.is_human:
            titles = [column.title for column in columns]
            values = [column.text(value) for column in columns]
            print_lines(tables.block(titles, values, width=tables.terminal_width()))
        else:
            self.value(value)

    def value(self, value: Any) -> None:
        """Print one value as JSON."""
        print(encode(value, indent=0 if self.format is Format.NDJSON else 2))

    def line(self, value: Any) -> None:
        """Print one of many as JSON in a line of its own, at once."""
        print(encode(value), flush=True)

    def done(self, text: str, value: Any) -> None:
        """Say what was done: a sentence for people, the value for programs."""
        if self.is_human:
            say(printable(text))
        else:
            self.value(value)

    def note(self, text: str) -> None:
        """Tell people something beside the result."""
        if self.is_human:
            say(printable(text), is_error=True)


def console(*, stderr: bool = False) -> Console:
    """A terminal to draw on; rich obeys NO_COLOR."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def print_table(rows: Iterable[Row], columns: Sequence[Column]) -> None:
    """Print rows as a table, or as blocks where that would be too wide."""
    print_lines(tables.lay_out(rows, columns, width=tables.terminal_width()))


def print_lines(lines: Iterable[Line]) -> None:
    """Print what was laid out; on a terminal with titles in bold."""
    if not sys.stdout.isatty():
        for line in lines:
            say(str(line))
        return
    terminal = console()
    for line in lines:
        terminal.print(styled(line), overflow="ignore", no_wrap=True, crop=False)


def styled(line: Line) -> Text:
    """A line for a terminal."""
    from rich.text import Text

    return Text.assemble((printable(line.title), "bold"), printable(line.rest))


def progress(*, is_wanted: bool = True) -> Progress:
    """A bar on standard error, while that is a terminal; otherwise silent."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    terminal = console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        console=terminal,
        transient=True,
        disable=not (is_wanted and terminal.is_terminal),
    )
