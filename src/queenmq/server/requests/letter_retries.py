"""Retries dead letters, and encrypts payloads again for their new ids."""

from __future__ import annotations

from uuid import UUID

from queenmq.clock import unix_ms
from queenmq.crypto.vault import Vault
from queenmq.ids import uuid7_text
from queenmq.storage.stores.dead_letters import (
    DeadLetterFilter,
    DeadLetterStore,
    ResealedLetter,
    RetriedMessage,
    SealedLetter,
)


class LetterRetries:
    """Retries dead letters.

    A payload is bound to its transaction id, and a letter whose message still exists needs another
    id. So the broker encrypts it again before it pushes it.
    """

    def __init__(self, store: DeadLetterStore, vault: Vault) -> None:
        self._store = store
        self._vault = vault

    async def retry(
        self,
        which: DeadLetterFilter,
        *,
        partition_id: UUID | None = None,
        transaction_id: str | None = None,
        limit: int,
        queue_max: int,
    ) -> list[RetriedMessage]:
        """Push dead letters again, longest dead first, and forget them."""
        sealed = await self._store.list_sealed(
            which, partition_id=partition_id, transaction_id=transaction_id, limit=limit
        )
        return await self._store.retry(
            which,
            partition_id=partition_id,
            transaction_id=transaction_id,
            limit=limit,
            queue_max=queue_max,
            resealed=[self._reseal(letter) for letter in sealed],
        )

    def _reseal(self, letter: SealedLetter) -> ResealedLetter:
        from queenmq.crypto.envelope import Place

        old = Place(letter.queue, letter.partition, letter.transaction_id)
        new = old._replace(transaction_id=uuid7_text(unix_ms()))
        payload = self._vault.seal(self._vault.unseal(letter.payload, old), new)
        return ResealedLetter(letter.partition_id, letter.seq, new.transaction_id, payload)
