"""A TCP proxy in front of a server that drops everything without a word, as a cut network does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class BlackHole:
    """Forwards bytes to one address until it is cut. Connections stay open, new ones are taken,
    and nothing gets through.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._through = asyncio.Event()
        self._through.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        self._through.clear()

    def mend(self) -> None:
        self._through.set()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            await self._through.wait()
            their_reader, their_writer = await asyncio.open_connection(*self._target)
            writers.append(their_writer)
            await asyncio.gather(self._pump(reader, their_writer), self._pump(their_reader, writer))
        except OSError:
            pass
        finally:
            for one in writers:
                one.close()
                with contextlib.suppress(OSError):
                    await one.wait_closed()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(1 << 16):
                await self._through.wait()
                writer.write(piece)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def black_hole(target: str) -> AsyncIterator[BlackHole]:
    """A proxy that listens."""
    proxy = BlackHole(target)
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.close()
