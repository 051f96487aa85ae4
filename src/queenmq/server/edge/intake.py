"""Assembles requests from the bytes of a connection. Knows neither sockets nor states."""

from __future__ import annotations

from queenmq.server.edge.bodies import IncomingBody, PlainBody
from queenmq.server.edge.chunked import ChunkedBody
from queenmq.server.edge.crowd import Crowd
from queenmq.server.edge.head import (
    CHUNKED,
    Head,
    HeadReader,
    check_unfinished,
    refuse_head,
)

_END_OF_HEAD = b"\r\n\r\n"


class Intake:
    """The part of a request that has arrived, and the bytes beyond it.

    All methods may raise Refused.
    """

    __slots__ = ("_body", "_crowd", "_reader", "_searched", "ahead", "body_bytes", "head")

    def __init__(self, reader: HeadReader, crowd: Crowd) -> None:
        self._reader = reader
        self._crowd = crowd
        self._searched = 0
        self._body: IncomingBody | None = None
        #: Bytes that were read and belong to no complete part yet.
        self.ahead: bytes | bytearray = b""
        #: The head of the current request.
        self.head: Head | None = None
        #: Bytes of the body that have arrived. They count towards all bodies in memory.
        self.body_bytes = 0

    def keep(self, data: bytes) -> None:
        """Append bytes to those read before."""
        if not isinstance(self.ahead, bytearray):
            self.ahead = bytearray(self.ahead)
        self.ahead += data

    def read_head(self, data: bytes | bytearray) -> bytes | None:
        """Read a head from the start of these bytes. Return the rest.

        Return None, and keep them all, while the head is not complete.
        """
        end = data.find(_END_OF_HEAD, self._searched)
        limits = self._reader.limits
        if end < 0:
            self._searched = max(0, len(data) - 3)
            self.ahead = data
            check_unfinished(data, limits)
            return None
        end += 4
        self._searched = 0
        self.ahead = b""
        if end > limits.bytes_max:
            raise refuse_head(limits)
        self.head = self._reader.read(bytes(data[:end]))
        return bytes(data[end:]) if end < len(data) else b""

    def begin_body(self, length: int) -> None:
        """Expect a body of this length, or a chunked one."""
        self._crowd.check_room(max(length, 0))
        self._body = (
            ChunkedBody(self._reader.limits.body_bytes_max)
            if length == CHUNKED
            else PlainBody(length)
        )

    def read_body(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Return the body and the rest, or None while it is incomplete."""
        body = self._body
        assert body is not None
        rest = body.feed(bytes(self.ahead) + data if self.ahead else data)
        held = body.held
        self._crowd.check_room(held - self.body_bytes)
        self._crowd.body_bytes += held - self.body_bytes
        self.body_bytes = held
        if not body.is_complete:
            self.ahead = rest
            return None
        whole = body.join()
        self.forget_body()
        self.ahead = b""
        return whole, rest

    def forget_body(self) -> None:
        """Drop the bytes of an incomplete body."""
        self._crowd.body_bytes -= self.body_bytes
        self.body_bytes = 0
        self._body = None

    def forget(self) -> None:
        """Drop everything. No further request is read."""
        self.forget_body()
        self.ahead = b""
