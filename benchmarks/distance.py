"""A TCP proxy that puts a distance between a broker and its database.

Everything sent to the database arrives later by the whole round trip, and answers pass at once. The
proxy runs in a thread of its own, on a loop that can wait for less than a millisecond: the usual
one rounds up to whole milliseconds, which a distance of 1 ms would not survive.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
from collections import deque
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit


class Distance:
    """A proxy in front of one database. `round_trip_ms` may change while it runs."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        self._port = 0
        self.round_trip_ms = 0.0

    @property
    def url(self) -> str:
        """Return the address of the database as seen from here."""
        account = self._url.netloc.rpartition("@")[0]
        place = f"{account}@127.0.0.1:{self._port}" if account else f"127.0.0.1:{self._port}"
        return urlunsplit(self._url._replace(netloc=place))

    def run(self, is_ready: threading.Event) -> None:
        """Forward connections until `stop`."""
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            self._loop.create_server(lambda: _Near(self, self._loop), "127.0.0.1", 0)
        )
        self._port = server.sockets[0].getsockname()[1]
        is_ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def stop(self) -> None:
        """End the proxy and all of its connections; callable from any thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def connect(self, near: _Near) -> _Far:
        """Open the connection to the database that belongs to one from the broker."""
        host, port = self._url.hostname or "127.0.0.1", self._url.port or 5432
        _, far = await self._loop.create_connection(lambda: _Far(near), host, port)
        return far


class _Near(asyncio.Protocol):
    """A connection from the broker: holds up what it sends."""

    def __init__(self, distance: Distance, loop: asyncio.AbstractEventLoop) -> None:
        self._distance = distance
        self._loop = loop
        self._far: asyncio.Task[_Far] | None = None
        self._pieces: deque[bytes] = deque()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._far = self._loop.create_task(self._distance.connect(self))
        self._far.add_done_callback(lambda _: self._forward())

    def data_received(self, data: bytes) -> None:
        # One timer per piece, all of the same length: pieces keep their order.
        self._loop.call_later(self._distance.round_trip_ms / 1000, self._arrive, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._loop.call_later(self._distance.round_trip_ms / 1000, self._hang_up)

    def _arrive(self, data: bytes) -> None:
        self._pieces.append(data)
        self._forward()

    def _forward(self) -> None:
        if self._far is None or not self._far.done():
            return
        if self._far.cancelled() or self._far.exception() is not None:
            assert self.transport is not None
            self.transport.close()
            return
        transport = self._far.result().transport
        while self._pieces and transport is not None:
            transport.write(self._pieces.popleft())

    def _hang_up(self) -> None:
        if self._far is not None and self._far.done() and not self._far.exception():
            transport = self._far.result().transport
            if transport is not None:
                transport.close()


class _Far(asyncio.Protocol):
    """A connection to the database: answers pass at once."""

    def __init__(self, near: _Near) -> None:
        self._near = near
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self._near.transport is not None:
            self._near.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._near.transport is not None:
            self._near.transport.close()


@contextlib.contextmanager
def distant(url: str) -> Iterator[Distance]:
    """A proxy in front of this database."""
    distance = Distance(url)
    is_ready = threading.Event()
    thread = threading.Thread(target=distance.run, args=(is_ready,), name="distance")
    thread.start()
    is_ready.wait()
    try:
        yield distance
    finally:
        distance.stop()
        thread.join()
