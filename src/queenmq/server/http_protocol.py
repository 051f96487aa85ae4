"""How bytes become requests and answers become bytes: uvicorn's protocol with a few changes.

The request line and headers have a bound, and what is not HTTP is refused in JSON. A handler may
ask to be told when its caller hangs up. An answer leaves in one write, and the CORS headers, the
same on every answer, are added to it as bytes: uvicorn would check them one by one, for each
request.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from queenmq.server.asgi import ON_LOST

_CORS = (
    b"access-control-allow-origin: *\r\n"
    b"access-control-allow-methods: GET, POST, PUT, DELETE, OPTIONS\r\n"
    b"access-control-allow-headers: Content-Type, Authorization\r\n"
    b"access-control-max-age: 86400\r\n"
)
_END = b"\r\n\r\n"


class OneWriteTransport:
    """Sends the head of an answer together with its body: one system call instead of two."""

    __slots__ = ("_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Hold back a head; an interim answer (1xx) has no body to wait for."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 ") and data.endswith(_END) and data[9:10] != b"1":
            self._head = data[:-2] + _CORS + b"\r\n"
            return
        self._transport.write(data)

    def flush(self) -> None:
        """Send a head that no body followed."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""


def bounded_protocol(header_bytes_max: int) -> type[HttpToolsProtocol]:
    """uvicorn's parser takes headers of any size; this one hangs up instead of collecting them."""

    class BoundedHttpProtocol(HttpToolsProtocol):
        _header_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(cast(asyncio.Transport, OneWriteTransport(transport)))

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            # Whoever works on a request can be told at once, without a task that waits for it.
            # No request has come yet when there is no cycle.
            cycle: RequestResponseCycle | None = self.cycle
            scope = {} if cycle is None else cast(dict[str, Any], cycle.scope)
            if on_lost := scope.pop(ON_LOST, None):
                on_lost()

        def on_response_complete(self) -> None:
            cast(OneWriteTransport, self.transport).flush()
            super().on_response_complete()

        def on_message_begin(self) -> None:
            self._header_bytes = 0
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value))
            super().on_header(name, value)

        def _count(self, size: int) -> None:
            self._header_bytes += size
            if self._header_bytes > header_bytes_max:
                self._refuse(
                    b"431 Request Header Fields Too Large",
                    b'{"error":"the request line and headers are too large; shorten them"}',
                )

        def send_400_response(self, msg: str) -> None:
            self._refuse(
                b"400 Bad Request",
                b'{"error":"the request is not well-formed HTTP; check its headers and length"}',
            )

        def _refuse(self, status: bytes, body: bytes) -> None:
            if not self.transport.is_closing():
                head = (
                    b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
                    b"connection: close\r\n\r\n" % (status, len(body))
                )
                self.transport.write(head)
                self.transport.write(body)
                self.transport.close()

    return BoundedHttpProtocol
