"""A TCP proxy in front of a server that drops everything without a word, as a cut network does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.support.tcp_server import connected, tcp_server


class BlackHole:
    """Forwards bytes to one address until it is cut. Connections stay open, new ones are taken,
    and nothing gets through.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._through = asyncio.Event()
        self._through.set()
        #: Where it listens, as `host:port`.
        self.address = ""

    def cut(self) -> None:
        self._through.clear()

    def mend(self) -> None:
        self._through.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._through.wait()
        async with connected(*self._target) as (their_reader, their_writer):
            await asyncio.gather(self._pump(reader, their_writer), self._pump(their_reader, writer))

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
    async with tcp_server(proxy.serve) as server:
        proxy.address = server.address
        yield proxy
