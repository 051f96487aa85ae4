"""Decrypts payloads for clients, and remembers failures."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from queenmq.clock import now_ms
from queenmq.crypto.vault import Vault
from queenmq.engine.requests import PopGrant
from queenmq.errors import DecryptionFailed, EncryptionKeyMissing
from queenmq.metrics.registry import Registry

#: How long a queue counts as unreadable after a failure. Consumers retry sooner.
_FAILURE_MS = 60_000
_FAILURES_MAX = 1_000

Unreadable = (EncryptionKeyMissing, DecryptionFailed)
logger = logging.getLogger(__name__)


class _Popped(msgspec.Struct, rename="camel", omit_defaults=True):
    """A message as the database writes it. Fields that are not needed stay undecoded."""

    retry_count: msgspec.Raw
    id: msgspec.Raw
    transaction_id: str
    trace_id: msgspec.Raw
    producer_sub: msgspec.Raw
    created_at: msgspec.Raw
    data: msgspec.Raw
    queue: str
    partition: str
    partition_id: msgspec.Raw
    lease_id: msgspec.Raw
    consumer_group: msgspec.Raw
    is_encrypted: bool = False


_DECODER = msgspec.json.Decoder(list[_Popped])
_ENCODER = msgspec.json.Encoder()


class Opened(NamedTuple):
    """Grants that go to the client, grants that cannot, and the reason."""

    grants: Sequence[PopGrant]
    sealed: Sequence[PopGrant]
    error: EncryptionKeyMissing | DecryptionFailed | None


class Opener:
    """Decrypts payloads for the routes."""

    def __init__(self, vault: Vault, registry: Registry) -> None:
        self.vault = vault
        self._failures: dict[str, tuple[str, float]] = {}
        self._failed = registry.counter(
            "queen_payloads_unreadable", "Payloads that could not be decrypted."
        )

    def open_grants(self, grants: Sequence[PopGrant]) -> Opened:
        """Decrypt the messages of a pop.

        One unreadable message keeps its whole grant back, because a consumer must not skip it.
        """
        opened: list[PopGrant] = []
        sealed: list[PopGrant] = []
        first = None
        for grant in grants:
            if not grant.is_encrypted:
                opened.append(grant)
                continue
            try:
                opened.append(grant._replace(messages=self._open_messages(grant.messages or "")))
            except Unreadable as error:
                self._note(grant.queue_name or "", error)
                sealed.append(grant)
                first = first or error
        return Opened(opened, sealed, first)

    def open_row(
        self, row: Mapping[str, Any], *, queue: str, partition: str
    ) -> tuple[msgspec.Raw | None, str | None]:
        """Return the payload of a stored message, or None and why it cannot be decrypted."""
        payload = row["payload"]
        if payload is None:
            return None, None
        if row["is_encrypted"]:
            from queenmq.crypto.envelope import Place

            try:
                payload = self.vault.unseal(payload, Place(queue, partition, row["transaction_id"]))
            except Unreadable as error:
                self._note(queue, error)
                return None, str(error)
        return msgspec.Raw(payload.encode()), None

    def recent_failure(self, queue: str) -> str | None:
        """Return why a payload of this queue could not be decrypted, if that was recently."""
        text, at_ms = self._failures.get(queue, ("", float("-inf")))
        return text if now_ms() - at_ms < _FAILURE_MS else None

    def _open_messages(self, messages: str) -> str:
        from queenmq.crypto.envelope import Place

        found = _DECODER.decode(f"[{messages}]")
        for one in found:
            if one.is_encrypted:
                place = Place(one.queue, one.partition, one.transaction_id)
                one.data = msgspec.Raw(self.vault.unseal(bytes(one.data), place).encode())
                one.is_encrypted = False
        return _ENCODER.encode(found)[1:-1].decode()

    def _note(self, queue: str, error: Exception) -> None:
        self._failed.inc()
        if self.recent_failure(queue) is None:
            # Once a minute and queue, because consumers retry.
            facts = {"event": "payload_unreadable", "queue": queue}
            logger.error("%s", error, extra=facts)
        if len(self._failures) >= _FAILURES_MAX:
            self._failures.clear()
        self._failures[queue] = (str(error), now_ms())
