"""Encodes and decodes JSON: with msgspec, or a user's object with `dumps` and `loads`."""

from __future__ import annotations

import functools
from typing import Any, Protocol

import msgspec

from queenmq import wire
from queenmq.client.http.finite import check_finite
from queenmq.client.http.payloads import cut_out, put_back


class Json(Protocol):
    """The interface of a JSON library. The module `json` and orjson have it."""

    def dumps(self, value: Any, /) -> str | bytes: ...

    def loads(self, text: bytes, /) -> Any: ...


@functools.cache
def _decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(wanted)


class Codec:
    """Encodes requests and decodes answers."""

    def __init__(self, json: Json | None) -> None:
        self._json = json

    def encode(self, value: Any) -> bytes:
        if self._json is None:
            return wire.encode(value)
        text = self._json.dumps(value)
        return text.encode() if isinstance(text, str) else text

    def encode_payloads(self, value: Any) -> bytes:
        """Encode a request with payloads. Raise ValueError for a number that is not finite."""
        text = self.encode(value)
        if self._json is None:
            check_finite(value, text)
        return text

    def decode(self, body: bytes, wanted: Any = Any) -> Any:
        """Return the value in an answer. Unreadable payloads do not affect the others.

        Raises ValueError if the body is not such a value.
        """
        try:
            return self._decode(body, wanted)
        except (ValueError, RecursionError) as error:
            skeleton, payloads = cut_out(body)
            if not payloads:
                raise ValueError(str(error)) from error
        return put_back(self._decode(skeleton, wanted), payloads, self._decode)

    def _decode(self, body: bytes, wanted: Any = Any) -> Any:
        if self._json is None:
            return _decoder(wanted).decode(body)
        return msgspec.convert(self._json.loads(body), wanted)
