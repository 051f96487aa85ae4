"""Holds the keys, and says in words what is wrong when one is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from queenmq.crypto.keys import Key
from queenmq.errors import DecryptionFailed, EncryptionKeyMissing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from queenmq.crypto.envelope import Place


class Vault:
    """Encrypts with the first key and decrypts with any. Without keys it refuses both."""

    def __init__(self, keys: Sequence[Key] = ()) -> None:
        self._current: str | None = keys[0].id if keys else None
        self._ciphers: dict[str, AESGCM] = {}
        if keys:
            # Only here: the library takes 30 ms to load, and most brokers encrypt nothing.
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            self._ciphers = {key.id: AESGCM(key.secret) for key in keys}

    @property
    def current_id(self) -> str | None:
        """The id of the key that encrypts; None without keys."""
        return self._current

    def check(self, queue: str) -> None:
        """Raise unless payloads of this queue can be encrypted."""
        if self._current is None:
            raise EncryptionKeyMissing(
                f"queue {queue!r} is encrypted and this broker has no key; nothing was stored."
                " Set QUEEN_ENCRYPTION_KEY or QUEEN_ENCRYPTION_KEY_FILE on the broker"
            )

    def seal(self, payload: str, place: Place) -> str:
        """Return the envelope to store in place of a payload."""
        from queenmq.crypto.envelope import seal

        self.check(place.queue)
        assert self._current is not None
        return seal(self._ciphers[self._current], self._current, payload, place)

    def unseal(self, envelope: str | bytes, place: Place) -> str:
        """Return the payload in an envelope of this place."""
        from queenmq.crypto.envelope import Damaged, parse, unseal

        named = (
            f"message {place.transaction_id!r} in partition {place.partition!r} of queue"
            f" {place.queue!r}"
        )
        try:
            parsed = parse(envelope)
            cipher = self._ciphers.get(parsed.key_id)
            if cipher is None:
                raise EncryptionKeyMissing(
                    f"{named} was encrypted with key {parsed.key_id[:32]!r}, which this broker"
                    " does not have; the message stays where it is. Add the key to the broker's"
                    " key file"
                )
            return unseal(cipher, parsed, place)
        except Damaged as error:
            raise DecryptionFailed(
                f"{named} cannot be decrypted: {error}; the message stays where it is. Restore it"
                " from a copy, or delete it"
            ) from error

    def key_of(self, envelope: str | bytes) -> str | None:
        """Return the id of the key of an envelope; None if it is none."""
        from queenmq.crypto.envelope import Damaged, parse

        try:
            return parse(envelope).key_id
        except Damaged:
            return None
