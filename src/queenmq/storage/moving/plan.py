"""What is copied in which order, and whether both sides hold the same. Pure."""

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
    """What a table holds: its rows, and a checksum over them in any order."""

    rows: int
    checksum: str


class Compared(NamedTuple):
    """A table on both sides."""

    table: str
    source: Sum
    target: Sum

    @property
    def is_match(self) -> bool:
        """Whether both sides hold the same."""
        return self.source == self.target


class Progress(NamedTuple):
    """How far a move has come."""

    phase: str
    table: str | None = None
    tables_done: int = 0
    tables: int = 0
    bytes_copied: int = 0


def order_tables(tables: Sequence[Table]) -> list[Table]:
    """Return the tables so that each comes after those that it refers to."""
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
