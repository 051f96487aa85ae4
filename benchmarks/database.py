"""A PostgreSQL to measure: embedded, migrated, and filled in bulk through Queen's own functions."""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import asyncpg

from benchmarks.broker import BenchmarkError
from benchmarks.scenario import HERE, PAYLOAD
from queenmq.engine.requests import PartitionKey
from queenmq.storage.embedded import EmbeddedPostgres
from queenmq.storage.schema.migrator import migrate

#: For an experiment's own connections beside those of a broker.
_CONNECTIONS_MAX = 150
#: Partitions made and messages pushed in one call: large enough that calls do not count.
_PARTITIONS_PER_CALL = 10_000
_MESSAGES_PER_CALL = 50_000
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@functools.cache
def queries() -> dict[str, str]:
    """The named queries of `sql/queries.sql`."""
    parts = _NAME.split((HERE / "sql" / "queries.sql").read_text())
    return dict(zip(parts[1::2], (text.strip() for text in parts[2::2]), strict=True))


@dataclass(frozen=True)
class BenchDatabase:
    """A migrated database, and its server's directory."""

    url: str
    #: The same over TCP, with a password: for clients that cannot use sockets.
    tcp_url: str
    data_dir: Path

    @contextlib.asynccontextmanager
    async def connections(self, count: int) -> AsyncIterator[list[asyncpg.Connection]]:
        """Sessions for an experiment's own calls."""
        async with contextlib.AsyncExitStack() as stack:
            opened = []
            for _ in range(count):
                connection = await asyncpg.connect(self.url)
                stack.push_async_callback(connection.close, timeout=10)
                opened.append(connection)
            yield opened

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        """One such session."""
        async with self.connections(1) as opened:
            yield opened[0]

    async def add_function(self, name: str) -> None:
        """Create the function in a file of `sql/`."""
        async with self.connection() as connection:
            await connection.execute((HERE / "sql" / f"{name}.sql").read_text())

    async def make_partitions(self, keys: Sequence[PartitionKey]) -> list[UUID]:
        """Create partitions; their ids in the order of the keys."""
        found: dict[PartitionKey, UUID] = {}
        async with self.connection() as connection:
            for first in range(0, len(keys), _PARTITIONS_PER_CALL):
                part = keys[first : first + _PARTITIONS_PER_CALL]
                columns = [key.queue for key in part], [key.partition for key in part]
                for row in await connection.fetch(queries()["ensure_partitions"], *columns):
                    found[PartitionKey(row[0], row[1])] = row[2]
        return [found[key] for key in keys]

    async def push(self, partition_ids: Sequence[UUID], *, each: int) -> None:
        """Push that many messages to each partition."""
        ordered = sorted(partition_ids)
        partitions = max(1, _MESSAGES_PER_CALL // each)
        async with self.connection() as connection:
            for first in range(0, len(ordered), partitions):
                part = ordered[first : first + partitions]
                for done in range(0, each, _MESSAGES_PER_CALL):
                    count = min(_MESSAGES_PER_CALL, each - done)
                    await _push(connection, part, count)

    async def fill(
        self,
        queue: str,
        partitions: int,
        *,
        batches: int,
        each: int,
        age: timedelta = timedelta(0),
    ) -> int:
        """Insert messages of about 200 bytes by SQL, in batches of so many for each partition,
        a transaction per batch, the first one so old and the others evenly since then; how many
        it were.
        """
        await self.make_partitions(keys_of(queue, partitions))
        async with self.connection() as connection:
            for number in range(batches):
                left = age * (batches - number) / batches
                await connection.execute(queries()["fill"], queue, each, left)
        return partitions * batches * each

    async def settle(self) -> None:
        """Do at once what autovacuum would do in the middle of a measurement."""
        async with self.connection() as connection:
            await connection.execute(queries()["settle"])


async def _push(connection: asyncpg.Connection, part: Sequence[UUID], each: int) -> None:
    outcomes = await connection.fetchval(queries()["push_evenly"], part, each, PAYLOAD)
    if outcomes != "q" * len(part) * each:
        raise BenchmarkError("not all messages of the set-up were stored")


def keys_of(queue: str, partitions: int) -> list[PartitionKey]:
    """The keys of a queue with that many partitions."""
    return [PartitionKey(queue, f"p{number}") for number in range(partitions)]


@contextlib.asynccontextmanager
async def running_database(*, preload: str = "") -> AsyncIterator[BenchDatabase]:
    """An empty database with our schema, gone without a trace at the end.

    preload names a library that the server loads at its start.
    """
    settings = {"shared_preload_libraries": preload} if preload else {}
    home = Path(tempfile.mkdtemp(prefix="queen-bench-"))
    try:
        server = EmbeddedPostgres(
            home / "data", max_connections=_CONNECTIONS_MAX, extra_settings=settings
        )
        with server:
            await migrate(server.socket_url)
            yield BenchDatabase(server.socket_url, server.url, home / "data")
    finally:
        shutil.rmtree(home, ignore_errors=True)
