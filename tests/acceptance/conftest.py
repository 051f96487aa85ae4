"""Fixtures of the acceptance tests: data directories and brokers that own their PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from queenmq.storage.embedded.layout import Layout
from queenmq.storage.embedded.postmaster import running_postmaster
from tests.support.broker import BrokerProcess
from tests.support.embedded_server import wait_gone


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data directory of the test's own; no server is left on it."""
    # Not pytest's own directory: its path is too long for a socket and closed to other users.
    home = Path(tempfile.mkdtemp(prefix="queen-test-"))
    try:
        yield home / "data"
    finally:
        pid = running_postmaster(Layout.of(home / "data").pgdata)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT)
            wait_gone({pid})
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def start_owner(data_dir: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Starts brokers with their own PostgreSQL on the test's data directory."""
    brokers: list[BrokerProcess] = []

    def start(*arguments: str, **environ: str) -> BrokerProcess:
        # Nobody reads the pipe of a running broker, and an outage makes a warning per request.
        words = ["--log-level", "error", "--data-dir", str(data_dir), *arguments]
        brokers.append(BrokerProcess(words, environ=environ))
        return brokers[-1]

    yield start
    for broker in brokers:
        if broker.process.poll() is None:
            broker.stop()
        for stream in (broker.process.stdout, broker.process.stderr):
            if stream is not None:
                stream.close()
