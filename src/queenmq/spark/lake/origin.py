"""Checks that a database is the one whose messages a lake holds."""

from __future__ import annotations

from queenmq.spark.database.connection import Database
from queenmq.spark.lake.table import MessageTable, number_of
from queenmq.spark.source.history import HistoryChanged, Noted, note


def check_origin(
    database: Database, table: MessageTable, *, continues: str | None = None, xid: int | None = None
) -> Noted:
    """Fail if the database is another one or was restored.

    Record a new mark if there is a position.

    `continues` is a database whose history continues in this one, as the user says.
    """
    origin = table.origin
    noted = note(database, table.reader, origin.mark if origin else None, xid)
    reason = _problem(table, noted, continues)
    if reason is not None:
        raise HistoryChanged(
            f"the lake at {table.lake.location} does not go with this database: {reason}; begin a"
            " new lake, and see Back up and restore in docs/operations.md"
        )
    return noted


def _problem(table: MessageTable, noted: Noted, continues: str | None) -> str | None:
    """Return why the database does not match, or None. Old lakes do not record theirs."""
    if table.origin is None:
        return None
    allowed = {number_of(name) for name in (noted.database, continues) if name}
    if table.origin.database not in allowed:
        return f"its messages are those of another one than {noted.database}"
    if not noted.is_known:
        return "it was restored from a copy that is older than the lake"
    return None
