"""Checks whether a database still has the history in which a position was taken.

Positions are transaction numbers, and a database that was restored from an older copy uses numbers
again. A stream keeps its position in its checkpoint, an archive in its lake. So each first writes a
mark to the database. If the reader finds the mark later, the database has everything before it,
whatever was restored or promoted. If not, the history is another one. A dump contains the marks but
not the numbering, so the reader also remembers the server and database.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queenmq.errors import QueenError
from queenmq.spark.database.sql_text import load

if TYPE_CHECKING:
    from queenmq.spark.database.connection import Database


class HistoryChanged(QueenError):
    """The database is not the one in which a position was taken."""


@dataclass(frozen=True)
class Noted:
    """The database's entry for a reader."""

    #: The server and the database in it.
    database: str
    #: The reader's last mark is part of the history.
    is_known: bool
    #: The new mark. None if none was requested, or this database cannot store one.
    mark: int | None
    #: The position of this reader's newest mark in this database.
    last_xid: int | None


def note(database: Database, reader: str, last: int | None, xid: int | None) -> Noted:
    """Check the last mark of a reader, and note a new one if there is a position to note."""
    parameter = {
        "reader": reader,
        "last": last,
        "xid": None if xid is None else str(xid),
    }
    row = database.rows(load("history")["mark"], parameter)[0]
    last_xid = row["last_xid"]
    return Noted(
        row["database"], row["is_known"], row["mark"], None if last_xid is None else int(last_xid)
    )


def problem(
    noted: Noted,
    *,
    database: str | None,
    position: int,
    horizon: int,
    continues: str | None = None,
) -> str | None:
    """Return why a position is not valid in this database, or None.

    `continues` is a database whose history continues in this one, as the user says.
    """
    if database is not None and database not in (noted.database, continues):
        return f"it was taken in database {database}, and this is {noted.database}"
    if not noted.is_known:
        return "the database does not know its mark, so it was restored from an older copy"
    if position > horizon:
        return f"the database is at transaction {horizon} only, so it was restored"
    return None
