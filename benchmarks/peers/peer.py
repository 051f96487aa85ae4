"""The interface of a peer, and the start of its server."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from benchmarks.broker import BenchmarkError
from queenmq.storage.embedded import EmbeddedPostgres

_START_S = 60
_STOP_S = 20


class Missing(BenchmarkError):
    """The peer is not installed; the text says what is missing."""


class Received(NamedTuple):
    """A message, and what its peer needs to ack it."""

    handle: Any
    #: JSON, as text or as what the peer's client has made of it.
    body: Any


class Peer(Protocol):
    """A running peer. A lane is one producer or consumer with a connection of its own."""

    #: The root of all processes of the server.
    server_pid: int

    async def push(self, lane: int, bodies: Sequence[str]) -> None:
        """Store messages; they survive a crash of the server once this returns."""

    async def receive(self, lane: int, count: int) -> list[Received]:
        """Take up to so many messages. Empty when there are none after a short wait."""

    async def ack(self, lane: int, received: Sequence[Received]) -> None:
        """Settle messages."""


def need_module(name: str) -> Path:
    """Return where a Python package is. Raises Missing."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise Missing(
            f"Python package {name} is not installed:"
            " pip install -r benchmarks/peers/requirements.txt"
        )
    return Path(spec.submodule_search_locations[0])


def need_program(name: str, package: str, *, path: str | None = None) -> str:
    """Return where a program is. Raises Missing."""
    found = shutil.which(name, path=path)
    if found is None:
        raise Missing(f"{name} is not installed: apt-get install {package}")
    return found


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.asynccontextmanager
async def running_server(
    command: Sequence[str], *, port: int, home: Path, environ: Mapping[str, str] | None = None
) -> AsyncIterator[int]:
    """A server that listens on this port; its process id."""
    with (home / "server.log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=home, env=environ, start_new_session=True
        )
    try:
        await _wait_for(process, port, home)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(process.wait, _STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _wait_for(process: subprocess.Popen[bytes], port: int, home: Path) -> None:
    async with asyncio.timeout(_START_S):
        while process.poll() is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return
    raise BenchmarkError(f"the server did not start: {(home / 'server.log').read_text()[-500:]}")


@contextlib.asynccontextmanager
async def running_postgres(home: Path) -> AsyncIterator[tuple[str, int]]:
    """A PostgreSQL as we run it, without our schema; its URL and process id."""
    with EmbeddedPostgres(home / "data", max_connections=100) as server:
        pid = int((home / "data" / "postgres" / "postmaster.pid").read_text().split()[0])
        yield server.socket_url, pid
