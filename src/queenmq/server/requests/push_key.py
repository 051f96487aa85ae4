"""Recognises a push request that is sent again. Pure."""

from __future__ import annotations

import hashlib
from uuid import UUID

import msgspec

from queenmq.engine.requests import RequestKey
from queenmq.errors import InvalidRequest
from queenmq.server.edge.head import Head
from queenmq.server.requests.checks import check_name

HEADER = b"idempotency-key"


def given_key(head: Head, in_body: str | None, *, length_max: int) -> str | None:
    """Return the key of a request, from a header or from the body."""
    header = head.get(HEADER)
    if header is None:
        return None if in_body is None else _check(in_body, length_max)
    try:
        in_header = header.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(
            "the header Idempotency-Key is not valid UTF-8; encode it as UTF-8"
        ) from None
    if in_body is not None and in_body != in_header:
        raise InvalidRequest(
            "the header Idempotency-Key and the field idempotencyKey differ; send one of them"
        )
    return _check(in_header, length_max)


def _check(key: str, length_max: int) -> str:
    return check_name("idempotencyKey", key, length_max=length_max)


def request_key(key: str, body: bytes, owner: str | tuple[str, ...] | None) -> RequestKey:
    """Return the key under which Queen remembers a push with this key and body.

    Keys of two owners never collide, so no caller can use up another caller's key.
    """
    kind = b"push" if owner is None else b"push of " + msgspec.json.encode(owner)
    return RequestKey(_hashed(kind + b"\0" + key.encode()), _hashed(body))


def _hashed(text: bytes) -> UUID:
    # Of the form of names that were hashed, which no message id has.
    return UUID(bytes=hashlib.sha256(text).digest()[:16], version=5)
