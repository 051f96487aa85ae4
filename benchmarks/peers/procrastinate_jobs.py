"""procrastinate: its own job manager on a pool, jobs as messages, one job a fetch."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from benchmarks.peers.peer import Received, need_module, running_postgres

NAME = "procrastinate"
PROMISES = (
    "a job queue: locks, retries and an event log of every job; a worker takes one job a call"
)

_QUEUE, _TASK = "bench", "bench"


class Procrastinate:
    """Defer, fetch and finish through the library's own manager."""

    def __init__(self, server_pid: int, manager: object, worker_id: int) -> None:
        self.server_pid = server_pid
        self._manager = manager
        self._worker_id = worker_id

    async def push(self, lane: int, bodies: Sequence[str]) -> None:
        from procrastinate.jobs import Job

        jobs = [
            Job(
                queue=_QUEUE,
                lock=None,
                queueing_lock=None,
                task_name=_TASK,
                task_kwargs={"body": body},
            )
            for body in bodies
        ]
        await self._manager.batch_defer_jobs_async(jobs)

    async def receive(self, lane: int, count: int) -> list[Received]:
        job = await self._manager.fetch_job([_QUEUE], self._worker_id)
        return [Received(job, job.task_kwargs["body"])] if job else []

    async def ack(self, lane: int, received: Sequence[Received]) -> None:
        from procrastinate.jobs import Status

        for one in received:
            await self._manager.finish_job(one.handle, Status.SUCCEEDED, delete_job=True)


@contextlib.asynccontextmanager
async def open_peer(home: Path, lanes: int) -> AsyncIterator[Procrastinate]:
    need_module("procrastinate")
    from procrastinate import App, PsycopgConnector

    async with running_postgres(home) as (url, pid):
        app = App(connector=PsycopgConnector(conninfo=url, min_size=lanes, max_size=lanes))
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            yield Procrastinate(pid, app.job_manager, await app.job_manager.register_worker())
