"""Redis Streams with one consumer group; every write is synced to disk before its answer."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from benchmarks.peers.peer import Received, free_port, need_module, need_program, running_server

NAME = "Redis Streams"
PROMISES = "all data in memory, one stream is one lane, no duplicate check; appendfsync always"

_STREAM, _GROUP = "bench", "g"


class RedisStreams:
    """One connection per lane."""

    def __init__(self, server_pid: int, clients: Sequence[object]) -> None:
        self.server_pid = server_pid
        self._clients = clients

    async def push(self, lane: int, bodies: Sequence[str]) -> None:
        pipeline = self._clients[lane].pipeline(transaction=False)
        for body in bodies:
            pipeline.xadd(_STREAM, {"b": body})
        await pipeline.execute()

    async def receive(self, lane: int, count: int) -> list[Received]:
        found = await self._clients[lane].xreadgroup(
            _GROUP, f"c{lane}", {_STREAM: ">"}, count=count, block=100
        )
        return [Received(key, fields["b"]) for _, rows in found or () for key, fields in rows]

    async def ack(self, lane: int, received: Sequence[Received]) -> None:
        await self._clients[lane].xack(_STREAM, _GROUP, *(one.handle for one in received))


@contextlib.asynccontextmanager
async def open_peer(home: Path, lanes: int) -> AsyncIterator[RedisStreams]:
    need_module("redis")
    from redis.asyncio import Redis

    port = free_port()
    command = [
        need_program("redis-server", "redis-server"), "--port", str(port), "--bind", "127.0.0.1",
        "--dir", str(home), "--appendonly", "yes", "--appendfsync", "always", "--save", "",
    ]  # fmt: skip
    async with running_server(command, port=port, home=home) as pid:
        async with contextlib.AsyncExitStack() as stack:
            clients = []
            for _ in range(lanes):
                client = Redis(port=port, decode_responses=True, single_connection_client=True)
                clients.append(await stack.enter_async_context(client))
            await clients[0].xgroup_create(_STREAM, _GROUP, id="0", mkstream=True)
            yield RedisStreams(pid, clients)
