"""Stops a stream if its database was replaced or has lost unread queues."""

from __future__ import annotations

import json

from queenmq.spark.database.connection import Database
from queenmq.spark.database.sql_text import load
from queenmq.spark.source.history import HistoryChanged, Noted, note, problem
from queenmq.spark.source.offsets import DataLoss, Position, has_gone_back
from queenmq.spark.source.options import ReadOptions


class StreamHistory:
    """A stream's knowledge of its database."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        #: The history was checked over this connection. A restore breaks connections.
        self._is_known = False

    def reset(self) -> None:
        """Forget the database, because a new connection may lead to another one."""
        self._is_known = False

    def begin(self, database: Database) -> str:
        """Return the server and the database in it, where a stream begins now."""
        self._is_known = True
        return note(database, _reader(None), None, None).database

    def check(self, database: Database, position: Position, newest: int) -> None:
        """Raise if a position belongs to another history. `newest` is the horizon."""
        if self._is_known and position.xid <= newest:
            return
        self._judge(note(database, _reader(position), position.mark, None), position, newest)
        self._is_known = True

    def note(self, database: Database, first: Position, end: int, newest: int) -> Position:
        """Return the end of a batch, once the database has noted it."""
        noted = note(database, _reader(first), first.mark, end)
        self._judge(noted, first, newest)
        return Position(
            end,
            seen=newest,
            database=noted.database,
            mark=noted.mark,
            query=first.query,
            start=first if first.is_initial else None,
        )

    def check_count(self, first: Position, end: Position) -> None:
        """Stop if messages are gone that were counted, where there is no better proof."""
        if first.mark is None and has_gone_back(first, end):
            raise _make_changed(
                "fewer messages were ever stored than when it was taken", first, None
            )

    def check_deleted(self, database: Database, first: Position) -> None:
        """Stop if a queue was deleted with messages that were not read."""
        if not self._options.fail_on_data_loss or first.seen is None:
            return
        parameter = {
            "scope": json.loads(self._options.scope.to_json()),
            "seen": str(first.seen),
            "position": str(first.xid),
        }
        rows = database.rows(load("history")["deleted"], parameter)
        if rows:
            raise DataLoss(
                f"queue {', '.join(row['name'] for row in rows)} was deleted with messages that"
                " were not read; start with a new checkpoint, or set failOnDataLoss to false to go"
                " on with what is there now"
            )

    def _judge(self, noted: Noted, position: Position, newest: int) -> None:
        reason = problem(
            noted,
            database=position.database,
            # Where a stream is to start is up to its user.
            position=0 if position.is_initial else position.xid,
            horizon=newest,
            continues=self._options.continues_database,
        )
        if reason is not None:
            raise _make_changed(reason, position, noted.last_xid)


def _reader(position: Position | None) -> str:
    """Return the name under which a stream writes its mark."""
    return f"stream:{(position and position.query) or ''}"


def _make_changed(reason: str, position: Position, last_xid: int | None) -> HistoryChanged:
    way = "begin with a new checkpoint"
    if last_xid is not None:
        way += (
            f' and startingOffsets {{"xid": "{last_xid}"}}, up to where this database knows that'
            " the stream has read"
        )
    return HistoryChanged(
        f"the position of the checkpoint, transaction {position.xid}, is not one of this database:"
        f" {reason}; {way}, and see Back up and restore in docs/operations.md"
    )
