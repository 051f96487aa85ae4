"""Owns what commands print: tables for people, JSON for programs.

On a terminal tables have colours and fit its width; in a pipe they are plain and whole. Results go
to standard output, everything about the work itself to standard error.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table


class Format(enum.StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"


Row = Mapping[str, Any]


def cell(value: Any) -> str:
    """A value in a table: JSON for what is not plain text, in one line."""
    if value is None:
        return ""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return encode(value)


class Column(NamedTuple):
    """A column: its key in the row (`a.b` for b in a), its title, its text."""

    key: str
    title: str
    show: Callable[[Any], str] = cell

    def text(self, row: Row) -> str:
        return self.show(value_at(row, self.key))


def value_at(row: Any, path: str) -> Any:
    """The value at `a.b.c`; None where there is none."""
    for name in path.split("."):
        if not isinstance(row, Mapping) or name not in row:
            return None
        row = row[name]
    return row


def counted(number: int, noun: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def encode(value: Any, *, indent: int = 0) -> str:
    """A value as JSON in one line, or indented."""
    content = msgspec.json.encode(value)
    return (msgspec.json.format(content, indent=indent) if indent else content).decode()


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
        elif sys.stdout.isatty():
            console().print(rich_table(rows, columns))
        else:
            print_plain(rows, columns)

    def thing(self, value: Row, columns: Sequence[Column]) -> None:
        """Print one thing, a line for each of its fields."""
        if self.is_human:
            width = max(len(column.title) for column in columns)
            for column in columns:
                print(f"{column.title:<{width}}  {column.text(value)}".rstrip())
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
            print(text)
        else:
            self.value(value)

    def note(self, text: str) -> None:
        """Tell people something beside the result."""
        if self.is_human:
            print(text, file=sys.stderr, flush=True)


def console(*, stderr: bool = False) -> Console:
    """A terminal to draw on; rich obeys NO_COLOR."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def rich_table(
    rows: Iterable[Row], columns: Sequence[Column], *, title: str | None = None
) -> Table:
    """A table that folds what is too long for the terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(Text(column.title), overflow="fold")
    for row in rows:
        table.add_row(*(Text(column.text(row)) for column in columns))
    return table


def print_plain(rows: Iterable[Row], columns: Sequence[Column]) -> None:
    """Columns as wide as they need to be."""
    lines = [[column.title for column in columns]]
    lines += [[column.text(row) for column in columns] for row in rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        cells = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


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
