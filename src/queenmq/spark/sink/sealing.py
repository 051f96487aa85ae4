"""Encrypts payloads for encrypted queues in the task, before anything of them is staged.

A payload is bound to its queue, partition and transaction id, as a broker binds it. So a row
without a transaction id gets one here. Rows that come encrypted, as a lake has them, are opened and
encrypted again for where they go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from queenmq.clock import unix_ms
from queenmq.crypto.keys import Key
from queenmq.crypto.vault import Vault
from queenmq.errors import EncryptionKeyMissing, InvalidRequest
from queenmq.ids import uuid7_text
from queenmq.spark.sink.options import SEALED_FOR

if TYPE_CHECKING:
    from queenmq.crypto.envelope import Place

#: Returns which of some queues are encrypted.
Find = Callable[[Iterable[str]], set[str]]


def key_missing(queue: str) -> InvalidRequest:
    """Return the error of a write that has no keys and needs one."""
    return InvalidRequest(
        f"queue {queue} is encrypted and the write has no keys; nothing was written. Name the key"
        " file of the brokers by option encryptionKeys"
    )


class Sealer:
    """The way of one task's payloads into the vault."""

    def __init__(self, keys: Sequence[Key], find: Find) -> None:
        self._vault = Vault(keys)
        self._key_ids = ", ".join(key.id for key in keys)
        self._find = find
        self._known: dict[str, bool] = {}

    def is_encrypted(self, queue: str) -> bool:
        """Return whether a queue is encrypted. The answer is the same for the whole task."""
        self._look_up({queue})
        return self._known[queue]

    def seal(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield checked rows (see sink_rows), and whether their payloads are encrypted now."""
        for batch in batches:
            queues = set(pc.unique(batch.column("queue")).to_pylist())
            self._look_up(queues)
            wanted = sorted(queue for queue in queues if self._known[queue])
            if wanted and self._vault.current_id is None:
                raise key_missing(wanted[0])
            if wanted or _comes_sealed(batch):
                yield self._seal(batch)
            else:
                yield _with_mark(batch, pa.repeat(pa.scalar(False), batch.num_rows))

    def _look_up(self, queues: set[str]) -> None:
        new = queues - self._known.keys()
        if new:
            found = self._find(new)
            self._known |= {queue: queue in found for queue in new}

    def _seal(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        from queenmq.crypto.envelope import Place

        names = ("queue", "partition", "payload", "transaction_id")
        queues, partitions, payloads, ids = (batch.column(name).to_pylist() for name in names)
        marks = [self._known[queue] for queue in queues]
        for at, place in _read_places(batch):
            payloads[at] = self._open(payloads[at], place, queues[at])
        for at, is_wanted in enumerate(marks):
            if is_wanted:
                ids[at] = ids[at] or uuid7_text(unix_ms())
                payloads[at] = self._vault.seal(
                    payloads[at], Place(queues[at], partitions[at], ids[at])
                )
        for name, values in (("payload", payloads), ("transaction_id", ids)):
            place = batch.schema.get_field_index(name)
            batch = batch.set_column(place, name, pa.array(values, pa.string()))
        return _with_mark(batch, pa.array(marks, pa.bool_()))

    def _open(self, envelope: str, place: Place, target: str) -> str:
        if not self._known[target]:
            raise InvalidRequest(
                f"message {place.transaction_id!r} of queue {place.queue!r} is encrypted, and queue"
                f" {target!r} that it goes to is not; set encryptionEnabled of that queue"
            )
        try:
            return self._vault.unseal(envelope, place)
        except EncryptionKeyMissing:
            raise InvalidRequest(
                f"message {place.transaction_id!r} of queue {place.queue!r} was encrypted with key"
                f" {self._vault.key_of(envelope)}, and the file of encryptionKeys has"
                f" {self._key_ids}; add that key to the file"
            ) from None


def _read_places(batch: pa.RecordBatch) -> Iterator[tuple[int, Place]]:
    """Yield the rows whose payloads are already encrypted, and their places."""
    from queenmq.crypto.envelope import Place

    if _comes_sealed(batch):
        for at, origin in enumerate(batch.column(SEALED_FOR).to_pylist()):
            if origin is not None:
                yield at, Place(**origin)


def _comes_sealed(batch: pa.RecordBatch) -> bool:
    """Tell whether some payloads are encrypted already."""
    if SEALED_FOR not in batch.schema.names:
        return False
    return bool(batch.column(SEALED_FOR).null_count < batch.num_rows)


def _with_mark(batch: pa.RecordBatch, marks: pa.Array) -> pa.RecordBatch:
    if SEALED_FOR in batch.schema.names:
        batch = batch.drop_columns([SEALED_FOR])
    return batch.append_column("is_encrypted", marks)
