"""An HTTP server that says what it is told to: busy answers, nonsense, connections cut off.

It stands for whatever is between a client and a broker, or for a broker in trouble; it knows
nothing of queues. Each request takes the next step of the script; after the last one all take that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.tcp_server import tcp_server


@dataclass(frozen=True)
class Say:
    """An answer."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        content = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        if self.status == 204:
            content = b""
        lines = [f"HTTP/1.1 {self.status} X", f"content-length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + content


@dataclass(frozen=True)
class Verbatim:
    """Bytes as they are, in pieces; then, if asked for, the end of the connection."""

    pieces: tuple[bytes, ...]
    then_close: bool = False


@dataclass(frozen=True)
class Cut:
    """No answer: the connection is closed, after the first bytes of an answer if there is one."""

    answer: Say | None = None
    after_bytes: int = 0


@dataclass(frozen=True)
class Silence:
    """No answer, ever."""


@dataclass(frozen=True)
class Seen:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


Step = Say | Verbatim | Cut | Silence


class ScriptedServer:
    """Answers by script; `seen` has what was asked."""

    def __init__(self, *script: Step) -> None:
        self.script = list(script)
        self.seen: list[Seen] = []
        self.url = ""
        #: Connections so far, and those open now.
        self.connections = 0
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def open_connections(self) -> int:
        return len(self._writers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                await self._read(reader)
                step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                if isinstance(step, Silence):
                    await reader.read()
                    break
                if isinstance(step, Cut):
                    if step.answer is not None:
                        writer.write(step.answer.encode()[: step.after_bytes])
                        await writer.drain()
                    break
                if isinstance(step, Verbatim):
                    for piece in step.pieces:
                        writer.write(piece)
                        await writer.drain()
                        # The next piece comes with a read of its own.
                        await asyncio.sleep(0.01)
                    if step.then_close:
                        break
                    continue
                writer.write(step.encode())
                await writer.drain()
        finally:
            self._writers.discard(writer)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        pairs = (line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        self.seen.append(Seen(method, path, headers, json.loads(content) if content else None))

    def close(self) -> None:
        """End all connections."""
        for writer in self._writers:
            writer.close()

    def blurt(self, text: bytes) -> None:
        """Say something on all connections that nobody has asked for."""
        for writer in self._writers:
            writer.write(text)


@contextlib.asynccontextmanager
async def scripted(
    *script: Step, context: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedServer]:
    """A server that follows the script; with a context it speaks TLS."""
    one = ScriptedServer(*script)
    async with tcp_server(one.serve, context=context) as server:
        one.url = f"{'http' if context is None else 'https'}://{server.address}"
        yield one
