"""Encrypts the payloads of a push once it is known which of its queues are encrypted.

A payload is bound to its queue, partition and transaction id. So an item without a transaction id
gets one here. Items are changed in place, so they stay encrypted on their way to the database, the
operation queue or the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID, uuid5

from queenmq.clock import unix_ms
from queenmq.crypto.vault import Vault
from queenmq.engine.push.naming import name_spooled
from queenmq.engine.requests import PartitionKey, PartitionRef, PushItems
from queenmq.ids import uuid7_text

#: Returns a partition if the broker remembers it.
Find = Callable[[PartitionKey], PartitionRef | None]


class Sealing:
    """Encrypts payloads, and decrypts those that turn out to belong to plain queues."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def fit(
        self, items: PushItems, refs: Sequence[PartitionRef], *, seed: UUID | None = None
    ) -> None:
        """Encrypt items of encrypted queues. Decrypt items that were encrypted as a precaution.

        With a seed, generated transaction ids are the same each time, so that a repeated
        transaction gets the same answer.
        """
        if items.encrypted is None and not any([ref.is_encrypted for ref in refs]):
            return
        self._fit(items, [ref.is_encrypted for ref in refs], seed)

    def fit_for_disk(self, items: PushItems, find: Find) -> None:
        """Encrypt items that go to disk, unless their queue is known to be plain.

        Without a key, only items of queues known to be encrypted are refused. While the database is
        away, the broker cannot look that up.
        """
        wanted = {key: self._needs_key(key, find(key)) for key in set(items.keys)}
        if any(wanted.values()):
            self._seal(items, [wanted[key] for key in items.keys], None)

    def _needs_key(self, key: PartitionKey, ref: PartitionRef | None) -> bool:
        if ref is None:
            return self._vault.current_id is not None
        if ref.is_encrypted:
            self._vault.check(key.queue)
        return ref.is_encrypted

    def _fit(self, items: PushItems, wanted: list[bool], seed: UUID | None) -> None:
        if items.encrypted is not None:
            self._unseal(items, wanted)
        if any(wanted):
            self._seal(items, wanted, seed)

    def _seal(self, items: PushItems, wanted: list[bool], seed: UUID | None) -> None:
        from queenmq.crypto.envelope import Place

        for key in {key for key, is_wanted in zip(items.keys, wanted, strict=True) if is_wanted}:
            self._vault.check(key.queue)
        ids = list(items.transaction_ids or [None] * len(items.keys))
        names: Sequence[str | None] = ids
        if seed is None and items.request_key is not None:
            # A request that is sent again under its key has to get the same ids, whether or not a
            # copy was encrypted.
            names = name_spooled(items, items.request_key)
        marks = list(items.encrypted or [None] * len(items.keys))
        payloads = list(items.payloads)
        for at, (key, is_wanted) in enumerate(zip(items.keys, wanted, strict=True)):
            if not is_wanted or marks[at]:
                continue
            given = names[at] or (str(uuid5(seed, str(at))) if seed else uuid7_text(unix_ms()))
            payloads[at] = self._vault.seal(payloads[at], Place(*key, given))
            ids[at], marks[at] = given, True
        items.transaction_ids, items.encrypted, items.payloads = ids, marks, payloads

    def _unseal(self, items: PushItems, wanted: list[bool]) -> None:
        from queenmq.crypto.envelope import Place

        assert items.encrypted is not None and items.transaction_ids is not None
        marks, payloads = list(items.encrypted), list(items.payloads)
        for at, (key, is_wanted) in enumerate(zip(items.keys, wanted, strict=True)):
            given = items.transaction_ids[at]
            if not is_wanted and marks[at] and given is not None:
                payloads[at] = self._vault.unseal(payloads[at], Place(*key, given))
                marks[at] = None
        items.payloads = payloads
        items.encrypted = marks if any(marks) else None


#: For brokers without a key.
NO_KEYS = Sealing(Vault())
