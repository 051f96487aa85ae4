"""A TCP proxy in front of a broker that plays a bad network: cuts, truncates, delays, refuses."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Coroutine

from tests.support.tcp_server import TcpServer, connected


class FaultyProxy:
    """Forwards bytes to one address. With a fault rate, connections end or stall at random.

    The random numbers have a seed, so a run can be repeated as far as timing allows.
    """

    def __init__(self, target: str, *, seed: int = 1) -> None:
        host, _, port = target.removeprefix("http://").rpartition(":")
        self._address = (host, int(port))
        self._random = random.Random(seed)
        self._writers: set[asyncio.StreamWriter] = set()
        self._server = TcpServer(self._serve)
        #: Share of answers' pieces that are cut off or held up.
        self.fault_rate = 0.0
        self.faults = 0
        #: The first line of each request.
        self.lines: list[str] = []
        #: So many next answers are dropped, and their connections closed.
        self.lose_answers = 0
        #: Answers to requests that name this are held back until `release`.
        self.hold_path: bytes | None = None
        self.held = 0
        self._released = asyncio.Event()

    def release(self) -> None:
        """Let the answers go that were held back."""
        self.hold_path = None
        self._released.set()

    @property
    def url(self) -> str:
        return f"http://{self._server.address}"

    async def listen(self) -> None:
        """Take connections, always on the same port."""
        await self._server.listen()

    async def refuse(self) -> None:
        """Take no more connections, and end those there are."""
        await self._server.close()

    def cut_all(self) -> None:
        """End all connections."""
        for writer in list(self._writers):
            writer.close()

    def retarget(self, target: str) -> None:
        """New connections go elsewhere."""
        host, _, port = target.removeprefix("http://").rpartition(":")
        self._address = (host, int(port))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with connected(*self._address) as (their_reader, their_writer):
            both, asked = {writer, their_writer}, list[bytes]()
            self._writers |= both
            try:
                await _until_one_ends(
                    self._pump(reader, their_writer, asked, is_answer=False),
                    self._pump(their_reader, writer, asked, is_answer=True),
                )
            finally:
                self._writers -= both

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: list[bytes],
        *,
        is_answer: bool,
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(1 << 16):
                if not is_answer:
                    asked[:] = [piece]
                    self.lines.append(piece.partition(b"\r\n")[0].decode("latin-1"))
                elif self.lose_answers > 0:
                    self.lose_answers -= 1
                    return
                elif self.hold_path is not None and self.hold_path in asked[0]:
                    self.held += 1
                    await self._released.wait()
                if self._random.random() < self.fault_rate:
                    self.faults += 1
                    if self._random.random() < 0.5:
                        # Part of a request, or of an answer to what was carried out.
                        writer.write(piece[: self._random.randrange(len(piece))])
                        await writer.drain()
                        return
                    await asyncio.sleep(self._random.random() * 0.2)
                writer.write(piece)
                await writer.drain()


async def _until_one_ends(*pumps: Coroutine[None, None, None]) -> None:
    tasks = [asyncio.ensure_future(pump) for pump in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def faulty_proxy(target: str, *, seed: int = 1) -> AsyncIterator[FaultyProxy]:
    """A proxy that listens."""
    proxy = FaultyProxy(target, seed=seed)
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.refuse()
