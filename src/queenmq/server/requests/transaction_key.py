"""Recognises a transaction that is sent again after a lost answer. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from uuid import UUID

import msgspec

from queenmq.engine.requests import AckItem, PushItems, TransactionItems


def transaction_items(
    pushes: PushItems,
    acks: Sequence[AckItem],
    required_leases: Sequence[UUID],
    idempotency_key: str | None,
    owner: str | tuple[str, ...] | None = None,
) -> TransactionItems:
    """Return the parts of a transaction with its key.

    Without a key of the caller, Queen recognises a transaction with acks by everything it does,
    because a message that is delivered again has another lease. A transaction that only pushes may
    be intended twice. Keys of two owners never collide, so no caller can use up another caller's
    key.
    """
    digest = _hash(
        b"body",
        msgspec.json.encode(
            [
                pushes.keys, pushes.payloads, pushes.transaction_ids, pushes.trace_ids,
                acks, required_leases,
            ]
        ),
    )  # fmt: skip
    key = digest if acks else None
    if idempotency_key is not None:
        kind = b"key" if owner is None else b"key of " + msgspec.json.encode(owner)
        key = _hash(kind, idempotency_key.encode())
    return TransactionItems(
        pushes, acks, required_leases, digest, key, is_key_derived=idempotency_key is None
    )


def _hash(kind: bytes, text: bytes) -> UUID:
    # Of the form of names that were hashed; 122 bits of it are the hash.
    return UUID(bytes=hashlib.sha256(kind + b"\0" + text).digest()[:16], version=5)
