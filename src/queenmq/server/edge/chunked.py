"""Decodes a chunked body (RFC 9112, section 7.1). Pure.

It is written by hand, because llhttp's binding does not say where in its input a message ends, and
bytes of the next request may follow in the same read. It is as strict as llhttp, and a test
compares the two.
"""

from __future__ import annotations

import enum
import re

from queenmq.server.edge.refusal import Refused

#: A chunk's size line with its extensions, and all trailers together.
_LINE_BYTES_MAX = 4_096
#: Trailers are read and dropped, because nothing here uses them.
_TRAILERS_BYTES_MAX = 8_192
#: No body is larger than 2^60 bytes, so a longer size is invalid.
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_EXTENSION = rb";" + _TOKEN + rb"(?:=(?:" + _TOKEN + rb'|"[\t\x20\x21\x23-\x7e\x80-\xff]*"))?'
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:" + _EXTENSION + rb")*")
_TRAILER = re.compile(_TOKEN + rb":[\t\x20-\x7e\x80-\xff]*")


class _Part(enum.Enum):
    SIZE = "size"
    DATA = "data"
    DATA_END = "data end"
    TRAILER = "trailer"
    DONE = "done"


class ChunkedBody:
    """One body that is arriving."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._part = _Part.SIZE
        self._missing = 0
        self._trailer_bytes = 0
        self._body = bytearray()
        #: Bytes that the chunks so far have announced.
        self._size = 0

    @property
    def held(self) -> int:
        """Return how many bytes of the body have arrived."""
        return len(self._body)

    @property
    def is_complete(self) -> bool:
        return self._part is _Part.DONE

    def join(self) -> bytes:
        """Return the body."""
        return bytes(self._body)

    def feed(self, data: bytes) -> bytes:
        """Consume the bytes of the body. Return the rest, to be fed again with more bytes.

        The rest of an incomplete body is shorter than a line. Raise Refused when the framing is
        wrong or the body too large.
        """
        at = 0
        while self._part is not _Part.DONE:
            if self._part is _Part.DATA:
                piece = data[at : at + self._missing]
                if not piece:
                    break
                at += len(piece)
                self._take(piece)
                continue
            if self._part is _Part.DATA_END:
                if len(data) - at < 2:
                    _require(b"\r\n".startswith(data[at:]))
                    break
                _require(data[at : at + 2] == b"\r\n")
                at += 2
                self._part = _Part.SIZE
                continue
            end = data.find(b"\r\n", at, at + _LINE_BYTES_MAX)
            if end < 0:
                _require(len(data) - at < _LINE_BYTES_MAX)
                break
            self._take_line(data[at:end])
            at = end + 2
        return data[at:]

    def _take(self, piece: bytes) -> None:
        self._body += piece
        self._missing -= len(piece)
        if not self._missing:
            self._part = _Part.DATA_END

    def _take_line(self, line: bytes) -> None:
        if self._part is _Part.SIZE:
            found = _SIZE.fullmatch(line)
            _require(found is not None)
            assert found is not None
            self._missing = int(found[1], 16)
            self._size += self._missing
            if self._size > self._bytes_max:
                raise Refused(
                    413,
                    f"The body is larger than {self._bytes_max} bytes."
                    " Send fewer items per request.",
                )
            self._part = _Part.DATA if self._missing else _Part.TRAILER
        elif not line:
            self._part = _Part.DONE
        else:
            self._trailer_bytes += len(line) + 2
            _require(self._trailer_bytes <= _TRAILERS_BYTES_MAX)
            _require(_TRAILER.fullmatch(line) is not None)


def _require(is_right: bool) -> None:
    if not is_right:
        raise Refused(400, "The chunks of the body are malformed. Check sizes and line ends.")
