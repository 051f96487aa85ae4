"""A TCP server for tests. It owns its connections: when it closes, none of them stays open.

A connection that outlives its event loop is reported by the garbage collector, at any time later
and in any other test. So both ends of a proxy are closed in the same way, also when the loop is
about to end and their tasks are cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TcpServer:
    """Runs `serve` for each connection. A connection ends with it."""

    def __init__(self, serve: Serve, *, context: ssl.SSLContext | None = None) -> None:
        self._serve = serve
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def listen(self) -> None:
        """Accept connections, on the same port as before if there was one."""
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", self.port, ssl=self._context
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop accepting connections, and end all that are open. Can be called twice."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._own(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _own(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            async with _closing(reader, writer):
                await self._serve(reader, writer)


@contextlib.asynccontextmanager
async def tcp_server(
    serve: Serve, *, context: ssl.SSLContext | None = None
) -> AsyncIterator[TcpServer]:
    """Yield a server that listens."""
    server = TcpServer(serve, context=context)
    await server.listen()
    try:
        yield server
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def connected(host: str, port: int) -> AsyncIterator[Streams]:
    """Yield a connection, and close it afterwards."""
    reader, writer = await asyncio.open_connection(host, port)
    async with _closing(reader, writer) as streams:
        yield streams


@contextlib.asynccontextmanager
async def _closing(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> AsyncIterator[Streams]:
    """Close a connection: at once if its task is cancelled, else when its bytes are sent."""
    try:
        yield reader, writer
    except BaseException:
        writer.transport.abort()
        raise
    writer.close()


async def join(near: Streams, far: Streams) -> None:
    """Forward bytes both ways until both sides have ended."""
    await asyncio.gather(_forward(near[0], far[1]), _forward(far[0], near[1]))


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
    writer.close()
