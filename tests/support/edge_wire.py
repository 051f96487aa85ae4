"""A connection of the edge without a socket: bytes in, answers out, the application scripted."""

from __future__ import annotations

import asyncio
import gzip
import re
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from queenmq.server.edge.connection import Connection
from queenmq.server.edge.crowd import Crowd, CrowdLimits
from queenmq.server.edge.exchange import Exchange
from queenmq.server.edge.head import HeadLimits, HeadReader
from queenmq.server.edge.shared import Edge

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
_STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Z][A-Za-z' -]*\r\n")
_THREADS = ThreadPoolExecutor(2, thread_name_prefix="edge")


class RecordingTransport(asyncio.Transport):
    """Records what the event loop would do with the connection."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written = b""
        self.is_reading = True
        self.is_closed = False
        self.has_ended = False
        #: What the network does when something is written.
        self.on_write: Callable[[], None] | None = None

    def write(self, data: Any) -> None:
        assert not self.is_closed and not self.has_ended, "wrote after the end"
        self.written += bytes(data)
        if self.on_write is not None:
            self.on_write()

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

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0, "every byte that waits is told"

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True


class GatedThreads(ThreadPoolExecutor):
    """One thread that begins nothing until it is told to."""

    def __init__(self) -> None:
        super().__init__(1)
        self._entered = threading.Event()
        self._gate = threading.Event()
        super().submit(self._wait)

    def _wait(self) -> None:
        self._entered.set()
        assert self._gate.wait(30)

    def open(self) -> None:
        """Let what waits begin."""
        self._gate.set()

    async def wait_until_entered(self) -> None:
        """Return when the thread is up, so that all else waits behind the gate."""
        await asyncio.to_thread(self._entered.wait, 30)


class EdgeWire:
    """One client's connection, and every exchange that reached the application."""

    def __init__(
        self,
        app: Callable[[Exchange], None] | None = None,
        *,
        head_limits: HeadLimits = HEAD_LIMITS,
        crowd: Crowd | None = None,
        gzip_bytes_min: int = 1_000_000,
        threads: Executor | None = None,
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
            threads=threads or _THREADS,
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

    def send_encoded(self, body: bytes, *, then: bytes = b"") -> None:
        """Deliver a request with this body in gzip, and these bytes behind it."""
        encoded = gzip.compress(body)
        head = (
            b"POST /z HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
        )
        self.send(head % len(encoded) + encoded + then)

    def leave(self) -> None:
        """Close the connection from the client's side."""
        if not self.transport.is_closed:
            self.connection.eof_received()
        self.connection.connection_lost(None)

    @property
    def statuses(self) -> list[int]:
        """The statuses of the answers so far."""
        # A sentence may quote a request, but never across lines.
        return [int(status) for status in _STATUS_LINE.findall(self.transport.written)]


async def turn() -> None:
    """Let what was left for the next turns of the loop happen."""
    for _ in range(50):
        await asyncio.sleep(0)
