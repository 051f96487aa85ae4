"""An HTTP server that says what it is told to: busy answers, nonsense, connections cut off.

It stands for whatever is between a client and a broker, or for a broker in trouble; it knows
nothing of queues. Each request takes the next step of the script; after the last one all take that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any


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


class ScriptedServer:
    """Answers by script; `seen` has what was asked."""

    def __init__(self, *script: Say | Cut | Silence) -> None:
        self.script = list(script)
        self.seen: list[Seen] = []
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
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
                writer.write(step.encode())
                await writer.drain()
        self._writers.discard(writer)
        writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        pairs = (line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        self.seen.append(Seen(method, path, headers, json.loads(content) if content else None))

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


@contextlib.asynccontextmanager
async def scripted(*script: Say | Cut | Silence) -> AsyncIterator[ScriptedServer]:
    """A server that follows the script."""
    one = ScriptedServer(*script)
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield one
    finally:
        server.close()
        one.close()
        await server.wait_closed()
