"""Owns columns: a value of a row, its title, and how it is written for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from queenmq.cli.display.safe import printable
from queenmq.wire import Answer

#: Answers of the broker are mappings too.
Row = Mapping[str, Any] | Answer


def cell(value: Any) -> str:
    """Format a value in one line: text as it is, payloads as pushed, the rest as JSON."""
    if value is None:
        return ""
    if isinstance(value, msgspec.Raw):
        value = _payload(bytes(value))
    if isinstance(value, str):
        return printable(" ".join(value.split()))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return msgspec.json.encode(value).decode()


def _payload(content: bytes) -> str:
    """Return a text without its quotes, and any other payload as JSON."""
    if content.startswith(b'"'):
        try:
            return msgspec.json.decode(content, type=str)
        except ValueError:
            pass
    return content.decode(errors="replace")


class Column(NamedTuple):
    """A column: its key in the row (`a.b` for b in a), its title, its text."""

    key: str
    title: str
    show: Callable[[Any], str] = cell
    #: If a table is too wide, it drops columns with the highest rank first. 0 means never.
    rank: int = 0
    #: Free text in the last column may be cut.
    is_text: bool = False

    def text(self, row: Row) -> str:
        return printable(self.show(value_at(row, self.key)))


def value_at(row: Any, path: str, *, missing: Any = None) -> Any:
    """Return the value at `a.b.c`, or another one if there is none."""
    for name in path.split("."):
        if not isinstance(row, Mapping) or name not in row:
            return missing
        row = row[name]
    return row
