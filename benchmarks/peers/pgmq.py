"""pgmq by direct SQL over asyncpg: its functions from the Python package that ships them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import asyncpg

from benchmarks.database import queries
from benchmarks.peers.peer import Received, need_module, running_postgres

NAME = "pgmq by SQL"
PROMISES = "no HTTP, order per partition, consumer groups or duplicate check; consumers poll"


class Pgmq:
    """One connection per lane."""

    def __init__(self, server_pid: int, connections: Sequence[asyncpg.Connection]) -> None:
        self.server_pid = server_pid
        self._connections = connections

    async def push(self, lane: int, bodies: Sequence[str]) -> None:
        await self._connections[lane].fetch(queries()["pgmq_send"], bodies)

    async def receive(self, lane: int, count: int) -> list[Received]:
        rows = await self._connections[lane].fetch(queries()["pgmq_read"], count)
        return [Received(row["msg_id"], row["body"]) for row in rows]

    async def ack(self, lane: int, received: Sequence[Received]) -> None:
        ids = [one.handle for one in received]
        await self._connections[lane].fetch(queries()["pgmq_delete"], ids)


@contextlib.asynccontextmanager
async def open_peer(home: Path, lanes: int) -> AsyncIterator[Pgmq]:
    script = need_module("pgmq") / "sql" / "pgmq.sql"
    async with running_postgres(home) as (url, pid), contextlib.AsyncExitStack() as stack:
        connections = []
        for _ in range(lanes):
            connection = await asyncpg.connect(url)
            stack.push_async_callback(connection.close)
            connections.append(connection)
        await connections[0].execute(script.read_text())
        await connections[0].fetch(queries()["pgmq_create"])
        yield Pgmq(pid, connections)
