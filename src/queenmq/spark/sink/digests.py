"""Computes a digest of rows, to compare a repeated batch with the first one. Pure.

Rows may come in another order and split otherwise over tasks, so their hashes are added up. A row
that has an id of its own counts by that id: what else it holds may differ in the last digit of a
sum without being another row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: Fits into a bigint of PostgreSQL and a version of Delta's log.
MODULUS = 1 << 62
_BETWEEN = b"\0"
_NULL = b"\0null"


def digest_messages(batch: pa.RecordBatch, secret: bytes = b"") -> int:
    """Digest rows as the sink writes them (see rows.py).

    Give a secret where payloads are: without it nobody can find out by trying what they are.
    """
    ids = batch.column("transaction_id")
    columns = [batch.column("queue"), batch.column("partition"), ids]
    missing = pa.scalar(None, pa.string())
    for name in ("payload", "trace_id"):
        if ids.null_count:
            values = _blind(batch.column(name), secret) if secret else batch.column(name)
            columns.append(pc.if_else(pc.is_null(ids), values, missing))
        else:
            columns.append(pa.nulls(batch.num_rows, pa.string()))
    return digest_texts(_join_columns(columns))


def _blind(values: pa.Array, secret: bytes) -> pa.Array:
    texts = (
        None if value is None else blake2b(value, key=secret, digest_size=16).hexdigest()
        for value in values.cast(pa.binary()).to_pylist()
    )
    return pa.array(texts, pa.string())


def digest_table(table: pa.Table, columns: Sequence[str]) -> int:
    """Digest the rows of a table by the columns that distinguish them."""
    return digest_texts(_join_columns([table[name].cast(pa.string()) for name in columns]))


def digest_texts(rows: Iterable[bytes]) -> int:
    """Return the sum of the hashes of rows; equal rows count as often as they are there."""
    return add_up(int.from_bytes(blake2b(row, digest_size=8).digest(), "big") for row in rows)


def _join_columns(columns: Sequence[Any]) -> list[bytes]:
    """Return rows as bytes. Names and JSON texts have no NUL, so that no two rows look the same."""
    texts = [column.cast(pa.binary()) for column in columns]
    joined = pc.binary_join_element_wise(
        *texts, _BETWEEN, null_handling="replace", null_replacement=_NULL
    )
    found: list[bytes] = joined.to_pylist()
    return found


def changed_batch_hint() -> str:
    """Say what to do about a batch that differs from the one written under its number."""
    return (
        "the checkpoint is older than what was written from it, or rows come out differently each"
        " time (then see the option compareRepeats); go on with the newest checkpoint, or begin"
        " with a new one, which writes everything again"
    )


def add_up(digests: Iterable[int]) -> int:
    """Return the digest of rows that were digested in parts."""
    return sum(digests) % MODULUS
