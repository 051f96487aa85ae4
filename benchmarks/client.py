"""A bare HTTP client on a keep-alive connection, light enough not to be what is measured."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import NamedTuple, Self

from benchmarks.broker import BenchmarkError

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
#: Connections opened at the same time: fewer than the broker's queue of new ones.
_OPENING = 100


class Answer(NamedTuple):
    """Status and body."""

    status: int
    body: bytes


class Connection:
    """One connection; a request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: tuple[str, int]) -> Self:
        return cls(*await asyncio.open_connection(*address))

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def get(self, path: str) -> Answer:
        return await self._send(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())

    async def post(self, path: str, body: bytes) -> Answer:
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        return await self._send(head.encode() + body)

    async def _send(self, request: bytes) -> Answer:
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await self._reader.readexactly(int(length[1])) if length else b""
        return Answer(int(head[9:12]), body)


@contextlib.asynccontextmanager
async def connections(address: tuple[str, int], count: int) -> AsyncIterator[list[Connection]]:
    """That many open connections."""
    opened: list[Connection] = []
    try:
        while len(opened) < count:
            wanted = min(_OPENING, count - len(opened))
            opened += await asyncio.gather(*(Connection.open(address) for _ in range(wanted)))
        yield opened
    finally:
        await asyncio.gather(*(one.close() for one in opened))


def check(answer: Answer, status: int) -> Answer:
    """The answer, if it is what the experiment needs."""
    if answer.status != status:
        raise BenchmarkError(f"status {answer.status} instead of {status}: {answer.body[:300]!r}")
    return answer
