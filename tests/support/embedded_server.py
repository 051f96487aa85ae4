"""Embedded servers for tests: brokers that may be killed, and looks at the processes they leave."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg

from queenmq.storage.embedded import EmbeddedPostgres
from queenmq.storage.embedded.layout import Layout
from queenmq.storage.embedded.postmaster import running_postmaster
from tests.support.waiting import wait_until

#: Seconds for anything that takes well under one on an idle machine.
SOON_S = 30.0

#: A broker for killing. Says when it is ready, then waits; with "fork" it has a worker as well.
BROKER = """
import json, os, signal, sys
from pathlib import Path
from queenmq.storage.embedded import EmbeddedPostgres
if "deaf" in sys.argv:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
server = EmbeddedPostgres(Path(sys.argv[1]), shared_buffers_mb=16)
server.start()
worker = os.fork() if "fork" in sys.argv else None
if worker == 0:
    signal.pause()
print(json.dumps({"url": server.url, "postmaster": server.postmaster_pid, "worker": worker}))
sys.stdout.flush()
signal.pause()
"""


class Broker:
    """A process of its own that owns an embedded server."""

    def __init__(self, data_dir: Path, *words: str, prefix: tuple[str, ...] = ()) -> None:
        self.layout = Layout.of(data_dir)
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", BROKER, str(data_dir), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.keeper: int | None = None
        self.postmaster: int | None = None
        self.worker: int | None = None
        self.url = ""

    def wait_ready(self) -> Broker:
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        said = json.loads(line)
        self.url, self.postmaster, self.worker = said["url"], said["postmaster"], said["worker"]
        self.keeper = int(self.layout.cluster_lock.read_text())
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        # Only what this broker started, and only while it still is what it was.
        pid = running_postmaster(self.layout.pgdata)
        for leftover in (self.worker, self.keeper if pid is not None else None, pid):
            if leftover is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(leftover, signal.SIGKILL)


@contextlib.contextmanager
def broker_maker() -> Iterator[Callable[..., Broker]]:
    """Give a factory of brokers; at the end none of them, nor their servers, is left."""
    brokers: list[Broker] = []

    def make(data_dir: Path, *words: str, prefix: tuple[str, ...] = ()) -> Broker:
        brokers.append(Broker(data_dir, *words, prefix=prefix))
        return brokers[-1]

    try:
        yield make
    finally:
        for broker in brokers:
            broker.close()


@contextlib.contextmanager
def server_maker() -> Iterator[Callable[..., EmbeddedPostgres]]:
    """Give a factory of small servers in this process; at the end all are stopped."""
    servers: list[EmbeddedPostgres] = []

    def make(data_dir: Path, **settings: str) -> EmbeddedPostgres:
        servers.append(EmbeddedPostgres(data_dir, shared_buffers_mb=16, extra_settings=settings))
        return servers[-1]

    try:
        yield make
    finally:
        for server in servers:
            server.stop()


async def fetch_value(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def store_rows(url: str, count: int = 100) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "CREATE TABLE kept AS SELECT generate_series(1, $1::int) AS n", count
        )
    finally:
        await connection.close()


async def count_rows(url: str) -> object:
    return await fetch_value(url, "SELECT count(*) FROM kept")


def is_running(pid: int) -> bool:
    """Say whether a process does anything still; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def family_of(postmaster: int) -> set[int]:
    """Return a postmaster and its children."""
    # Not ps: small images do not have it.
    family = {postmaster}
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            if f"PPid:\t{postmaster}\n" in status.read_text():
                family.add(int(status.parent.name))
    return family


def status_of(pid: int) -> dict[str, list[str]]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}


def wait_gone(pids: set[int]) -> None:
    wait_until(lambda: not any(map(is_running, pids)), timeout_s=SOON_S, what=f"{pids} to end")


def keeper_of(data_dir: Path) -> int:
    return int(Layout.of(data_dir).cluster_lock.read_text())
