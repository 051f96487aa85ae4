"""Fixtures of the acceptance tests: data directories and brokers that own their PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from queenmq import Queen
from queenmq.storage.embedded.layout import Layout
from queenmq.storage.embedded.postmaster import running_postmaster
from tests.acceptance.sql_side import PATIENT
from tests.support.broker import BrokerProcess, running_broker
from tests.support.embedded_server import wait_gone
from tests.support.folders import own_folder


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data directory of the test's own; no server is left on it."""
    with own_folder() as home:
        yield home / "data"
        pid = running_postmaster(Layout.of(home / "data").pgdata)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT)
            wait_gone({pid})


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
        broker.close()


@pytest.fixture
async def queen(broker: BrokerProcess) -> AsyncIterator[Queen]:
    """Our client on the shared broker."""
    async with Queen(broker.url) as client:
        yield client


@pytest.fixture(scope="module")
def patient_brokers(shared_database_url: str) -> Iterator[list[BrokerProcess]]:
    """Two brokers on the shared database that never look by themselves."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(running_broker(database_url=shared_database_url, **PATIENT))
            for _ in range(2)
        ]


@pytest.fixture
async def connect_shared(shared_database_url: str) -> AsyncIterator[Callable[[], object]]:
    """Opens sessions on the shared database."""
    async with contextlib.AsyncExitStack() as stack:

        async def open_session() -> asyncpg.Connection:
            connection = await asyncpg.connect(shared_database_url)
            stack.push_async_callback(connection.close, timeout=5)
            return connection

        yield open_session


@pytest.fixture
async def shared_database(shared_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session on the shared database."""
    connection = await asyncpg.connect(shared_database_url)
    yield connection
    await connection.close()
