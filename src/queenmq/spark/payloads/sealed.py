"""Encrypted payloads in Arrow: opened where there is a key, NULL where there is none."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from queenmq.crypto.keys import Key
from queenmq.crypto.vault import Vault
from queenmq.errors import DecryptionFailed, EncryptionKeyMissing


def open_payloads(rows: pa.Table, keys: Sequence[Key]) -> pa.Table:
    """Return the rows with readable payloads. Others are NULL, never garbage."""
    if not pc.any(rows["is_encrypted"]).as_py():
        return rows
    vault = Vault(keys)
    columns = ("payload", "is_encrypted", "queue", "partition", "transaction_id")
    values = zip(*(rows[name].to_pylist() for name in columns), strict=True)
    opened = [_open(vault, *row) if row[1] else row[0] for row in values]
    place = rows.column_names.index("payload")
    return rows.set_column(place, "payload", pa.chunked_array([pa.array(opened, pa.string())]))


def _open(
    vault: Vault, payload: str, _: bool, queue: str, partition: str, transaction_id: str
) -> str | None:
    if vault.current_id is None:
        return None
    from queenmq.crypto.envelope import Place

    try:
        return vault.unseal(payload, Place(queue, partition, transaction_id))
    except (EncryptionKeyMissing, DecryptionFailed):
        return None
