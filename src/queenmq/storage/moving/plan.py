"""Decides the order of tables to copy, and whether both sides are equal. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """A table, and the statements that read, compare and empty it."""

    name: str
    schema: str
    relation: str
    columns: Sequence[str]
    estimate: int
    reads: str
    compares: str
    empties: str
    refers_to: Sequence[str]


class Sum(NamedTuple):
    """The content of a table: its row count, and a checksum that ignores order."""

    rows: int
    checksum: str


class Compared(NamedTuple):
    """A table on both sides."""

    table: str
    source: Sum
    target: Sum

    @property
    def is_match(self) -> bool:
        """Return whether both sides are equal."""
        return self.source == self.target


class Progress(NamedTuple):
    """The progress of a move."""

    phase: str
    table: str | None = None
    tables_done: int = 0
    tables: int = 0
    bytes_copied: int = 0


def order_tables(tables: Sequence[Table]) -> list[Table]:
    """Return the tables sorted so that each follows those it references."""
    left: Mapping[str, Table] = {table.name: table for table in tables}
    ordered: list[Table] = []
    done: set[str] = set()

    def add(table: Table) -> None:
        if table.name in done:
            return
        done.add(table.name)
        for name in table.refers_to:
            if name in left:
                add(left[name])
        ordered.append(table)

    for table in tables:
        add(table)
    return ordered
