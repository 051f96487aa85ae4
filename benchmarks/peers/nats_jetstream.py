"""NATS JetStream: one file stream, pull consumers that share one durable consumer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from benchmarks.peers.peer import Received, free_port, need_module, need_program, running_server

NAME = "NATS JetStream"
PROMISES = "file store, synced to disk every two minutes: a crash may lose what was confirmed"

_STREAM, _SUBJECT, _GROUP = "bench", "bench.messages", "g"


class NatsJetStream:
    """One connection and one pull subscription per lane."""

    def __init__(self, server_pid: int, streams: Sequence[object], pulls: Sequence[object]) -> None:
        self.server_pid = server_pid
        self._streams = streams
        self._pulls = pulls

    async def push(self, lane: int, bodies: Sequence[str]) -> None:
        stream = self._streams[lane]
        await asyncio.gather(*(stream.publish(_SUBJECT, body.encode()) for body in bodies))

    async def receive(self, lane: int, count: int) -> list[Received]:
        try:
            found = await self._pulls[lane].fetch(count, timeout=0.2)
        except TimeoutError:
            return []
        return [Received(one, one.data.decode()) for one in found]

    async def ack(self, lane: int, received: Sequence[Received]) -> None:
        await asyncio.gather(*(one.handle.ack_sync() for one in received))


@contextlib.asynccontextmanager
async def open_peer(home: Path, lanes: int) -> AsyncIterator[NatsJetStream]:
    need_module("nats")
    import nats

    port = free_port()
    program = need_program("nats-server", "nats-server", path="/usr/sbin:/usr/bin:/usr/local/bin")
    command = [
        program, "--addr", "127.0.0.1", "--port", str(port), "--jetstream", "--store_dir", str(home)
    ]  # fmt: skip
    async with running_server(command, port=port, home=home) as pid:
        async with contextlib.AsyncExitStack() as stack:
            streams, pulls = [], []
            for _ in range(lanes):
                client = await nats.connect(f"nats://127.0.0.1:{port}")
                stack.push_async_callback(client.close)
                streams.append(client.jetstream())
            await streams[0].add_stream(name=_STREAM, subjects=[_SUBJECT])
            for stream in streams:
                pulls.append(await stream.pull_subscribe(_SUBJECT, durable=_GROUP))
            yield NatsJetStream(pid, streams, pulls)
