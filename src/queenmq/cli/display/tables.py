"""Owns how rows are laid out: a table that fits, or a block of lines for each row.

Ids are there to be copied, so nothing but free text is ever cut, and nothing is broken over lines
inside a table. What does not fit becomes blocks, as psql's expanded display does.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from queenmq.cli.display.columns import Column, Row
from queenmq.settings import terminal_columns

_GAP = "  "
#: Free text is not cut to less than this.
_TEXT_MIN = 16


class Line(NamedTuple):
    """A line: its title, and the text after it."""

    title: str
    rest: str = ""

    def __str__(self) -> str:
        return (self.title + self.rest).rstrip()


def terminal_width() -> int | None:
    """Return the width by COLUMNS or the terminal, or None in a pipe, which gets everything."""
    given = terminal_columns()
    if given is not None or not sys.stdout.isatty():
        return given
    with contextlib.suppress(OSError):
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    return None


def lay_out(rows: Iterable[Row], columns: Sequence[Column], *, width: int | None) -> list[Line]:
    """Return the lines of the rows: a table with its titles on top, or blocks."""
    cells = [[column.text(row) for column in columns] for row in rows]
    kept = _that_fit(cells, columns, width)
    if kept is None:
        assert width is not None
        return _blocks(cells, columns, width)
    titles = [columns[place].title for place in kept]
    lines = [titles, *([row[place] for place in kept] for row in cells)]
    widths = _widths(lines)
    if width is not None and _sum(widths) > width:
        # Only the last column is free text, and there is room for enough of it.
        widths[-1] -= _sum(widths) - width
        lines = [[*line[:-1], cut(line[-1], widths[-1])] for line in lines]
    first, *others = (_pad_line(line, widths) for line in lines)
    return [Line(first), *(Line("", one) for one in others)]


def _that_fit(
    cells: Sequence[Sequence[str]], columns: Sequence[Column], width: int | None
) -> list[int] | None:
    """Return the columns to show as a table, or None if no choice of them fits."""
    kept = list(range(len(columns)))
    if width is None:
        return kept
    ranks = sorted({column.rank for column in columns if column.rank}, reverse=True)
    for rank in [None, *ranks]:
        if rank is not None:
            kept = [place for place in kept if columns[place].rank != rank]
        lines = [
            [columns[place].title for place in kept],
            *([row[place] for place in kept] for row in cells),
        ]
        widths = _widths(lines)
        if columns[kept[-1]].is_text:
            widths[-1] = min(widths[-1], _TEXT_MIN)
        if _sum(widths) <= width:
            return kept
    return None


def _blocks(cells: Sequence[Sequence[str]], columns: Sequence[Column], width: int) -> list[Line]:
    lines: list[Line] = []
    for row in cells:
        lines += block([column.title for column in columns], row, width=width)
        lines.append(Line(""))
    return lines[:-1]


def block(titles: Sequence[str], values: Sequence[str], *, width: int | None) -> list[Line]:
    """Return a line for each title and value. A long value continues below itself."""
    indent = max(len(title) for title in titles)
    room = None if width is None else max(width - indent - len(_GAP), _TEXT_MIN)
    lines = []
    for title, value in zip(titles, values, strict=True):
        first, *more = fold_text(value, room)
        lines.append(Line(title.ljust(indent) + _GAP, first))
        lines += [Line("".ljust(indent) + _GAP, one) for one in more]
    return lines


def fold_text(text: str, width: int | None) -> list[str]:
    """Return the text in lines of at most this width, broken at blanks where there are some."""
    if width is None or _length(text) <= width:
        return [text]
    lines = []
    while _length(text) > width:
        piece = cut(text, width, mark="")
        at = piece.rfind(" ") + 1
        # A break far from the edge would waste the line.
        if at > len(piece) // 2:
            piece = piece[:at]
        lines.append(piece.rstrip())
        text = text[len(piece) :]
    return [*lines, text]


def cut(text: str, width: int, *, mark: str = "…") -> str:
    """Return the beginning of a text that is longer than it may be."""
    if _length(text) <= width:
        return text
    room, kept = width - len(mark), 0
    for place, character in enumerate(text):
        kept += _length(character)
        if kept > room:
            return text[:place] + mark
    return text


def _pad_line(line: Sequence[str], widths: Sequence[int]) -> str:
    cells = (text + " " * (width - _length(text)) for text, width in zip(line, widths, strict=True))
    return _GAP.join(cells).rstrip()


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(_length(line[place]) for line in lines) for place in range(len(lines[0]))]


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _length(text: str) -> int:
    """Return how many columns a text takes on a terminal. Some characters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
