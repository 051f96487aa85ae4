"""Prints the results of commands: tables for people, JSON for programs.

On a terminal, tables fit its width and have bold titles. In a pipe they are plain and complete.
Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import typer

from queenmq.cli.display import tables
from queenmq.cli.display.columns import Column as Column
from queenmq.cli.display.columns import Row
from queenmq.cli.display.columns import cell as cell
from queenmq.cli.display.columns import value_at as value_at
from queenmq.cli.display.json_path import JsonPath, parse_path, to_line
from queenmq.cli.display.safe import printable, say
from queenmq.cli.display.tables import Line
from queenmq.cli.display.yaml_text import Exact, to_yaml

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text


class Format(enum.StrEnum):
    """The format of results."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"
    YAML = "yaml"
    JSONPATH = "jsonpath"


class Shape(NamedTuple):
    """A format, and with `jsonpath` what of the result is printed."""

    format: Format = Format.TABLE
    path: JsonPath = JsonPath(())


#: What `-o` takes, for help texts.
SHAPES = "table, json, ndjson, yaml or jsonpath=PATH"


def parse_shape(text: str | Shape) -> Shape:
    """Return what `-o` asks for."""
    if isinstance(text, Shape):
        return text
    name, equals, path = text.partition("=")
    known = name in Format.__members__.values()
    if not known or (name == Format.JSONPATH) != bool(equals):
        raise typer.BadParameter(f"{text!r} is not one of {SHAPES}.")
    try:
        return Shape(Format(name), parse_path(path))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}.") from None


def format_count(number: int, noun: str) -> str:
    """Return `1 message` or `2 messages`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def encode(value: Any, *, indent: int = 0) -> str:
    """Return a value as JSON in one line, or indented."""
    content = msgspec.json.encode(value)
    if indent:
        # A payload that came in by SQL may be more than a parser takes.
        with contextlib.suppress(ValueError, RecursionError):
            content = msgspec.json.format(content, indent=indent)
    return content.decode()


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, with numbers as they were written."""
    return msgspec.json.Decoder(float_hook=Exact).decode(msgspec.json.encode(value))


class Output:
    """Prints the results of one command."""

    def __init__(self, shape: Shape | None = None) -> None:
        self.format, self._path = shape or Shape()

    @property
    def is_human(self) -> bool:
        return self.format is Format.TABLE

    @property
    def is_document(self) -> bool:
        """Return whether the result is one document, which can only be printed whole."""
        return self.format in (Format.JSON, Format.YAML, Format.JSONPATH)

    def rows(self, rows: Iterable[Row], columns: Sequence[Column]) -> None:
        """Print a list of things."""
        if self.format is Format.NDJSON:
            for row in rows:
                self.line(row)
        elif self.is_document:
            self.value(list(rows))
        else:
            print_table(rows, columns)

    def print_fields(self, value: Row, columns: Sequence[Column]) -> None:
        """Print one thing, a line for each of its fields."""
        if self.is_human:
            titles = [column.title for column in columns]
            values = [column.text(value) for column in columns]
            print_lines(tables.block(titles, values, width=tables.terminal_width()))
        else:
            self.value(value)

    def value(self, value: Any) -> None:
        """Print one value as JSON or YAML, or what the path finds in it, a line each."""
        if self.format is Format.YAML:
            print(to_yaml(_plain(value)))
        elif self.format is Format.JSONPATH:
            for one in self._path.find(_plain(value)):
                print(to_line(one))
        else:
            print(encode(value, indent=0 if self.format is Format.NDJSON else 2))

    def line(self, value: Any) -> None:
        """Print one element of a list as a line of JSON, at once."""
        print(encode(value), flush=True)

    def done(self, text: str, value: Any) -> None:
        """Print the result of an action: a sentence for people, the value for programs."""
        if self.is_human:
            say(printable(text))
        else:
            self.value(value)

    def note(self, text: str) -> None:
        """Print a note for people beside the result."""
        if self.is_human:
            say(printable(text), is_error=True)


def console(*, stderr: bool = False) -> Console:
    """Return a terminal to draw on. Rich obeys NO_COLOR."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def print_table(rows: Iterable[Row], columns: Sequence[Column]) -> None:
    """Print rows as a table, or as blocks where that would be too wide."""
    print_lines(tables.lay_out(rows, columns, width=tables.terminal_width()))


def print_lines(lines: Iterable[Line]) -> None:
    """Print laid-out lines, with bold titles on a terminal."""
    if not sys.stdout.isatty():
        for line in lines:
            say(str(line))
        return
    terminal = console()
    for line in lines:
        terminal.print(style_line(line), overflow="ignore", no_wrap=True, crop=False)


def style_line(line: Line) -> Text:
    """Return a line for a terminal."""
    from rich.text import Text

    return Text.assemble((printable(line.title), "bold"), printable(line.rest))


def progress(*, is_wanted: bool = True) -> Progress:
    """Return a progress bar on standard error. Silent if that is not a terminal."""
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
