"""Ours: one client, HTTP and all; consumers pop and ack."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import queenmq
from benchmarks.peers.peer import Received, free_port, running_server

NAME = "Queen, pop and ack"
PROMISES = "order per partition, consumer groups, duplicate check, HTTP"

_QUEUE = "bench"


class Ours:
    """Every lane pushes to a partition of its own."""

    def __init__(self, server_pid: int, client: Any) -> None:
        self.server_pid = server_pid
        self._client = client

    async def push(self, lane: int, bodies: Sequence[str]) -> None:
        payloads = [json.loads(body) for body in bodies]
        await self._client.push(_QUEUE, payloads, partition=f"p{lane}")

    async def receive(self, lane: int, count: int) -> list[Received]:
        messages = await self._client.pop(_QUEUE, batch=count, wait=True, timeout_ms=200)
        return [Received(message, message.data) for message in messages]

    async def ack(self, lane: int, received: Sequence[Received]) -> None:
        await self._client.ack([one.handle for one in received])


@contextlib.asynccontextmanager
async def open_peer(home: Path, lanes: int) -> AsyncIterator[Ours]:
    port = free_port()
    command = [
        sys.executable, "-m", "queenmq", "serve", "--port", str(port),
        "--data-dir", str(home / "data"), "--log-level", "warning",
    ]  # fmt: skip
    async with running_server(command, port=port, home=home, environ=dict(os.environ)) as pid:
        async with queenmq.Queen(f"http://127.0.0.1:{port}") as client:
            yield Ours(pid, client)
