"""Collects a body of known length. Pure. See `chunked.py` for chunked bodies."""

from __future__ import annotations

from typing import Protocol


class IncomingBody(Protocol):
    """A body that is arriving, however it is framed."""

    @property
    def held(self) -> int:
        """Return how many bytes of the body have arrived."""

    @property
    def is_complete(self) -> bool:
        """Return whether the body is complete."""

    def feed(self, data: bytes) -> bytes:
        """Consume the bytes of the body and return the rest."""

    def join(self) -> bytes:
        """Return the body."""


class PlainBody:
    """A body with a Content-Length."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._body = bytearray()

    @property
    def held(self) -> int:
        return len(self._body)

    @property
    def is_complete(self) -> bool:
        return len(self._body) == self._length

    def feed(self, data: bytes) -> bytes:
        missing = self._length - len(self._body)
        self._body += data[:missing]
        return data[missing:]

    def join(self) -> bytes:
        return bytes(self._body)
