"""A connection of the edge without a socket: bytes in, answers out, the application scripted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from queenmq.server.edge.connection import Connection, Edge
from queenmq.server.edge.crowd import Crowd, CrowdLimits
from queenmq.server.edge.exchange import Exchange
from queenmq.server.edge.head import HeadLimits, HeadReader

HEAD_LIMITS = HeadLimits(
    bytes_max=4_096,
    line_bytes_max=1_000,
    header_bytes_max=1_000,
    headers_max=20,
    body_bytes_max=100_000,
)
CROWD_LIMITS = CrowdLimits(
    connections_max=100,
    per_address_max=100,
    bodies_bytes_max=200_000,
    keep_alive_s=75,
    head_s=10,
    body_bytes_per_s=1_024,
    unread_s=30,
)


class RecordingTransport(asyncio.Transport):
    """What the event loop would do with the connection."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written = b""
        self.is_reading = True
        self.is_closed = False
        self.has_ended = False

    def write(self, data: Any) -> None:
        assert not self.is_closed and not self.has_ended, "wrote after the end"
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_ended = True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True


class EdgeWire:
    """One client's connection, and every exchange that reached the application."""

    def __init__(
        self,
        app: Callable[[Exchange], None] | None = None,
        *,
        head_limits: HeadLimits = HEAD_LIMITS,
        crowd: Crowd | None = None,
        gzip_bytes_min: int = 1_000_000,
    ) -> None:
        self.exchanges: list[Exchange] = []
        self.errors: list[BaseException] = []
        self._app = app
        self.crowd = Crowd(CROWD_LIMITS) if crowd is None else crowd
        edge = Edge(
            crowd=self.crowd,
            reader=HeadReader(head_limits, lambda _: ()),
            app=self._take,
            on_error=self._fail,
            gzip_bytes_min=gzip_bytes_min,
        )
        self.transport = RecordingTransport()
        self.connection = Connection(edge)
        self.connection.connection_made(self.transport)

    def _take(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        if self._app is not None:
            self._app(exchange)

    def _fail(self, exchange: Exchange, error: BaseException) -> None:
        self.errors.append(error)
        exchange.answer(500, b"{}")

    def send(self, data: bytes, *, cut: int = 0) -> None:
        """Deliver the bytes, in pieces of this size if one is given."""
        size = cut or len(data) or 1
        for at in range(0, len(data), size):
            if not self.transport.is_closed:
                self.connection.data_received(data[at : at + size])

    def leave(self) -> None:
        """Close the connection from the client's side."""
        if not self.transport.is_closed:
            self.connection.eof_received()
        self.connection.connection_lost(None)

    @property
    def statuses(self) -> list[int]:
        """The statuses of the answers so far."""
        parts = self.transport.written.split(b"HTTP/1.1 ")[1:]
        return [int(part[:3]) for part in parts]


async def turn() -> None:
    """Let what was left for the next turns of the loop happen."""
    for _ in range(50):
        await asyncio.sleep(0)
