"""PGQueuer: its own queries on one connection per lane, jobs as messages."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import asyncpg

from benchmarks.peers.peer import Received, need_module, running_postgres

NAME = "PGQueuer"
PROMISES = (
    "a job queue: priorities, schedules and a log of every job; no groups or order per partition"
)

_ENTRYPOINT = "bench"


class PgQueuer:
    """Enqueue, dequeue and log through the library's own queries."""

    def __init__(self, server_pid: int, lanes: Sequence[object]) -> None:
        self.server_pid = server_pid
        self._lanes = lanes
        self._manager_id = uuid.uuid4()

    async def push(self, lane: int, bodies: Sequence[str]) -> None:
        count = len(bodies)
        payloads = [body.encode() for body in bodies]
        await self._lanes[lane].enqueue([_ENTRYPOINT] * count, payloads, [0] * count)

    async def receive(self, lane: int, count: int) -> list[Received]:
        from pgqueuer.ports.repository import EntrypointExecutionParameter

        jobs = await self._lanes[lane].dequeue(
            batch_size=count,
            entrypoints={_ENTRYPOINT: EntrypointExecutionParameter(concurrency_limit=0)},
            queue_manager_id=self._manager_id,
            global_concurrency_limit=None,
            heartbeat_timeout=timedelta(seconds=60),
        )
        return [Received(job, job.payload.decode()) for job in jobs]

    async def ack(self, lane: int, received: Sequence[Received]) -> None:
        await self._lanes[lane].log_jobs([(one.handle, "successful", None) for one in received])


@contextlib.asynccontextmanager
async def open_peer(home: Path, lanes: int) -> AsyncIterator[PgQueuer]:
    need_module("pgqueuer")
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    async with running_postgres(home) as (url, pid), contextlib.AsyncExitStack() as stack:
        made = []
        for _ in range(lanes):
            connection = await asyncpg.connect(url)
            stack.push_async_callback(connection.close)
            made.append(Queries(AsyncpgDriver(connection)))
        await made[0].install()
        yield PgQueuer(pid, made)
