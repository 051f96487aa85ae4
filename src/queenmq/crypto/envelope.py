"""The JSON that is stored in place of an encrypted payload. Pure but for its random nonce.

`{"encrypted":...,"iv":...,"authTag":...,"keyId":...}`: ciphertext, nonce and tag of AES-256-GCM in
base64, and which key it was. The tag also covers where the message is (`Place`). So a ciphertext
that is copied to another message cannot be opened there.
"""

from __future__ import annotations

import base64
import binascii
import os
from typing import NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES = 12
_TAG_BYTES = 16
#: Names what is authenticated, and its form. Another form needs another word here.
_AAD_PREFIX = b"queen payload 1"


class Place(NamedTuple):
    """Identifies a message by facts that are known before it is stored and never change."""

    queue: str
    partition: str
    transaction_id: str


class Envelope(msgspec.Struct, rename="camel"):
    """An encrypted payload as it is stored."""

    encrypted: str
    iv: str
    auth_tag: str
    key_id: str


class Damaged(Exception):
    """The bytes are not an envelope, were changed, or belong to another message."""


def bind(place: Place) -> bytes:
    """Return the bytes that stand for a place. No two places have the same."""
    parts = [part.encode() for part in place]
    return _AAD_PREFIX + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def seal(cipher: AESGCM, key_id: str, payload: str, place: Place) -> str:
    """Return the envelope of a payload, as JSON."""
    nonce = os.urandom(_NONCE_BYTES)
    sealed = cipher.encrypt(nonce, payload.encode(), bind(place))
    body, tag = sealed[:-_TAG_BYTES], sealed[-_TAG_BYTES:]
    return (
        f'{{"encrypted":"{_to_text(body)}","iv":"{_to_text(nonce)}"'
        f',"authTag":"{_to_text(tag)}","keyId":"{key_id}"}}'
    )


def parse(text: str | bytes) -> Envelope:
    """Return the parts of an envelope."""
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Damaged("it is not an envelope") from error


def unseal(cipher: AESGCM, envelope: Envelope, place: Place) -> str:
    """Return the payload of an envelope that belongs to this place."""
    try:
        nonce, tag = _to_bytes(envelope.iv), _to_bytes(envelope.auth_tag)
        sealed = _to_bytes(envelope.encrypted) + tag
        if len(tag) != _TAG_BYTES:
            raise Damaged("its tag is cut")
        return cipher.decrypt(nonce, sealed, bind(place)).decode()
    except InvalidTag:
        raise Damaged("it was changed, or belongs to another message") from None
    except (binascii.Error, ValueError) as error:
        raise Damaged("it is not an envelope") from error


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _to_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_DECODER = msgspec.json.Decoder(Envelope)
