"""Appends the rows of a batch to a Delta table, once.

The log of the table keeps the number of the writer's last batch and digests of the last hundred. So
the writer skips a repeated batch. It refuses a different batch with the same number, which means
that the checkpoint is an older copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from queenmq.errors import Conflict, SettingsError
from queenmq.spark.sink.digests import changed_batch_hint, digest_table, digest_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: As many batches as a checkpoint of Spark keeps.
_KEPT = 100


def append_once(
    rows: DataFrame, path: str, writer: str, batch: int, *, identity: Sequence[str] | None
) -> None:
    """Append, unless this writer has appended this very batch already.

    A writer is a stream with its checkpoint. A new checkpoint numbers batches from the start. The
    rows, the results of one batch, pass through the driver. `identity` are the columns that
    distinguish any two rows. None means that a repeated batch may have fewer rows and is not
    compared. Columns whose names begin with an underscore are not written.
    """
    try:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    except ImportError:
        raise SettingsError("a lake needs deltalake; install queenmq[spark]") from None
    # Read the rows in any case. Otherwise a stateful batch leaves its state behind.
    table = rows.toArrow()
    if not table.num_rows:
        return
    notes = _Notes(writer, batch, None if identity is None else digest_table(table, identity))
    if DeltaTable.is_deltatable(path) and notes.is_written(DeltaTable(path), path):
        return
    mark = CommitProperties(
        app_transactions=[Transaction(name, version) for name, version in notes.new.items()]
    )
    shown = [name for name in table.column_names if not name.startswith("_")]
    write_deltalake(path, table.select(shown), mode="append", commit_properties=mark)


class _Notes:
    """A table log's notes about the batches of a writer, as names with numbers."""

    def __init__(self, writer: str, batch: int, digest: int | None) -> None:
        self._writer = writer
        self._batch = batch
        #: What the commit of this batch has to note.
        self.new = {writer: batch}
        #: The place of a batch is that of one a hundred earlier, so its number is part of it.
        self._digest = None if digest is None else digest_texts([f"{batch}/{digest}".encode()])
        if self._digest is not None:
            self.new |= {self._place: self._digest, self._since: batch}

    @property
    def _place(self) -> str:
        return f"{self._writer}/digest/{self._batch % _KEPT}"

    @property
    def _since(self) -> str:
        """Return the first batch with a digest. Batches of older versions have none."""
        return f"{self._writer}/digests"

    def is_written(self, table: Any, path: str) -> bool:
        """Return whether the table has this batch. Raise if it has another with this number."""
        since = None if self._digest is None else table.transaction_version(self._since)
        if since is not None:
            self.new[self._since] = since
        last = table.transaction_version(self._writer)
        if last is None or last < self._batch:
            return False
        is_noted = since is not None and self._batch >= since
        if is_noted and table.transaction_version(self._place) != self._digest:
            raise Conflict(
                f"batch {self._batch} is not the one that was written to {path} before;"
                f" {changed_batch_hint()}"
            )
        return True
