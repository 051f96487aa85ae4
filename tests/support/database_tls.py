"""TLS in front of a PostgreSQL that was built without it: as a load balancer ends it.

A client asks for TLS with eight bytes, gets an `S`, and shakes hands. One that does not ask is
turned away, as a server does with nothing but `hostssl` in its pg_hba.conf.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
import threading
from collections.abc import Iterator

from tests.support.tcp_server import TcpServer, connected, join

_SSL_REQUEST = struct.pack("!ii", 8, 80877103)


class DatabaseTls:
    """A listener in a thread of its own."""

    def __init__(self, backend: str, context: ssl.SSLContext) -> None:
        self._host, _, self._port = backend.rpartition(":")
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="database-tls", daemon=True)
        self.port = 0
        #: Connections that shook hands, and those that did not.
        self.secure = 0
        self.refused = 0

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = TcpServer(self._serve)
        self._loop.run_until_complete(server.listen())
        self.port = server.port
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(server.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readexactly(8) != _SSL_REQUEST:
            self.refused += 1
            return
        writer.write(b"S")
        try:
            await writer.start_tls(self._context)
        except OSError:
            self.refused += 1
            return
        self.secure += 1
        async with connected(self._host, int(self._port)) as back:
            await join((reader, writer), back)


@contextlib.contextmanager
def database_tls(backend: str, context: ssl.SSLContext) -> Iterator[DatabaseTls]:
    """TLS in front of the server at `host:port`."""
    front = DatabaseTls(backend, context)
    front.start()
    try:
        yield front
    finally:
        front.stop()
