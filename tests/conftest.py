"""Fixtures of all tests: an embedded PostgreSQL per run, a database per test, a shared broker."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from xdist.scheduler import LoadFileScheduling

from queenmq.storage.schema.migrator import migrate
from tests.support.broker import Api, BrokerProcess, running_broker
from tests.support.own_postgres import OwnPostgres, made_cluster, running_copy
from tests.support.shared_postgres import SharedPostgres, running_postgres

_databases = itertools.count(1)
_TEMPLATE = "template_queen"


_SPARK = "tests/spark/test_"
#: Files of Spark whose tests need no session. They run like all others.
_NO_SESSION = (
    "archive_command",
    "idle_streams",
    "java_runtime",
    "retention",
    "roles",
    "stream_history",
    "stream_reader",
)
#: Files that share a session of their own: lakes and what reads and writes them.
_LAKES = ("analytics", "archive", "audit", "include", "lake", "load", "object", "replay")


class _FilesAndSpark(LoadFileScheduling):
    """Keeps tests together when they are spread over processes: those of a file, the rules of the
    tree, which parse it once, and those of a session of Spark. There are two such sessions, which
    take about as long as each other.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/tidy/"):
            return "tidy"
        name = nodeid.removeprefix(_SPARK)
        if name == nodeid or name.startswith(_NO_SESSION):
            return super()._split_scope(nodeid)
        return "spark-lakes" if name.startswith(_LAKES) else "spark"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    return _FilesAndSpark(config, log)


@pytest.fixture(scope="session")
def postgres() -> Iterator[SharedPostgres]:
    """A PostgreSQL server for the whole run."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    """A server with our schema, to be copied."""
    with made_cluster() as home:
        yield home


@pytest.fixture
def server(cluster: Path) -> Iterator[OwnPostgres]:
    """A PostgreSQL server of the test's own, which it may stop, hang and break."""
    with running_copy(cluster) as own:
        yield own


@pytest.fixture(scope="session")
def template(postgres: SharedPostgres) -> str:
    """A migrated database that the others are copied from."""
    postgres.create(_TEMPLATE, template=None)
    asyncio.run(migrate(postgres.url_of(_TEMPLATE)))
    return _TEMPLATE


@contextlib.contextmanager
def _database(postgres: SharedPostgres, template: str | None) -> Iterator[str]:
    name = f"test_{next(_databases)}"
    postgres.create(name, template=template)
    try:
        yield postgres.url_of(name)
    finally:
        postgres.drop(name)


@pytest.fixture
def empty_database_url(postgres: SharedPostgres) -> Iterator[str]:
    """A database without our schema."""
    with _database(postgres, None) as url:
        yield url


@pytest.fixture
def database_url(postgres: SharedPostgres, template: str) -> Iterator[str]:
    """A migrated database of the test's own."""
    with _database(postgres, template) as url:
        yield url


@pytest.fixture
def superuser_url(postgres: SharedPostgres, database_url: str) -> str:
    """The test's own database for a superuser: for what its owner may not do."""
    return postgres.superuser_url_of(urlsplit(database_url).path.strip("/"))


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session on the test's own database."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def connect(database_url: str) -> AsyncIterator[Callable[[], object]]:
    """Opens more sessions on the test's own database."""
    async with contextlib.AsyncExitStack() as stack:

        async def open_session() -> asyncpg.Connection:
            connection = await asyncpg.connect(database_url)
            stack.push_async_callback(connection.close, timeout=5)
            return connection

        yield open_session


@pytest.fixture(scope="session")
def shared_database_url(postgres: SharedPostgres, template: str) -> Iterator[str]:
    """A migrated database that tests share; they keep apart by queue names."""
    with _database(postgres, template) as url:
        yield url


@pytest.fixture(scope="session")
def broker(shared_database_url: str) -> Iterator[BrokerProcess]:
    """A broker that tests share; they keep apart by queue names."""
    with running_broker(database_url=shared_database_url) as process:
        yield process


@pytest.fixture
async def api(broker: BrokerProcess) -> AsyncIterator[Api]:
    """The shared broker's HTTP API."""
    client = Api(broker.url)
    yield client
    await client.close()


@pytest.fixture
def start_broker(database_url: str) -> Iterator[Callable[..., BrokerProcess]]:
    """Starts brokers on the test's own database."""
    with contextlib.ExitStack() as stack:

        def start(**environ: str) -> BrokerProcess:
            return stack.enter_context(running_broker(database_url=database_url, **environ))

        yield start
