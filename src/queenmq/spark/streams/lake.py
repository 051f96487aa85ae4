"""Appends the rows of a batch to a Delta table, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queenmq.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def append_once(rows: DataFrame, path: str, writer: str, batch: int) -> None:
    """Append, unless this writer has appended this batch or a later one already.

    A writer is a stream with its checkpoint: with a new one batches are numbered anew. The rows
    pass through the driver; they are the results of one batch.
    """
    try:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    except ImportError:
        raise SettingsError("a lake needs deltalake; install queenmq[spark]") from None
    # In any case: a stateful batch whose rows nobody asks for leaves its state behind.
    table = rows.toArrow()
    if not table.num_rows:
        return
    if DeltaTable.is_deltatable(path):
        last = DeltaTable(path).transaction_version(writer)
        if last is not None and last >= batch:
            return
    mark = CommitProperties(app_transactions=[Transaction(writer, batch)])
    write_deltalake(path, table, mode="append", commit_properties=mark)
