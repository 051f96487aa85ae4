"""One TLS connection: the protocol of the socket, and the transport of the edge's connection.

The edge's connection is made before the handshake. So a handshake counts as a connection, and the
edge ends a slow handshake like a slow head. Answers that a client does not read stay in the
socket's transport, which notifies the connection as it does without TLS.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any, cast

from queenmq.server.edge.answers import encode_refusal
from queenmq.server.edge.connection import Connection
from queenmq.server.edge.refusal import Refused
from queenmq.server.edge.shared import Edge

#: The first byte of every TLS connection.
_HANDSHAKE = 0x16
#: What is decrypted at a time: the largest record.
_RECORD_BYTES = 16 * 1024
#: What is encrypted at a time, so that a large answer is not in memory three times.
_PIECE_BYTES = 256 * 1024
logger = logging.getLogger(__name__)


class TlsLink(asyncio.Transport, asyncio.Protocol):
    """Belongs to one event loop; a new one for each client."""

    def __init__(self, edge: Edge, context: ssl.SSLContext) -> None:
        asyncio.Transport.__init__(self)
        self._edge = edge
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._connection = Connection(edge)
        self._socket: asyncio.Transport | None = None
        self._is_open = False
        #: Our side has closed. Later bytes are ignored.
        self._is_done = False
        self._is_first = True

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._connection.connection_made(self)

    def data_received(self, data: bytes) -> None:
        if self._is_done:
            return
        if self._is_first:
            self._is_first = False
            if data[0] != _HANDSHAKE:
                self._refuse_plain()
                return
        self._incoming.write(data)
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
            self._read()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            logger.debug("a TLS connection broke: %s", error, extra={"event": "tls_broke"})
            # Tell the client the reason, as far as TLS can.
            self._flush()
            self._end()

    def eof_received(self) -> bool | None:
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_done = True
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def _read(self) -> None:
        """Hand over everything that can be decrypted. Raises SSLWantReadError at its end."""
        while not self._is_done:
            data = self._tls.read(_RECORD_BYTES)
            if not data:
                # The client has announced its end, as clients do. Answer the same way, so that it
                # knows that no attacker has cut the connection.
                self.close()
                return
            self._connection.data_received(data)

    def _flush(self) -> None:
        if self._outgoing.pending and self._socket is not None and not self._socket.is_closing():
            self._socket.write(self._outgoing.read())

    def _refuse_plain(self) -> None:
        """Answer a client that does not speak TLS in its own words, which are likely HTTP."""
        error = Refused(400, "This port speaks TLS. Use https:// in place of http://.")
        self._edge.on_refusal(error)
        if self._socket is not None:
            self._socket.write(encode_refusal(error))
        self._end()

    def _end(self) -> None:
        self._is_done = True
        if self._socket is not None:
            self._socket.close()

    def _say_goodbye(self) -> None:
        """Announce the end to the client, so that it knows that nothing is missing."""
        if self._is_open and not self._is_done:
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                # The client's own close is not waited for.
                pass
            self._flush()
        self._is_done = True

    # What the connection calls.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_open:
            # A refusal before the handshake cannot be sent.
            self.abort()
            return
        if self._is_done:
            return
        view = memoryview(data)
        try:
            for start in range(0, len(view), _PIECE_BYTES):
                self._tls.write(view[start : start + _PIECE_BYTES])
                self._flush()
        except ssl.SSLError:
            self.abort()

    def close(self) -> None:
        self._say_goodbye()
        self._end()

    def can_write_eof(self) -> bool:
        return self._is_open

    def write_eof(self) -> None:
        self._say_goodbye()
        if self._socket is not None and not self._socket.is_closing():
            self._socket.write_eof()

    def abort(self) -> None:
        self._is_done = True
        if self._socket is not None:
            self._socket.abort()

    def is_closing(self) -> bool:
        return self._socket is None or self._socket.is_closing()

    def pause_reading(self) -> None:
        if self._socket is not None:
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        if self._socket is not None:
            self._socket.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._socket is not None:
            self._socket.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_size(self) -> int:
        return 0 if self._socket is None else self._socket.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._tls
        return default if self._socket is None else self._socket.get_extra_info(name, default)
