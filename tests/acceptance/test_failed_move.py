"""A copy that is cut off half-way ends: brokers go on, and the next try copies everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from queenmq.errors import StorageUnavailable
from queenmq.storage.moving import mover
from queenmq.storage.moving.plan import Progress
from queenmq.storage.schema.migrator import migrate
from tests.support.broker import SOON_S
from tests.support.own_postgres import OwnPostgres, running_empty
from tests.support.waiting import wait_until_async

#: More than the sockets of both servers and all blocks between them take.
_MESSAGES = 100
_MESSAGE_BYTES = 1_000_000
#: A copy without progress in so many looks in a row stands still.
_LOOKS = 30
_GATE = 4711


@pytest.fixture(scope="module")
def other() -> Iterator[OwnPostgres]:
    """A server of its own, whose connections use TCP as those of distant servers do."""
    with running_empty(max_connections=30) as server:
        yield server


class StandingMove:
    """A move whose target takes no more rows, so that everything in between is full."""

    def __init__(self, source_url: str, target_url: str, target: asyncpg.Connection) -> None:
        self._urls = (source_url, target_url)
        self._target = target
        self._told = Progress("none")
        self._looks = 0
        self.task = asyncio.create_task(self._run())

    async def wait(self) -> None:
        """Wait until it stands still."""
        await wait_until_async(self._stands_still, timeout_s=SOON_S, what="a copy that waits")

    async def end(self) -> BaseException | None:
        """Return its error."""
        await wait_until_async(self.task.done, timeout_s=SOON_S, what="the end of the move")
        return (await asyncio.gather(self.task, return_exceptions=True))[0]

    async def _run(self) -> None:
        await mover.move(*self._urls, self._tell)

    def _tell(self, told: Progress) -> None:
        self._told, self._looks = told, 0

    async def _stands_still(self) -> bool:
        assert not self.task.done(), self.task.exception()
        waits = await self._target.fetchval(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        )
        self._looks += 1 if waits else 0
        return self._looks > _LOOKS


@pytest.fixture
async def target(other: OwnPostgres) -> AsyncIterator[asyncpg.Connection]:
    """A session on a migrated database that keeps every copy of messages waiting."""
    owner = await asyncpg.connect(other.superuser_url_of("postgres"))
    await owner.execute("DROP DATABASE IF EXISTS target WITH (FORCE)")
    await owner.execute("DROP ROLE IF EXISTS queen")
    await owner.execute("CREATE ROLE queen LOGIN")
    await owner.execute("CREATE DATABASE target OWNER queen TEMPLATE template0 ENCODING 'UTF8'")
    await migrate(other.url_of("target"))
    session = await asyncpg.connect(other.superuser_url_of("target"))
    await session.execute("SELECT pg_advisory_lock($1::bigint)", _GATE)
    await session.execute(
        "CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN PERFORM pg_advisory_xact_lock({_GATE}); RETURN NEW; END $$;"
        "CREATE TRIGGER hold BEFORE INSERT ON queen.messages FOR EACH ROW"
        " EXECUTE FUNCTION public.hold()"
    )
    yield session
    await session.close()
    await owner.close()


async def _fill(source: asyncpg.Connection) -> None:
    for _ in range(_MESSAGES):
        await source.execute(
            "SELECT queen.push('orders', to_json(repeat('x', $1)))", _MESSAGE_BYTES
        )


async def _expect_as_before(source: asyncpg.Connection) -> None:
    """Brokers serve again, and nothing is locked."""
    paused = await source.fetchval(
        "SELECT count(*) FROM queen.system_state"
        " WHERE name LIKE '%_maintenance' AND value::text <> 'false'"
    )
    assert paused == 0
    async with asyncio.timeout(SOON_S):
        await source.execute("SELECT queen.push('orders', '1')")


async def _expect_whole_copy(
    source_url: str, other: OwnPostgres, target: asyncpg.Connection
) -> None:
    """The same target takes the move once it takes rows again."""
    await target.execute("DROP TRIGGER hold ON queen.messages; SELECT pg_advisory_unlock_all()")
    assert await target.fetchval("SELECT count(*) FROM queen.messages") == 0
    compared = await mover.move(source_url, other.url_of("target"), lambda _: None)
    assert all(one.is_match for one in compared)
    assert await target.fetchval("SELECT count(*) FROM queen.messages") == _MESSAGES + 1


async def test_a_target_that_is_lost_ends_the_move(
    database_url: str, database: asyncpg.Connection, other: OwnPostgres, target: asyncpg.Connection
) -> None:
    await _fill(database)
    move = StandingMove(database_url, other.url_of("target"), target)
    await move.wait()
    await target.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY %'"
        " AND pid <> pg_backend_pid()"
    )
    assert isinstance(await move.end(), StorageUnavailable)
    await _expect_as_before(database)
    await _expect_whole_copy(database_url, other, target)


async def test_an_interrupted_move_ends(
    database_url: str, database: asyncpg.Connection, other: OwnPostgres, target: asyncpg.Connection
) -> None:
    await _fill(database)
    move = StandingMove(database_url, other.url_of("target"), target)
    await move.wait()
    move.task.cancel()
    assert isinstance(await move.end(), asyncio.CancelledError)
    await _expect_as_before(database)
    await _expect_whole_copy(database_url, other, target)
